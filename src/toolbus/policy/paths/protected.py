"""This is not a sandbox: it names the files that no judged tool may write, whatever the rules say.

They are the files of policies, trust, pins and state, the settings of agents' hosts, and the
programs that read them: this package and its interpreter's libraries. A program that runs code may
do all that its user may. Not seen are hard links to the package, and what archives and other
programs put into a folder.
"""

from __future__ import annotations

import os
import posixpath
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING

from toolbus.policy.commands import PathUse
from toolbus.policy.paths.name_globs import fold
from toolbus.policy.paths.protected_names import (
    SETTINGS,
    files_of_installation,
    holds_settings,
    is_among,
    is_setting,
    reading_folders,
    settings_in,
)
from toolbus.policy.paths.relinking import COPIES_LINKS, GIT_FILLS
from toolbus.policy.paths.store_files import is_of_store
from toolbus.policy.paths.targets import argument_word, find_targets
from toolbus.policy.paths.touching import Touch
from toolbus.store.sqlite.files import open_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from toolbus.policy.facts import CallPart
    from toolbus.policy.paths.resolving import PathResolver, ResolvedPath
    from toolbus.policy.paths.targets import Targets


LONGEST_PATH = 4_096
"""Characters of a text that may be a path (Linux's PATH_MAX)."""

_FORMATTERS = frozenset({"black", "gofmt", "isort", "rustfmt", "ruff", "shfmt"})
"""Of a folder they write files of their language, which is none that settings are written in."""
_MAKES_LINKS = frozenset({"ln", "tar", "gtar", "bsdtar", "unzip", "7z", "cpio", "pax", "rsync"})


_MOST_COPIED = 2_000
"""Files of a folder that is copied onto another one, of which the names are compared."""
_LEAVES_CONTENTS = frozenset({"chmod", "chgrp", "chown", "mkdir", "touch"})
_PLACE_BY_NAME = frozenset({"cp", "gcp", "install", "ln", "mv", "rsync", "scp"})


class ProtectedFiles:
    """Files and folders that no judged tool writes: those of every installation, and *files*."""

    def __init__(self, files: Iterable[Path] = ()) -> None:
        written = [*map(str, files), *files_of_installation()]
        paths = {each for path in written for each in (posixpath.abspath(path), _real(path))}
        self._paths = frozenset(paths - {"/", str(Path.home())})
        self._folded = frozenset([fold(path) for path in self._paths])

    def judge(self, part: CallPart, others: Sequence[CallPart], resolver: PathResolver) -> Touch:
        """Return whether *part* writes, moves or removes such a file: "yes" is never allowed.

        "maybe" is to be asked about: what it writes is not known, or one of the *others* of its
        line may make a link before.
        """
        doubt = ""
        uses = _changing_uses(part)
        for use, is_gone in uses:
            touch = self._judge_use(use, part, resolver, is_gone=is_gone)
            if touch.answer == "yes":
                return touch
            doubt = doubt or touch.reason
        if uses and not doubt and _is_unsettled(part, others, resolver):
            doubt = "another part of the command may make a link to what only people change"
        return Touch("maybe", "", "", doubt) if doubt else Touch("no")

    def judge_text(self, text: str, resolver: PathResolver) -> Touch:
        """Return whether *text*, an argument of a tool that is no shell, may be such a file."""
        if not 0 < len(text) <= LONGEST_PATH or "\n" in text or "\0" in text:
            return Touch("no")
        for resolved in find_targets(PathUse(argument_word(text), "write"), resolver).paths:
            if name := self._protected_name(resolved, resolver):
                return Touch("maybe", name, "", f"{text!r} is what only people change")
        return Touch("no")

    def _judge_use(
        self, use: PathUse, part: CallPart, resolver: PathResolver, *, is_gone: bool
    ) -> Touch:
        targets = find_targets(use, resolver)
        doubt = targets.doubt
        if use.word.known and not resolver.folders(use.folder).paths:
            # Where nobody knows the folder, the name tells as much as can be asked about.
            doubt = doubt if self._may_be_called(use.word.text) else ""
        for resolved in _places(use, part, targets):
            if not resolved.path:
                continue
            if name := self._protected_name(resolved, resolver):
                return Touch("yes", name)
            # An earlier part of the line may make the folder that something is placed in.
            if _may_be_folder(resolved.path, part):
                touch = self._judge_folder(resolved.path, part, resolver, is_gone=is_gone)
                if touch.answer == "yes":
                    return touch
                doubt = doubt or touch.reason
        return Touch("maybe", "", "", doubt) if doubt else Touch("no")

    def _judge_folder(
        self, folder: str, part: CallPart, resolver: PathResolver, *, is_gone: bool
    ) -> Touch:
        """Judge what is written into the real *folder*, or removed with it."""
        below = self._protected_below(folder, resolver)
        if below and is_gone:
            return Touch("yes", below)
        for placed in _placed_names(folder, part, resolver):
            if self._is_protected(placed, resolver, everywhere=False):
                return Touch("yes", placed)
        if doubt := _doubt_of_settings(folder, part, resolver):
            return Touch("maybe", folder, "", doubt)
        if below and part.action and not _leaves_others(part, resolver):
            return Touch("maybe", below, "", f"it may write {below!r}")
        return Touch("no")

    def _may_be_called(self, text: str) -> bool:
        """Return whether the relative path *text* may lead to such a file, from some folder on."""
        names = [name for name in text.rpartition("..")[2].split("/") if name not in {"", "."}]
        end = "/" + "/".join(names)
        return is_setting(fold(end)) or any(path.endswith(end) for path in self._paths)

    def _protected_name(self, resolved: ResolvedPath, resolver: PathResolver) -> str:
        for name in resolved.names:
            if self._is_protected(name, resolver, everywhere=True):
                return name
        path = resolved.path
        return path if is_of_store(path) or self._is_hard_link(path, resolver) else ""

    def _is_protected(self, name: str, resolver: PathResolver, *, everywhere: bool) -> bool:
        """Return whether *name* is such a file; settings in any folder only if *everywhere*.

        Another spelling is the same file on many systems, so it counts on all of them.
        """
        folders = None if everywhere else set(map(fold, reading_folders(resolver)))
        folded = fold(name)
        return is_among(folded, self._folded) or is_setting(folded, folders)

    def _protected_below(self, folder: str, resolver: PathResolver) -> str | None:
        """Return such a file in *folder* that is there, None if there is none."""
        start = f"{folder.rstrip('/')}/"
        inside = [f"{start}{rest}" for rest in settings_in(posixpath.basename(folder))]
        for path in (*self._paths, *_settings(resolver), *inside, *map(str, open_files())):
            if path.startswith(start) and posixpath.lexists(path):
                return path
        return None

    def _is_hard_link(self, path: str, resolver: PathResolver) -> bool:
        status = _status(path)
        if status is None or not S_ISREG(status.st_mode) or status.st_nlink < 2:  # noqa: PLR2004
            return False
        files = [*self._paths, *_settings(resolver)]
        return any(
            (each.st_dev, each.st_ino) == (status.st_dev, status.st_ino)
            for each in map(_status, files)
            if each is not None
        )


def _settings(resolver: PathResolver) -> list[str]:
    return [posixpath.join(each, name) for each in reading_folders(resolver) for name in SETTINGS]


def _leaves_others(part: CallPart, resolver: PathResolver) -> bool:
    """Return whether *part* leaves alone what it does not name in a folder that it writes to."""
    if part.action[0] in _LEAVES_CONTENTS | _FORMATTERS:
        return True
    is_named = part.action[0] in _PLACE_BY_NAME and not _gets_results(part)
    return is_named and all(_is_known(use, resolver) for use in part.paths)


def _gets_results(part: CallPart) -> bool:
    """Return whether `find` says which files *part* writes."""
    return part.command is not None and any(word.text == "{}" for word in part.command.words)


def _places(use: PathUse, part: CallPart, targets: Targets) -> tuple[ResolvedPath, ...]:
    """Return where *use* may lead; a program that is told a folder does not run elsewhere."""
    is_told = part.command is not None and part.command.folder != use.folder
    return targets.paths[:1] if is_told and not use.word.pattern else targets.paths


def _changing_uses(part: CallPart) -> list[tuple[PathUse, bool]]:
    """Return what *part* changes, and whether it is gone afterwards, with all in it."""
    read = {use.word for use in part.paths if use.kind == "read-tree"}
    uses = []
    for use in part.paths:
        if use.kind in {"write", "destroy"}:
            # `mv` reads and writes what it moves.
            moved = part.action[:1] == ("mv",) and use.word in read
            uses.append((use, use.kind == "destroy" or moved))
        elif part.action[:1] == ("ln",):
            uses.append((use, False))
    return uses


def _is_unsettled(part: CallPart, others: Sequence[CallPart], resolver: PathResolver) -> bool:
    if part.command is None or part.command.settled:
        return False
    return any(_makes_links(other, resolver) for other in others)


def _makes_links(part: CallPart, resolver: PathResolver) -> bool:
    program, subcommand = (*part.action, "", "")[:2]
    if program == "cp":
        return bool(part.options & COPIES_LINKS)
    if program == "git":
        return subcommand not in GIT_FILLS
    if program == "mv":
        moved = [find_targets(use, resolver) for use, is_gone in _changing_uses(part) if is_gone]
        paths = [path for targets in moved for path in targets.paths]
        plain = all(each.path == each.entry and posixpath.isfile(each.path) for each in paths)
        return not (paths and plain and not any(targets.doubt for targets in moved))
    return program in _MAKES_LINKS


def _is_known(use: PathUse, resolver: PathResolver) -> bool:
    return not find_targets(use, resolver).doubt


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - texts all along
    except (OSError, ValueError):
        return None


def _real(path: str) -> str:
    return os.path.realpath(path)


def _may_be_folder(path: str, part: CallPart) -> bool:
    """Return whether *path* is a folder, or an earlier part of the line may have made it one."""
    is_place = not _PLACE_BY_NAME.isdisjoint(part.action[:1])
    return is_place or holds_settings(path) or posixpath.isdir(path)


def _placed_names(folder: str, part: CallPart, resolver: PathResolver) -> Iterator[str]:
    """Yield the names that files get which *part* copies or moves into *folder*."""
    if part.action[:1] and part.action[0] not in _PLACE_BY_NAME:
        return
    for use in part.paths:
        if use.kind not in {"read", "read-tree"}:
            continue
        for resolved in find_targets(use, resolver).paths:
            name = posixpath.basename(use.word.text.rstrip("/"))
            yield posixpath.join(folder, name)
            yield posixpath.join(folder, posixpath.basename(resolved.entry))
            for inner in islice(_names_below(resolved.path), _MOST_COPIED):
                yield posixpath.join(folder, inner)
                yield posixpath.join(folder, name, inner)


def _doubt_of_settings(folder: str, part: CallPart, resolver: PathResolver) -> str:
    """Return why it is not known what *part* makes of *folder*, if settings may be in there."""
    program = "".join(part.action[:1])
    folders = (folder, *_placed_names(folder, part, resolver))
    if program in _LEAVES_CONTENTS or not any(map(holds_settings, folders)):
        return ""
    if program == "ln":
        return "settings may be in the folder that it links to"
    if program in _PLACE_BY_NAME:
        sources = [use for use in part.paths if use.kind in {"read", "read-tree"}]
        entries = [each.entry for use in sources for each in find_targets(use, resolver).paths]
        is_link = any(map(posixpath.islink, entries))
        return "settings may be in the folder that a link leads to" if is_link else ""
    return "settings may be among what it puts there"


def _names_below(folder: str) -> Iterator[str]:
    for path, _, names in os.walk(folder):
        for name in names:
            yield posixpath.relpath(posixpath.join(path, name), folder)

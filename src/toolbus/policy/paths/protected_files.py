"""Protected files, which no judged tool may write or read under any rule; this is not a sandbox.

Only people may write the files of policies, trust, pins and state, the settings of agents' hosts,
and the code that reads them: this package and its interpreter's libraries. A program that runs code
can do anything its user can. Hard links to the package, and files that archives and other programs
put into a folder, are not detected.

No tool may read the secrets that authenticate a person. The webhook's secret, a `.secret` or a
`.key` in the configuration folder, can answer questions; login tokens can act as the person; the
key of hidden values can reveal short values from a store. While such a file is missing, its folder
may be read. A name computed by a program is not detected.
"""

from __future__ import annotations

import os
import posixpath
import site
import sys
import sysconfig
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING

from toolbus.policy.commands import CHANGES, PathUse
from toolbus.policy.paths.file_access import NO_ACCESS, FileAccess, doubtful, touches
from toolbus.policy.paths.name_globs import fold, glob_quoted, path_components
from toolbus.policy.paths.path_patterns import is_in, path_patterns
from toolbus.policy.paths.targets import argument_word, find_targets
from toolbus.policy.projects import file_status
from toolbus.settings.user_folders import (
    approvals_secret,
    config_folder,
    logins_folder,
    state_folder,
    value_key_file,
)
from toolbus.store.chain import ANCHOR
from toolbus.store.sqlite.files import open_files
from toolbus.store.sqlite.schema import APPLICATION_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.policy.facts import CallPart
    from toolbus.policy.paths.path_patterns import PathPattern
    from toolbus.policy.paths.resolver import PathResolver, ResolvedPath


PACKAGE = Path(__file__).parents[2]
"""The folder of `toolbus` itself."""

LONGEST_PATH = 4_096
"""Characters of a text that may be a path (Linux's PATH_MAX)."""

_LONGEST_NAME = 255
"""Bytes of a file's name: a longer text, such as a mail, names no file."""

SETTINGS = (
    "toolbus.toml",
    "toolbus.lock",
    ".mcp.json",
    ".claude.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/hooks",
    ".codex/config.toml",
    ".codex/hooks.json",
    ".config/opencode",
    ".copilot/config.json",
    ".copilot/hooks",
    ".copilot/settings.json",
    ".copilot/mcp-config.json",
    ".cursor/hooks.json",
    ".cursor/mcp.json",
    ".gemini/extensions",
    ".gemini/settings.json",
    ".gemini/trustedFolders.json",
    ".github/copilot",
    ".github/hooks",
    ".opencode/opencode.json",
    ".opencode/plugin",
    ".opencode/plugins",
    "opencode.json",
    "opencode.jsonc",
    ".pi/agent",
    ".pi/extensions",
    ".pi/settings.json",
    ".vibe/config.toml",
    ".vibe/hooks.toml",
    ".vibe/trusted_folders.toml",
    ".vscode/mcp.json",
)
"""Settings of agents' hosts and of toolbus, by their names in a project or a home folder.

They are protected in every folder: a host started elsewhere reads the nearest files.
"""

_SETTINGS = frozenset(map(fold, SETTINGS))
_FOLDERS = frozenset([name.partition("/")[0] for name in SETTINGS if "/" in name])

_FORMATTERS = frozenset({"black", "gofmt", "isort", "rustfmt", "ruff", "shfmt"})
"""Programs that write only files of their language in a folder; no settings use these languages."""
_LEAVES_CONTENTS = frozenset({"chmod", "chgrp", "chown", "mkdir", "touch"})
_PLACE_BY_NAME = frozenset({"cp", "gcp", "install", "ln", "mv", "rsync", "scp"})
_MOST_COPIED = 2_000
"""Files of a copied folder whose names are compared."""

_SQLITE = b"SQLite format 3\0"
_ID = slice(68, 72)  # https://sqlite.org/fileformat2.html#the_database_header
_BESIDE = ("-wal", "-shm", "-journal")
_MOVING = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")


class ProtectedFiles:
    """Files and folders that no judged tool may write: *files* and those of the installation."""

    def __init__(self, files: Iterable[Path] = ()) -> None:
        written = [*map(str, files), *_files_of_installation()]
        paths = {each for path in written for each in (posixpath.abspath(path), _real(path))}
        self._paths = frozenset(paths - {"/", str(Path.home())})
        self._folded = frozenset([fold(path) for path in self._paths])

    def judge(self, part: CallPart, resolver: PathResolver) -> FileAccess:
        """Return whether *part* writes, moves or removes a protected file: "yes" is always denied.

        "maybe" requires approval: a written file is unknown, or another part of the line may create
        a link first.
        """
        doubt = ""
        for use, is_gone in _changing_uses(part):
            access = self._judge_use(use, part, resolver, is_gone=is_gone)
            if access.answer == "yes":
                return access
            doubt = doubt or access.reason
            if not part.paths_stable:
                doubt = doubt or "another part of the command may link to a protected file"
        return doubtful(doubt)

    def judge_text(self, text: str, resolver: PathResolver) -> FileAccess:
        """Return whether *text*, an argument of a tool other than a shell, may be protected."""
        if not 0 < len(text) <= LONGEST_PATH or "\n" in text or "\0" in text:
            return NO_ACCESS
        for resolved in find_targets(PathUse(argument_word(text), "write"), resolver).paths:
            if name := self._protected_name(resolved, resolver):
                return FileAccess("maybe", name, "", f"only a person may change {text!r}")
        return NO_ACCESS

    def _judge_use(
        self, use: PathUse, part: CallPart, resolver: PathResolver, *, is_gone: bool
    ) -> FileAccess:
        # Complex because a certain answer for any target beats a doubt, so one loop checks all.
        targets = find_targets(use, resolver)
        doubt, places = targets.doubt, targets.paths
        if use.word.known and not resolver.folders(use.folder).paths:
            # In an unknown folder, only the name can be checked.
            doubt = doubt if self._may_be_called(use.word.text) else ""
        if part.command is not None and part.command.folder != use.folder and not use.word.pattern:
            places = places[:1]  # A program with an explicit folder does not run elsewhere.
        for resolved in [each for each in places if each.path]:
            if name := self._protected_name(resolved, resolver):
                return FileAccess("yes", name)
            access = self._judge_folder(resolved.path, part, resolver, is_gone=is_gone)
            if access.answer == "yes":
                return access
            doubt = doubt or access.reason
        return doubtful(doubt)

    def _judge_folder(
        self, folder: str, part: CallPart, resolver: PathResolver, *, is_gone: bool
    ) -> FileAccess:
        """Judge writes into the real *folder*, or its removal."""
        # Complex because denials come before questions, in order of certainty.
        program = "".join(part.action[:1])
        if not _may_be_folder(folder, program):
            return NO_ACCESS
        below = self._protected_below(folder, resolver)
        if below and is_gone:
            return FileAccess("yes", below)
        placed = list(_placed_names(folder, part, resolver))
        for name in placed:
            if self._is_protected(name, resolver, everywhere=False):
                return FileAccess("yes", name)
        doubt = ""
        if program not in _LEAVES_CONTENTS:
            if any(map(_holds_settings, (folder, *placed))) and not _copies_files(part, resolver):
                doubt = "it may put settings there"
            elif below and program not in {"", *_FORMATTERS} and not _names_all(part, resolver):
                doubt = f"it may write {below!r}"
        return doubtful(doubt)

    def _may_be_called(self, text: str) -> bool:
        """Return whether the relative path *text* may be a protected file in some folder."""
        end = "/" + "/".join(path_components(text.rpartition("..")[2]))
        return _is_setting(fold(end)) or any(path.endswith(fold(end)) for path in self._folded)

    def _protected_name(self, resolved: ResolvedPath, resolver: PathResolver) -> str:
        for name in resolved.names:
            if self._is_protected(name, resolver, everywhere=True):
                return name
        path = resolved.path
        if is_of_store(path) or self._is_hard_link(path, resolver):
            return path
        return ""

    def _is_protected(self, name: str, resolver: PathResolver, *, everywhere: bool) -> bool:
        """Return whether *name* is protected; settings in any folder only if *everywhere*.

        Other spellings name the same file on many systems, so they count on all systems.
        """
        folders = None if everywhere else _reading_folders(resolver)
        path = folded = fold(name)
        while path and path not in self._folded:
            path = path.rpartition("/")[0]
        return bool(path) or _is_setting(folded, folders)

    def _protected_below(self, folder: str, resolver: PathResolver) -> str | None:
        """Return an existing protected file in *folder*, or None."""
        folded = fold(folder)
        listed = [
            path for path in (*self._paths, *map(str, open_files())) if is_in(fold(path), folded)
        ]
        inner = [each for each in _reading_folders(resolver) if is_in(fold(each), folded)]
        settings = [posixpath.join(each, name) for each in inner for name in SETTINGS]
        named = [name.partition("/")[2] for name in SETTINGS if _is_in_folder(name, folded)]
        settings += [posixpath.join(folder, name) for name in named]
        return next(filter(posixpath.lexists, (*listed, *settings)), None)

    def _is_hard_link(self, path: str, resolver: PathResolver) -> bool:
        """Return whether *path* is a hard link to a protected file."""
        status = file_status(path)
        if status is None or not S_ISREG(status.st_mode) or status.st_nlink < 2:  # noqa: PLR2004
            return False
        settings = [
            posixpath.join(f, name) for f in _reading_folders(resolver) for name in SETTINGS
        ]
        known = [file_status(each) for each in (*self._paths, *settings)]
        return any(each is not None and posixpath.samestat(each, status) for each in known)


def is_of_store(path: str) -> bool:
    """Return whether the real *path* is a store, its log or index, or a list of its anchors."""
    stores = [path[: -len(end)] for end in _BESIDE if path.lower().endswith(end)] or [path]
    return any(Path(store) in open_files() or _has_our_header(store) for store in stores)


def judge_reading(uses: Iterable[PathUse], resolver: PathResolver) -> FileAccess:
    """Return whether *uses* read a secret or a folder that contains one; "yes" is certain."""
    patterns, doubt = _secret_patterns(*map(os.environ.get, _MOVING)), ""
    for use in uses:
        access = touches(use, patterns, resolver)
        if access.answer == "yes":
            return access._replace(reason=f"no tool may read {access.path}")
        # A path that cannot be followed, such as one through /proc, may lead to a secret.
        for resolved in find_targets(use, resolver).paths:
            doubt = doubt or resolved.doubt
    return doubtful(doubt)


def judge_secret_text(text: str, resolver: PathResolver) -> FileAccess:
    """Return whether *text*, an argument of a tool other than a shell, may be a secret."""
    names = text.split("/")
    # Programs that shorten `NAME/..` without a look at the file reach another one.
    if ".." not in names and len(max(names, key=len).encode(errors="replace")) > _LONGEST_NAME:
        return NO_ACCESS
    access = judge_reading([PathUse(argument_word(text), "read")], resolver)
    if access.answer != "yes":
        return access
    return FileAccess("maybe", access.path, "", f"{text!r} is a secret that no tool may read")


@lru_cache(maxsize=4)
def _secret_patterns(*_: str | None) -> tuple[PathPattern, ...]:
    """Return the patterns of secrets; cached by the variables that determine their folders."""
    try:
        folders = approvals_secret().parent, logins_folder(), value_key_file().parent
    except RuntimeError:
        return ()  # Without a home folder there are no secrets.
    # The unresolved path as well: a link in it may lead elsewhere by now.
    written = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    config, logins, keys, base = [glob_quoted(str(each)) for each in (*folders, written)]
    secrets = "**/*.{secret,key}"
    texts = [f"{config}/{secrets}", f"{base}/toolbus/{secrets}", f"{logins}/**", f"{keys}/*.key"]
    return path_patterns(texts, "/")


def _real(path: str) -> str:
    return os.path.realpath(path)


def _has_our_header(path: str) -> bool:
    # Never called for a store open in this process: closing the file again would release SQLite's
    # locks on it (https://sqlite.org/howtocorrupt.html, 2.2).
    try:
        if not Path(path).is_file():
            return False
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a text all along
            header = file.read(_ID.stop)
    except (OSError, ValueError):
        return False
    is_store = header.startswith(_SQLITE) and header[_ID] == APPLICATION_ID.to_bytes(4, "big")
    return is_store or header.startswith(ANCHOR)


def _files_of_installation() -> Iterator[str]:
    """Yield the protected paths of every installation."""
    if (folder := config_folder()) is not None:
        yield str(folder)
    with suppress(RuntimeError):
        yield str(state_folder())
    yield str(PACKAGE)
    # Text written to a terminal appears on a person's screen, among questions.
    yield "/dev/pts"
    yield from [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    yield site.getusersitepackages()
    yield posixpath.join(sys.prefix, "pyvenv.cfg")
    yield sys.executable
    yield posixpath.join(sysconfig.get_path("scripts"), "toolbus")


def _reading_folders(resolver: PathResolver) -> tuple[str, ...]:
    """Return the folders where a host started here looks for its settings."""

    def find() -> tuple[str, ...]:
        starts = [resolver.place.folder, resolver.home(), str(Path.cwd())]
        folders = [each for path in starts if path for each in (Path(path), *Path(path).parents)]
        return tuple(dict.fromkeys(map(str, folders)))

    return resolver.cached("reading folders", find)


def _is_in_folder(setting: str, folder: str) -> bool:
    """Return whether *setting* begins with the name of *folder*, which is folded."""
    return setting.startswith(f"{posixpath.basename(folder)}/")


def _is_setting(name: str, folders: Iterable[str] | None = None) -> bool:
    """Return whether the folded *name* is in `SETTINGS`, or below such a path, in *folders*."""
    known = None if folders is None else set(map(fold, folders))
    parts = name.split("/")
    for index in range(1, len(parts)):
        names = {"/".join(parts[index : index + length]) for length in (1, 2)}
        is_there = known is None or ("/".join(parts[:index]) or "/") in known
        if is_there and not _SETTINGS.isdisjoint(names):
            return True
    return False


def _holds_settings(path: str) -> bool:
    """Return whether *path* is named like a folder of `SETTINGS`: ``.claude``."""
    return fold(posixpath.basename(path)) in _FOLDERS


def _changing_uses(part: CallPart) -> Iterator[tuple[PathUse, bool]]:
    """Yield the changes of *part*, each with whether it removes the path and everything in it."""
    program = part.action[:1]
    read = {use.word for use in part.paths if use.kind == "read-tree"}
    for use in part.paths:
        if use.kind in CHANGES:
            # `mv` both reads and writes its sources.
            yield use, use.kind == "destroy" or (program == ("mv",) and use.word in read)
        elif program == ("ln",):
            yield use, False


def _may_be_folder(path: str, program: str) -> bool:
    """Return whether *path* is a folder, or may become one by an earlier part of the line."""
    return program in _PLACE_BY_NAME or _holds_settings(path) or posixpath.isdir(path)


def _sources(part: CallPart) -> list[PathUse]:
    return [use for use in part.paths if use.kind in {"read", "read-tree"}]


def _placed_names(folder: str, part: CallPart, resolver: PathResolver) -> Iterator[str]:
    """Yield the new names of files that *part* copies or moves into *folder*."""
    if part.action and part.action[0] not in _PLACE_BY_NAME:
        return
    for use in _sources(part):
        for resolved in find_targets(use, resolver).paths:
            name = posixpath.basename(use.word.text.rstrip("/"))
            yield posixpath.join(folder, name)
            yield posixpath.join(folder, posixpath.basename(resolved.entry))
            for inner in islice(_names_below(resolved.path), _MOST_COPIED):
                yield posixpath.join(folder, inner)
                yield posixpath.join(folder, name, inner)


def _names_below(folder: str) -> Iterator[str]:
    for path, _, names in os.walk(folder):
        for name in names:
            yield posixpath.relpath(posixpath.join(path, name), folder)


def _copies_files(part: CallPart, resolver: PathResolver) -> bool:
    """Return whether *part* places only files, with compared names."""
    if "".join(part.action[:1]) not in _PLACE_BY_NAME - {"ln"}:
        return False
    targets = [find_targets(use, resolver) for use in _sources(part)]
    return not any(posixpath.islink(path.entry) for each in targets for path in each.paths)


def _names_all(part: CallPart, resolver: PathResolver) -> bool:
    """Return whether *part* only changes files that it names in a folder that it writes to."""
    if part.action[0] not in _PLACE_BY_NAME:
        return False
    # `find` determines the files written for a word "{}".
    words = () if part.command is None else part.command.words
    return not any(word.text == "{}" for word in words) and not any(
        find_targets(use, resolver).doubt for use in part.paths
    )

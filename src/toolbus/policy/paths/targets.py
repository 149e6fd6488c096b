"""The target files of a word used as a path, given its folder, ``~``, globs, and links below.

A glob stands for the existing files that it matches, and the targets of their links. A glob that is
*aimed* at a file of a rule, such as ``.e*v`` at ``**/.env``, is a doubt even if the file is
missing, because a parallel call may create it. ``*`` and ``*.json`` are not aimed at any specific
name; otherwise each ``wc -l *.json`` would require approval.
"""

from __future__ import annotations

import os
import posixpath
from functools import lru_cache
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from toolbus.policy.commands import Word
from toolbus.policy.paths.links import linked_folders
from toolbus.policy.paths.name_globs import (
    NameGlob,
    glob_quoted,
    name_glob,
    path_components,
    plain_name,
)
from toolbus.policy.paths.path_patterns import meets
from toolbus.policy.paths.resolver import DEEPEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.policy.commands import PathUse
    from toolbus.policy.paths.path_patterns import PathPattern
    from toolbus.policy.paths.resolver import PathResolver, ResolvedPath


MOST_ENTRIES = 20_000
"""Folder entries that are listed for one glob."""

MOST_PATHS = 1_000
"""Paths that one glob may expand to; each is resolved."""

ANY_NAME = "\ue000"
"""A stand-in for any name; a private-use character, so no pattern contains it."""


class Targets(NamedTuple):
    """The possible files of one use of a path; *doubt* says why there may be others.

    The *globs* are absolute, with a real path before the first wildcard.
    """

    paths: tuple[ResolvedPath, ...]
    doubt: str = ""
    globs: tuple[str, ...] = ()


class Expansion(NamedTuple):
    """The absolute *paths* that a glob expands to, and whether they are complete."""

    paths: tuple[str, ...]
    is_complete: bool


def argument_word(text: str) -> Word:
    """Return the word for *text*, a path in the arguments of a tool other than a shell.

    Such tools only expand ``~``.
    """
    return Word(glob_quoted(text), pattern=True) if text.startswith("~") else Word(text)


def may_match_option(word: Word, folder: str | None, resolver: PathResolver) -> bool:
    """Return whether the pattern *word*, of a command in *folder*, may match a name like ``-x``."""
    choice = resolver.folders(folder)
    first = word.text.partition("/")[0]
    expansions = [_expand(f"{glob_quoted(path)}/{first}", resolver) for path in choice.paths]
    return bool(choice.doubt) or any(
        not each.is_complete or any("/-" in path[path.rindex("/") :] for path in each.paths)
        for each in expansions
    )


def find_targets(use: PathUse, resolver: PathResolver) -> Targets:
    """Return the targets of *use* in the call of *resolver*."""
    return resolver.cached(use, lambda: _with_links(use, _find(use, resolver), resolver))


def is_aimed(glob: str, pattern: PathPattern, starts: Sequence[str]) -> bool:
    """Return whether *glob*, one of `Targets.globs`, is aimed at files of *pattern*.

    The pattern begins in one of *starts*.
    """
    names = _globs(glob)
    for start in starts:
        fixed = [plain_name(name) for name in start.split("/") if name]
        if all(_aims(part, name) for part, name in zip(fixed, names, strict=False)) and meets(
            [*fixed, *pattern.components], names, meet=_aims
        ):
            return True
    return False


def _with_links(use: PathUse, targets: Targets, resolver: PathResolver) -> Targets:
    """Return *targets*, with targets of links below them if *use* may write through links."""
    if use.kind in {"read-tree", "destroy"} and not all(each.path for each in targets.paths):
        doubt = f"the files below the descriptor {use.word.text!r} depend on the program"
        return targets._replace(doubt=targets.doubt or doubt)
    if use.kind != "write" or not use.tree.links:
        return targets
    links = [link for each in targets.paths for link in linked_folders(each.path, resolver)]
    doubt = targets.doubt or _first_doubt(links)
    return targets._replace(paths=(*targets.paths, *links), doubt=doubt)


def _first_doubt(paths: Iterable[ResolvedPath]) -> str:
    return next((each.doubt for each in paths if each.doubt), "")


def _find(use: PathUse, resolver: PathResolver) -> Targets:
    word = use.word
    text = _without_tilde(word, resolver) if word.known else ""
    if not text:
        # No file has an empty name.
        is_doubtful = word.text or not word.known
        return Targets((), f"{word.text!r} is known only at run time" if is_doubtful else "")
    if text.startswith("/"):
        return _from_root([text], word, resolver)
    choice = resolver.folders(use.folder)
    starts = [glob_quoted(path) if word.pattern else path for path in choice.paths]
    targets = _from_root([f"{start}/{text}" for start in starts], word, resolver)
    return targets._replace(doubt=f"{text!r}: {choice.doubt}") if choice.doubt else targets


def _without_tilde(word: Word, resolver: PathResolver) -> str:
    """Return the text of *word* with ``~`` of a pattern expanded; "" if only a shell can do so."""
    text = word.text
    if not (word.pattern and text.startswith("~")):
        return text
    name, slash, rest = text.partition("/")
    if name == "~":
        home = resolver.home()
    elif name == "~+":
        home = next(iter(resolver.folders(".").paths), "")
    elif name[1:2] in {"-", "+", *"0123456789"}:
        home = ""  # An earlier folder of the shell.
    else:
        # The ``~name`` of an unknown user stays unchanged.
        home = posixpath.expanduser(name.replace("\\", ""))
    return f"{glob_quoted(home)}{slash}{rest}" if home else ""


def _from_root(texts: list[str], word: Word, resolver: PathResolver) -> Targets:
    """Return the targets of the absolute *texts*, which are globs if *word* is a pattern."""
    paths, globs, doubt = list[str](), list[str](), ""
    for text in texts:
        path = _literal(text) if word.pattern else text
        if path is not None:
            paths.append(path)
            continue
        expansion = _expand(text, resolver)
        paths.extend(expansion.paths)
        globs.append(_with_real_start(text, resolver))
        if not expansion.is_complete:
            doubt = f"{word.text!r} may match too many files"
    resolved = tuple([resolver.resolve(path) for path in paths])
    return Targets(resolved, _first_doubt(resolved) or doubt, tuple(globs))


def _literal(path: str) -> str | None:
    """Return the only path that the glob *path* matches, None if it has a wildcard."""
    parts = [name_glob(part).literal for part in path.split("/")]
    return None if None in parts else "/".join([part or "" for part in parts])


def _expand(glob: str, resolver: PathResolver) -> Expansion:
    """Return the current expansion of the absolute *glob*.

    It includes the glob itself: a shell does not change a glob without matches.
    """
    # Complex because each kind of component expands in its own way, as in a shell.
    parts = path_components(glob)
    if len(parts) > DEEPEST:
        return Expansion((), is_complete=False)
    literal = "/".join(["", *[_unquoted(part) for part in parts]])
    folders, paths = _Folders(resolver), ["/"]
    for part in parts:
        name = name_glob(part)
        if part == "**":
            # Without `globstar` it is one component in a shell, else any number.
            for path in paths:
                paths.extend(folders.matching(path, name_glob("*")))
        elif name.literal is not None:
            paths = [posixpath.join(path, name.literal) for path in paths]
        else:
            paths = [each for path in paths for each in folders.matching(path, name)]
    is_complete = folders.are_complete and len(paths) < MOST_PATHS
    return Expansion((*paths[:MOST_PATHS], literal), is_complete)


class _Folders:
    """The folders listed for one glob, up to a number of entries."""

    def __init__(self, resolver: PathResolver) -> None:
        self._resolver = resolver
        self._remaining = MOST_ENTRIES
        self.are_complete = True

    def matching(self, path: str, glob: NameGlob) -> list[str]:
        """Return the paths of the entries of folder *path* that match *glob*."""
        real = self._resolver.resolve(path)
        names = [".", ".."] if glob.tokens[:1] == (".",) else []
        try:
            with os.scandir(real.path) as entries:
                names += [entry.name for entry in islice(entries, self._remaining + 1)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, ValueError):
            self.are_complete = False
        self._remaining -= len(names)
        if real.doubt or self._remaining < 0:
            self.are_complete, self._remaining = False, 0
            return []
        return [
            posixpath.join(path, name) for name in names if plain_name(name).meets(glob, dot=False)
        ]


def _with_real_start(glob: str, resolver: PathResolver) -> str:
    """Return the absolute *glob* with links resolved before its first wildcard."""
    parts = glob.split("/")
    fixed = list(takewhile(lambda part: name_glob(part).literal is not None, parts))
    start = resolver.resolve("/".join([_unquoted(part) for part in fixed]) or "/").path
    return "/".join([glob_quoted(start.rstrip("/")), *parts[len(fixed) :]])


def _unquoted(part: str) -> str:
    glob = name_glob(part)
    return part if glob.literal is None else glob.literal


@lru_cache(maxsize=100)
def _globs(glob: str) -> tuple[NameGlob, ...]:
    parts = path_components(glob)
    return tuple([plain_name(ANY_NAME) if part == "**" else name_glob(part) for part in parts])


def _aims(part: NameGlob, name: NameGlob) -> bool:
    """Return whether the shell's *name* is aimed at *part* of a pattern."""
    if name.literal is not None:
        return part.meets(name)
    any_of_them = "".join([each if isinstance(each, str) else ANY_NAME for each in name.tokens])
    if part.meets(plain_name(any_of_them)):
        return True
    is_wide = name.tokens[0] is None and all(isinstance(each, str) for each in name.tokens[1:])
    return part.literal is not None and not is_wide and part.meets(name, dot=False)

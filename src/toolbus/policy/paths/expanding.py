"""Globs of the shell: the files that they stand for now, and those that they might.

The files that are there decide, with what their links lead to. But a glob that is *aimed* at a
file of a rule is doubtful even where that is not there yet, for parallel calls may make it: such as
``.e*v`` for ``**/.env``, or what only matches files of the rule. ``*`` and ``*.json`` are aimed at
nothing that has a name of its own, or else each ``wc -l *.json`` would be asked about.
"""

from __future__ import annotations

import os
import posixpath
from functools import lru_cache
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from toolbus.policy.paths.name_globs import NameGlob, glob_quoted, name_glob, plain_name
from toolbus.policy.paths.path_patterns import meets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.policy.paths.path_patterns import PathPattern
    from toolbus.policy.paths.resolving import PathResolver

MOST_ENTRIES = 20_000
"""Entries of folders that are looked at for one glob."""

MOST_PATHS = 1_000
"""Paths that one glob may stand for; each of them is resolved."""

DEEPEST = 200
"""Components of a path beyond which nothing is expanded."""

ANY_NAME = "\ue000"
"""Stands for a name of which nothing is known; it is for private use, so no pattern has it."""


class Expansion(NamedTuple):
    """The *paths* that a glob stands for, each absolute, and whether these are all."""

    paths: tuple[str, ...]
    is_complete: bool


class _TooManyError(Exception):
    """A bound is reached."""


def expand(glob: str, resolver: PathResolver) -> Expansion:
    """Return what the absolute *glob* stands for now.

    The glob itself is among it: a shell leaves what matches nothing as it is.
    """
    parts = [part for part in glob.split("/") if part not in {"", "."}]
    if len(parts) > DEEPEST:
        return Expansion((), is_complete=False)
    expander = _Expander(resolver)
    literal = "/" + "/".join([_unquoted(part) for part in parts])
    paths = list[str]()
    try:
        paths.extend(islice(expander.run("/", parts), MOST_PATHS))
    except _TooManyError:
        return Expansion((*paths, literal), is_complete=False)
    return Expansion((*paths, literal), expander.is_complete and len(paths) < MOST_PATHS)


def is_aimed(glob: str, pattern: PathPattern, starts: Sequence[str]) -> bool:
    """Return whether the absolute *glob* is aimed at what *pattern* names, from one of *starts* on.

    *glob* has the real path in front of its first wildcard.
    """
    names = _globs(glob)
    for start in starts:
        fixed = [plain_name(name) for name in start.split("/") if name]
        if all(_aims(part, name) for part, name in zip(fixed, names, strict=False)) and meets(
            [*fixed, *pattern.components], names, meet=_aims
        ):
            return True
    return False


@lru_cache(maxsize=100)
def _globs(glob: str) -> tuple[NameGlob, ...]:
    parts = [part for part in glob.split("/") if part not in {"", "."}]
    return tuple([plain_name(ANY_NAME) if part == "**" else name_glob(part) for part in parts])


def with_real_start(glob: str, resolver: PathResolver) -> str:
    """Return the absolute *glob* with links followed before its first wildcard."""
    parts = glob.split("/")
    fixed = list(takewhile(lambda part: name_glob(part).literal is not None, parts))
    start = resolver.resolve("/".join([_unquoted(part) for part in fixed]) or "/").path
    return "/".join([glob_quoted(start.rstrip("/")), *parts[len(fixed) :]])


def any_of(glob: NameGlob) -> str:
    """Return the name that stands for all that *glob* matches."""
    return "".join([token if isinstance(token, str) else ANY_NAME for token in glob.tokens])


def _aims(part: NameGlob, name: NameGlob) -> bool:
    """Return whether *name*, of the shell, is meant for *part*, of a pattern."""
    if name.literal is not None:
        return part.meets(name)
    if part.meets(plain_name(any_of(name))):
        return True
    is_wide = name.tokens[0] is None and all(isinstance(each, str) for each in name.tokens[1:])
    return part.literal is not None and not is_wide and part.meets(name, dot=False)


class _Expander:
    """One expansion, and how much of the file system it has seen."""

    def __init__(self, resolver: PathResolver) -> None:
        self._resolver = resolver
        self._entries = 0
        self.is_complete = True

    def run(self, path: str, parts: Sequence[str]) -> Iterator[str]:
        """Yield what *parts* stand for below *path*."""
        if not parts:
            yield path
            return
        part, *rest = parts
        glob = name_glob(part)
        if part == "**":
            # To a shell without `globstar` it is one name, to others any number.
            yield from self.run(path, rest)
            for name in self._names(path, name_glob("*")):
                yield from self.run(posixpath.join(path, name), parts)
        elif glob.literal is not None:
            yield from self.run(posixpath.join(path, glob.literal), rest)
        else:
            for name in self._names(path, glob):
                yield from self.run(posixpath.join(path, name), rest)

    def _names(self, path: str, glob: NameGlob) -> Iterator[str]:
        if path.count("/") > DEEPEST:
            raise _TooManyError
        real = self._resolver.resolve(path)
        if real.doubt:
            self.is_complete = False
            return
        names = [".", ".."] if glob.tokens[:1] == (".",) else []
        try:
            with os.scandir(real.path) as entries:
                for entry in entries:
                    self._entries += 1
                    if self._entries > MOST_ENTRIES:
                        raise _TooManyError
                    names.append(entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        except (OSError, ValueError):
            self.is_complete = False
            return
        yield from [name for name in names if plain_name(name).meets(glob, dot=False)]


def _unquoted(part: str) -> str:
    glob = name_glob(part)
    return part if glob.literal is None else glob.literal

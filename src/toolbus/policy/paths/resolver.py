"""The path resolver: the real file behind a path, the names along the way, and doubts.

A path is resolved as the kernel does it: component by component, following links, with ``..``
relative to the target of a link. A missing file keeps its name. Links of processes below ``/proc``
are a doubt. Hard links, later mounts, and links that change between the verdict and the call are
not detected.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import Struct

from toolbus.policy.paths.name_globs import path_components

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.policy.commands import CommandReading


MOST_MISSING = 3
"""Missing folders of one path; with more of them a shell's folder is unknown."""

MOST_LINKS = 40
"""Linux's limit on links in a chain (path_resolution(7))."""

DEEPEST = 200
"""The most components of a path that are followed."""

_DESCRIPTOR = re.compile(r"/dev/(stdin|stdout|stderr)|(/dev|/proc/self)/fd/\w+")
"""Files that are already open: the program that opened them was judged for that."""
_OF_PROCESS = re.compile(r"/proc/.+/(cwd|exe|fd|map_files|root|task)")
"""Links, and folders of links, that each process or thread has (proc(5))."""
_NO_LINK = frozenset({errno.EINVAL, errno.ENOENT, errno.ENOTDIR})
T = TypeVar("T")


class CallPlace(Struct, frozen=True):
    """The folders that apply to a call, as absolute paths."""

    folder: str | None
    """The starting folder of its shell and base of relative paths; None if unknown."""
    home: str | None = None
    """The home folder; None: the home folder of this process."""


class FolderChoice(NamedTuple):
    """The candidate *paths* of a folder, absolute, the likeliest first.

    A *doubt* says why the folder may be none of them.
    """

    paths: tuple[str, ...]
    doubt: str = ""


class ResolvedPath(NamedTuple):
    """The real *path* behind a path, and all its *names*, *path* first.

    Further names go through links, each from the link's real folder. A *doubt* says why the path
    may lead elsewhere. *path* is "" for a descriptor, which is not a file.
    """

    path: str
    names: tuple[str, ...]
    doubt: str = ""
    entry: str = ""
    """The path of the last component itself: a removal affects it and not a link's target."""


_ROOT = ResolvedPath("/", ("/",), "", "/")


class PathResolver:
    """Resolves paths for a call at *place*, with one look-up in the file system for each name.

    Create one per verdict: cached look-ups become stale.
    """

    def __init__(self, place: CallPlace) -> None:
        self.place = place
        self._known: dict[object, Any] = {}
        self._resolved: dict[str, ResolvedPath] = {}
        self._links = 0

    def cached(self, key: object, make: Callable[[], T]) -> T:
        """Return the cached result of *make* for *key*, within this verdict."""
        if key not in self._known:
            self._known[key] = make()
        known: T = self._known[key]
        return known

    def home(self) -> str:
        """Return the folder of ``~``."""
        return self.place.home or posixpath.expanduser("~")

    def folders(self, folder: str | None) -> FolderChoice:
        """Return the candidates for *folder*, the working folder of a command."""
        return self.cached(("folders", folder), lambda: find_folders(folder, self))

    def resolve(self, path: str) -> ResolvedPath:
        """Return the target of the absolute *path*."""
        if path in self._resolved:
            return self._resolved[path]
        if _DESCRIPTOR.fullmatch(path):
            return ResolvedPath("", ())
        parts = path_components(path)
        reached, walked = _ROOT, ""
        if len(parts) > DEEPEST:
            # Patterns still compare its name.
            plain = posixpath.normpath(path)
            doubt = f"{path[:50]!r}… is too deep to be followed"
            return ResolvedPath(plain, (plain,), doubt, plain)
        for part in parts:
            walked = f"{walked}/{part}"
            known = self._resolved.get(walked)
            if known is None:
                known = self._resolved[walked] = self._step(reached, part)
            reached = known
        return reached

    def _step(self, folder: ResolvedPath, part: str) -> ResolvedPath:
        """Return the target of the component *part* in *folder*."""
        # Complex because it mirrors one step of the kernel's walk (path_resolution(7)).
        if part == "..":
            above = posixpath.dirname(folder.path)
            return ResolvedPath(above, (above,), folder.doubt, above)
        path, *others = [f"{name.rstrip('/')}/{part}" for name in folder.names]
        names = (path, *others)
        doubt = folder.doubt
        if path.startswith("/proc/") and _OF_PROCESS.fullmatch(path):
            doubt = doubt or f"the target of {path!r} depends on a process"
        if doubt:
            return ResolvedPath(path, names, doubt, path)
        try:
            link = os.readlink(path)  # noqa: PTH115 - this is called often
        except ValueError as error:
            return ResolvedPath(path, names, f"{path!r} cannot be followed: {error}", path)
        except OSError as error:
            is_doubtful = error.errno not in _NO_LINK
            doubt = f"{path!r} cannot be followed: {error.strerror}" if is_doubtful else ""
            return ResolvedPath(path, names, doubt, path)
        if self._links >= MOST_LINKS:
            return ResolvedPath(path, names, f"{path!r} leads through too many links", path)
        self._links += 1
        target = self.resolve(posixpath.join(folder.path, link))
        self._links -= 1
        if not target.path:
            doubt = f"the target of {path!r} depends on a process"
            return ResolvedPath(path, names, doubt, path)
        return ResolvedPath(
            target.path, tuple(dict.fromkeys((*target.names, *names))), target.doubt, path
        )


def find_folders(folder: str | None, resolver: PathResolver) -> FolderChoice:
    """Return the candidates for the working *folder* of a command, in the call of *resolver*.

    If the folder is missing, a ``cd`` may fail, and the command runs in another folder.
    """
    start = resolver.place.folder
    if folder is not None and folder.startswith("~"):
        folder = _at_home(folder, resolver)
    if folder is None or (start is None and not folder.startswith("/")):
        return FolderChoice((), "its working folder is unknown")
    written = posixpath.join(start or "/", folder)
    plain = posixpath.normpath(f"/{written.lstrip('/')}")
    # A shell's `cd x/..` undoes `cd x`; the kernel goes up from the target of x.
    if ".." in written.split("/") and resolver.resolve(plain)[0] != resolver.resolve(written)[0]:
        return FolderChoice((), f"{folder!r} goes through a link and up again")
    if posixpath.isdir(plain):
        return FolderChoice((plain,))
    return _missing(plain, start)


def next_folder(reading: CommandReading, resolver: PathResolver) -> str | None:
    """Return the folder of a persistent shell after *reading*, None if unknown.

    The shell began in the folder of *resolver*. Call this after the call, when new folders exist.
    """
    if reading.unreadable:
        return None
    choice = find_folders(reading.final_folder, resolver)
    return choice.paths[0] if len(choice.paths) == 1 and not choice.doubt else None


def _at_home(folder: str, resolver: PathResolver) -> str | None:
    name, slash, rest = folder.partition("/")
    home = resolver.home() if name == "~" else posixpath.expanduser(name)
    return f"{home}{slash}{rest}" if home.startswith("/") else None


def _missing(plain: str, start: str | None) -> FolderChoice:
    doubt = f"there is no folder {plain!r}"
    if start is None:
        return FolderChoice((plain,), doubt)
    inside = plain.removeprefix(start).strip("/") if plain.startswith(f"{start}/") else ""
    steps = inside.split("/") if inside else []
    if not 0 < len(steps) <= MOST_MISSING:
        exists = posixpath.isdir(posixpath.dirname(plain))
        return FolderChoice((plain, start), "" if exists and not steps else doubt)
    ways = [way for size in range(len(steps)) for way in combinations(steps, size)]
    return FolderChoice((plain, *[posixpath.join(start, *way) for way in ways]))

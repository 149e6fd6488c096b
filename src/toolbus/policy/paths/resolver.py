"""The file that a path leads to when it is judged, its names on the way, and doubts about both.

A path is walked as the kernel does it: component by component, links followed, ``..`` upwards from
where a link led. A file that is not there yet is taken by its name. Links of processes below
``/proc`` are a doubt. Not seen are hard links, mounts that are made meanwhile, and links that
change between the verdict and the call.
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
"""Folders of one path that are not there yet; with more of them it is unknown where a shell is."""

MOST_LINKS = 40
"""Links that lead to each other, beyond which Linux refuses them (path_resolution(7))."""

DEEPEST = 200
"""Components of a path beyond which it is not followed."""

_DESCRIPTOR = re.compile(r"/dev/(stdin|stdout|stderr)|(/dev|/proc/self)/fd/\w+")
"""Files that are open already: the program that opened one was judged for that."""
_OF_PROCESS = re.compile(r"/proc/.+/(cwd|exe|fd|map_files|root|task)")
"""Links, and folders of links, that each process or thread has (proc(5))."""
_NO_LINK = frozenset({errno.EINVAL, errno.ENOENT, errno.ENOTDIR})
T = TypeVar("T")


class CallPlace(Struct, frozen=True):
    """The place where a call is judged: absolute paths."""

    folder: str | None
    """The folder where its shell begins, or its relative paths; None if that is unknown."""
    home: str | None = None
    """The home folder there; None: that of this process."""


class FolderChoice(NamedTuple):
    """The absolute *paths* of which one is the folder, the likeliest first; or why it is unknown.

    With a *doubt* it may be none of them.
    """

    paths: tuple[str, ...]
    doubt: str = ""


class ResolvedPath(NamedTuple):
    """The real *path* to which a path leads, and all *names* it goes by on the way, *path* first.

    Other names are those of links, from where each of them really is. A *doubt* says why it may
    lead elsewhere. The path is "" for a descriptor, which is not a file.
    """

    path: str
    names: tuple[str, ...]
    doubt: str = ""
    entry: str = ""
    """The place of the last component itself, which is removed or replaced if it is a link."""


_ROOT = ResolvedPath("/", ("/",), "", "/")


class PathResolver:
    """Resolves paths for a call at *place*; it asks the file system once for each name.

    Make a new one for each verdict: what it has seen may change.
    """

    def __init__(self, place: CallPlace) -> None:
        self.place = place
        self._known: dict[object, Any] = {}
        self._resolved: dict[str, ResolvedPath] = {}
        self._links = 0

    def cached(self, key: object, make: Callable[[], T]) -> T:
        """Return what *make* returned when it was asked first for *key*, of this verdict."""
        if key not in self._known:
            self._known[key] = make()
        known: T = self._known[key]
        return known

    def home(self) -> str:
        """Return what ``~`` is."""
        return self.place.home or posixpath.expanduser("~")

    def folders(self, folder: str | None) -> FolderChoice:
        """Return where *folder*, that of a command, may be."""
        return self.cached(("folders", folder), lambda: find_folders(folder, self))

    def resolve(self, path: str) -> ResolvedPath:
        """Return where the absolute *path* leads."""
        if path in self._resolved:
            return self._resolved[path]
        if _DESCRIPTOR.fullmatch(path):
            return ResolvedPath("", ())
        parts = path_components(path)
        reached, walked = _ROOT, ""
        if len(parts) > DEEPEST:
            # Their names still count.
            plain = posixpath.normpath(path)
            return ResolvedPath(
                plain, (plain,), f"{path[:50]!r}… is too deep to be followed", plain
            )
        for part in parts:
            walked = f"{walked}/{part}"
            known = self._resolved.get(walked)
            if known is None:
                known = self._resolved[walked] = self._step(reached, part)
            reached = known
        return reached

    def _step(self, folder: ResolvedPath, part: str) -> ResolvedPath:
        """Return where the component *part* in *folder* leads."""
        # One step of the kernel's walk (path_resolution(7)): its cases are best read in a row.
        if part == "..":
            above = posixpath.dirname(folder.path)
            return ResolvedPath(above, (above,), folder.doubt, above)
        path, *others = [f"{name.rstrip('/')}/{part}" for name in folder.names]
        names = (path, *others)
        doubt = folder.doubt
        if path.startswith("/proc/") and _OF_PROCESS.fullmatch(path):
            doubt = doubt or f"what {path!r} leads to depends on a process"
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
            doubt = f"what {path!r} leads to depends on a process"
            return ResolvedPath(path, names, doubt, path)
        return ResolvedPath(
            target.path, tuple(dict.fromkeys((*target.names, *names))), target.doubt, path
        )


def find_folders(folder: str | None, resolver: PathResolver) -> FolderChoice:
    """Return where the *folder* of a command is for a call where *resolver* stands.

    If it is not there, a ``cd`` may fail, and the command run elsewhere on the way.
    """
    start = resolver.place.folder
    if folder is not None and folder.startswith("~"):
        folder = _at_home(folder, resolver)
    if folder is None or (start is None and not folder.startswith("/")):
        return FolderChoice((), "the folder it runs in is unknown")
    written = posixpath.join(start or "/", folder)
    plain = posixpath.normpath(f"/{written.lstrip('/')}")
    # A shell's `cd x/..` undoes `cd x`, the kernel's goes up from where x leads to.
    if ".." in written.split("/") and resolver.resolve(plain)[0] != resolver.resolve(written)[0]:
        return FolderChoice((), f"{folder!r} leads behind a link and up again")
    if posixpath.isdir(plain):
        return FolderChoice((plain,))
    return _missing(plain, start)


def next_folder(reading: CommandReading, resolver: PathResolver) -> str | None:
    """Return where a shell that keeps its state is after *reading*, None if that is unknown.

    It began where *resolver* stands. Ask when the call has run: what it made is there then.
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

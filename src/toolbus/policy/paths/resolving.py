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
from collections import deque
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolbus.policy.commands import CommandReading


MOST_MISSING = 3
"""Folders of one path that are not there yet; with more of them it is unknown where a shell is."""


MOST_LINKS = 40
"""Links in one path, beyond which Linux refuses it (path_resolution(7))."""
_PROCESS = re.compile(r"/proc/[^/]+")
_LINKS_OF_PROCESS = frozenset({"cwd", "exe", "fd", "map_files", "root"})
"""What is a link, or a folder of links, for each process (proc(5))."""
T = TypeVar("T")


class FolderChoice(NamedTuple):
    """The absolute *paths* of which one is the folder, the likeliest first; or why it is unknown.

    With a *doubt* it may be none of them.
    """

    paths: tuple[str, ...]
    doubt: str = ""


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
    if ".." in written.split("/") and _differ(plain, written, resolver):
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


def _at_home(folder: str, resolver: PathResolver) -> str | None:
    name, slash, rest = folder.partition("/")
    home = resolver.home() if name == "~" else posixpath.expanduser(name)
    return f"{home}{slash}{rest}" if home.startswith("/") else None


def _differ(plain: str, written: str, resolver: PathResolver) -> bool:
    return resolver.resolve(plain).path != resolver.resolve(written).path


class CallPlace(Struct, frozen=True):
    """Where a call is judged: absolute paths."""

    folder: str | None
    """Where its shell begins, or what its relative paths start from; None if that is unknown."""
    home: str | None = None
    """What ``~`` is there; None: the home folder of this process."""


class ResolvedPath(NamedTuple):
    """Where a path leads: its real *path*, and all *names* it goes by on the way, *path* first.

    Other names are those of links, from where each of them really is. A *doubt* says why it may
    lead elsewhere. The path is "" for what is no file, as a descriptor.
    """

    path: str
    names: tuple[str, ...]
    doubt: str = ""
    entry: str = ""
    """Where the last component itself is: what is removed or replaced, if that is a link."""


class PathResolver:
    """Where paths lead for a call at *place*; it asks the file system once for each name.

    Make a new one for each verdict: what it has seen may change.
    """

    def __init__(self, place: CallPlace) -> None:
        self.place = place
        self._known: dict[object, Any] = {}
        self._links: dict[str, str | None] = {}
        self._resolved: dict[str, ResolvedPath] = {}
        self._folders: dict[str | None, FolderChoice] = {}

    def folders(self, folder: str | None) -> FolderChoice:
        """Return where *folder*, that of a command, may be."""
        if folder not in self._folders:
            self._folders[folder] = find_folders(folder, self)
        return self._folders[folder]

    def once(self, key: object, make: Callable[[], T]) -> T:
        """Return what *make* returned when it was asked first for *key*, of this verdict."""
        if key not in self._known:
            self._known[key] = make()
        known: T = self._known[key]
        return known

    def resolve(self, path: str) -> ResolvedPath:
        """Return where the absolute *path* leads."""
        if path not in self._resolved:
            self._resolved[path] = self._beside(path) or _PathWalk(self, path).run()
        return self._resolved[path]

    def real(self, path: str) -> str:
        """Return where the absolute *path*, which has no ``..``, really is."""
        above = posixpath.dirname(path)
        if above != path and above not in self._resolved:
            self.real(above)
        return self.resolve(path).path

    def _beside(self, path: str) -> ResolvedPath | None:
        """Return where *path* leads, if that is a file in a real folder that is known already."""
        above, _, name = path.rpartition("/")
        above = above or "/"
        known = self._resolved.get(above)
        if known is None or known != (above, (above,), "", above) or name in {"", ".", ".."}:
            return None
        if "\0" in name:
            return None  # The walk says that it cannot be followed.
        try:
            if above.startswith("/proc") or self.read_link(path) is not None:
                return None
        except (OSError, ValueError):
            return None  # The walk says why.
        return ResolvedPath(path, (path,), "", path)

    def read_link(self, path: str) -> str | None:
        """Return what the link at *path* says, None if there is none; raises `OSError`."""
        if path not in self._links:
            try:
                self._links[path] = os.readlink(path)  # noqa: PTH115 - this is called often
            except OSError as error:
                if error.errno not in {errno.EINVAL, errno.ENOENT, errno.ENOTDIR}:
                    raise
                self._links[path] = None
        return self._links[path]

    def home(self) -> str:
        """Return what ``~`` is."""
        return self.place.home or posixpath.expanduser("~")


class _PathWalk:
    """One walk along *path*."""

    def __init__(self, resolver: PathResolver, path: str) -> None:
        self._resolver = resolver
        self._pending = deque(path.split("/"))
        self._path = "/"
        self._names: list[str] = []
        self._links = 0
        self._doubt = self._entry = ""

    def run(self) -> ResolvedPath:
        while self._pending and not self._doubt:
            part = self._pending.popleft()
            if part in {"", "."}:
                continue
            if part == "..":
                self._path = posixpath.dirname(self._path)
            elif self._path == "/proc" and part in {"self", "thread-self"}:
                self._path = "/proc/self"
            elif self._path == "/dev" and part == "fd":
                self._path = "/proc/self/fd"
            elif part == "task" and _PROCESS.fullmatch(self._path):
                # A thread has the files of its process.
                self._pending = deque([each for each in self._pending if each not in {"", "."}][1:])
            elif self._path == "/proc/self/fd" and not self._pending:
                return ResolvedPath("", ())  # The program that opened it was judged for that.
            elif self._is_of_process(part):
                self._path = f"{self._path}/{part}"
                self._doubt = f"what {self._path!r} leads to depends on a process"
            else:
                self._step(part)
        rest = _plain_rest(self._pending)
        path = posixpath.join(self._path, rest) if rest else self._path
        names = tuple(dict.fromkeys([path, *self._names]))
        return ResolvedPath(path, names, self._doubt, self._entry or path)

    def _is_of_process(self, part: str) -> bool:
        """Return whether *part* is a link that leads elsewhere for each process."""
        folder = self._path
        if not folder.startswith("/proc/") or f"{folder}/{part}" == "/proc/self/fd":
            return False
        return part in _LINKS_OF_PROCESS or folder == "/proc/self/fd"

    def _step(self, part: str) -> None:
        path = posixpath.join(self._path, part)
        try:
            link = self._resolver.read_link(path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._path, self._doubt = path, f"{path!r} cannot be followed: {reason}"
            return
        if link is None:
            self._path = path
            return
        rest = _plain_rest(self._pending)
        if rest is not None:
            self._names.append(posixpath.join(path, rest) if rest else path)
            if not rest:
                self._entry = self._entry or path
        self._follow(path, link)

    def _follow(self, path: str, link: str) -> None:
        self._links += 1
        if self._links > MOST_LINKS:
            self._path, self._doubt = path, f"{path!r} leads through too many links"
            return
        if link.startswith("/"):
            self._path = "/"
        self._pending.extendleft(reversed(link.split("/")))


def _plain_rest(pending: Sequence[str]) -> str | None:
    """Return what is *pending* as a path; None if it goes up, which a name does not tell."""
    parts = [part for part in pending if part not in {"", "."}]
    return None if ".." in parts else "/".join(parts)

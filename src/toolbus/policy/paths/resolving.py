"""Which file a path leads to when it is judged: by which names, and what cannot be known.

A path is walked as the kernel does it: component by component, links followed, ``..`` upwards from
where a link led. What is not there yet is taken by its name. ``/proc/self`` is the process that
will run, not this one. What no walk sees: hard links, mounts that are made meanwhile, and links
that somebody changes between the verdict and the call.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import Struct

from toolbus.policy.paths.call_folders import FolderChoice, find_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_LINKS = 40
"""Links in one path, beyond which Linux refuses it (path_resolution(7))."""

_OF_PROCESS = {"cwd", "exe", "fd", "map_files", "root"}


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


T = TypeVar("T")


class PathResolver:
    """Where paths lead for a call at *place*; it asks the file system once for each name.

    Make a new one for each verdict: what it has seen may change.
    """

    def __init__(self, place: CallPlace) -> None:
        self.place = place
        self._known: dict[object, Any] = {}
        self._links: dict[str, str | None] = {}
        self._resolved: dict[tuple[str, str | None], ResolvedPath] = {}
        self._folders: dict[str | None, FolderChoice] = {}
        self._folding: dict[str, bool] = {}

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

    def resolve(self, path: str, folder: str | None = ".") -> ResolvedPath:
        """Return where the absolute *path* leads, for a command in *folder*."""
        known = self._resolved.get((path, folder))
        if known is None:
            known = self._beside(path, folder) or _PathWalk(self, path, folder).run()
            self._resolved[path, folder] = known
        return known

    def real(self, path: str) -> str:
        """Return where the absolute *path*, which has no ``..``, really is."""
        above = posixpath.dirname(path)
        if above != path and (above, ".") not in self._resolved:
            self.real(above)
        return self.resolve(path).path

    def _beside(self, path: str, folder: str | None) -> ResolvedPath | None:
        """Return where *path* leads, if that is a file in a real folder that is known already."""
        above, _, name = path.rpartition("/")
        above = above or "/"
        known = self._resolved.get((above, folder))
        if known is None or known != (above, (above,), "", above) or name in {"", ".", ".."}:
            return None
        if above.startswith(("/proc", "/dev")) or self.read_link(path) is not None:
            return None
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

    def folds_names(self, path: str) -> bool:
        """Tell whether the file system takes the real *path* and other spellings for the same."""
        while path != "/":
            if path not in self._folding:
                folds = _folds(path)
                if folds is not None:
                    self._folding[path] = folds
            if path in self._folding:
                return self._folding[path]
            path = posixpath.dirname(path)
        return False

    def home(self) -> str:
        """Return what ``~`` is."""
        return self.place.home or posixpath.expanduser("~")


class _PathWalk:
    """One walk along *path*."""

    def __init__(self, resolver: PathResolver, path: str, folder: str | None) -> None:
        self._resolver, self._folder = resolver, folder
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
            elif self._path in {"/proc", "/proc/self", "/proc/self/fd"}:
                self._enter_proc(part)
            elif self._path == "/dev" and part == "fd":
                self._path = "/proc/self/fd"
            else:
                self._step(part)
        if self._path.startswith("/proc/self/fd/") and not self._doubt:
            return ResolvedPath("", ())  # Whoever opened it was judged for that.
        rest = _plain_rest(self._pending)
        path = posixpath.join(self._path, rest) if rest else self._path
        names = tuple(dict.fromkeys([path, *self._names]))
        return ResolvedPath(path, names, self._doubt, self._entry or path)

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

    def _enter_proc(self, part: str) -> None:
        """Go on inside ``/proc``, whose links mean something else for each process (proc(5))."""
        if self._path == "/proc/self":
            self._enter_process(part)
        elif self._path == "/proc/self/fd":
            self._path = f"{self._path}/{part}"
            if self._pending:
                self._doubt = f"what descriptor {part} is depends on the program"
        elif part in {"self", "thread-self"}:
            self._path = "/proc/self"
        elif part.isdigit() and _OF_PROCESS.intersection(self._pending):
            self._path = f"/proc/{part}"
            self._doubt = f"what {self._path!r} leads to depends on a process"
        else:
            self._step(part)

    def _enter_process(self, part: str) -> None:
        match part:
            case "cwd":
                choice = self._resolver.folders(self._folder)
                self._doubt = choice.doubt or (
                    "" if len(choice.paths) == 1 else "it may be elsewhere"
                )
                self._path = self._resolver.resolve(choice.paths[0]).path if choice.paths else "/"
            case "root":
                self._path = "/"
            case "task":
                if self._pending:
                    self._pending.popleft()
            case "exe" | "map_files":
                self._doubt = f"what '/proc/self/{part}' leads to depends on the program"
            case _:
                self._path = f"/proc/self/{part}"


def _plain_rest(pending: Sequence[str]) -> str | None:
    """Return what is *pending* as a path; None if it goes up, which a name does not tell."""
    parts = [part for part in pending if part not in {"", "."}]
    return None if ".." in parts else "/".join(parts)


def _folds(path: str) -> bool | None:
    """Tell whether names beside the real *path* are folded, None if it is not there."""
    folder, name = posixpath.split(path)
    try:
        status = os.lstat(path)
        if not name.isascii() and name not in os.listdir(folder):  # noqa: PTH208 - names
            return True
    except (OSError, ValueError):
        return None
    if (other := name.swapcase()) == name:
        return None
    try:
        variant = os.lstat(posixpath.join(folder, other))
    except (OSError, ValueError):
        return False
    return (variant.st_dev, variant.st_ino) == (status.st_dev, status.st_ino)

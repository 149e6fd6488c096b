"""The project that a policy means by relative paths: the folder in which a session began.

That is what coding agents mean by it, too. No file of a repository, such as a `.git` in a folder
above, makes it wider, and no `cd` moves it. The home folder, what holds it, and a folder that all
users share, as `/tmp`, are no projects, nor is a folder that somebody put a link in the place of:
there relative paths allow nothing, while rules that deny, ask or audit speak of all they name.
"""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from functools import cache
from pathlib import Path
from stat import S_ISVTX, S_IWOTH
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.events.catalogue import Scope

FROM_FILE, FROM_SESSION = "file", "session"
"""Where relative paths of a policy may begin: in its file's folder, in a session's project."""


class Project(NamedTuple):
    """The *folder*, absolute, in which relative paths begin; anything else if nobody knows it.

    A *fault* says why they allow nothing there.
    """

    folder: str
    fault: str = ""

    @property
    def is_known(self) -> bool:
        """Whether it is known where the session began."""
        return self.folder.startswith("/")


@runtime_checkable
class WorksInFolder(Protocol):
    """A component whose tools take relative paths from *tools_folder*, a real path."""

    tools_folder: str


def project_at(folder: str) -> Project:
    """Return the project of a session that began in *folder*, a real path, as it is now."""
    if not folder.startswith("/"):
        return Project(folder, "nobody knows where the session began, so './' allows nothing")
    reason = _reason_against(folder)
    if not reason:
        return Project(folder)
    way_out = "'./' allows nothing there; begin it in a project's folder"
    return Project(folder, f"the session began in {folder!r}, and {reason}: {way_out}")


def project_of(scope: Scope, start: str) -> Project:
    """Return the project of the session in which *scope* speaks; *start* is where that may begin.

    Looked at anew each time: a link may have taken the folder's place.
    """
    return project_at(scope.project or os.path.realpath(scope.folder or start))


def process_folder() -> str:
    """Return the real path of the current folder, the root if that is gone."""
    try:
        return os.getcwd()  # noqa: PTH109 - as text
    except OSError:
        return "/"


def _reason_against(folder: str) -> str:
    """Return why the real path *folder* is not a project, "" if it may be one."""
    if os.path.realpath(folder) != folder:
        return "a link has taken its place, or that of a folder above it"
    if folder == "/":
        return "that is the root of all files"
    status = _status(folder)
    for home in _homes():
        if _is_at(home, folder, status):
            return "that is the home folder"
        if any(_is_at(above, folder, status) for above in home.parents):
            return "the home folder is in there"
    if status is not None and status.st_mode & S_ISVTX and status.st_mode & S_IWOTH:
        return "all users share that folder"
    return ""


def _is_at(place: Path, folder: str, status: os.stat_result | None) -> bool:
    """Return whether *place* is *folder*, which has this *status*, under whatever name."""
    # A file system may have other spellings for one name, and mounts another name for one folder.
    other = _status(str(place))
    is_same = status is not None and other is not None and os.path.samestat(status, other)
    return str(place) == folder or is_same


def _homes() -> Iterator[Path]:
    """Yield the home folders of who runs this: by the environment, and by the system's list."""
    with suppress(RuntimeError):
        yield Path(os.path.realpath(Path.home()))
    if listed := _listed_home(os.geteuid()):
        yield Path(os.path.realpath(listed))


@cache
def _listed_home(user: int) -> str:
    # A directory server may be asked for it.
    with suppress(KeyError):
        return pwd.getpwuid(user).pw_dir
    return ""


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - as text
    except (OSError, ValueError):
        return None

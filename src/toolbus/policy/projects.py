"""The project, base of a policy's relative paths: the folder in which a session began.

Coding agents define it the same way. A repository's files, such as a `.git` in a parent folder, do
not widen it, and no `cd` moves it. The home folder, its parents, a folder shared by all users, such
as `/tmp`, and a folder replaced by a link are not projects: relative paths in them allow nothing,
while deny, ask and audit rules still match the files they name.
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
"""The possible bases of a policy's relative paths: its file's folder, or a session's project."""


class Project(NamedTuple):
    """The absolute *folder* in which relative paths begin; any other text if it is unknown.

    A *path_warning* says why relative paths allow nothing there.
    """

    folder: str
    path_warning: str = ""

    @property
    def is_known(self) -> bool:
        """Whether the session's starting folder is known."""
        return self.folder.startswith("/")


@runtime_checkable
class WorksInFolder(Protocol):
    """A component whose tools resolve relative paths from *tools_folder*, a real path."""

    tools_folder: str


def project_at(folder: str) -> Project:
    """Return the project of a session that began in *folder*, a real path."""
    if not folder.startswith("/"):
        return Project(folder, "the session's starting folder is unknown, so './' allows nothing")
    reason = _reason_against(folder)
    if not reason:
        return Project(folder)
    way_out = "'./' allows nothing there; start the session in a project's folder"
    return Project(folder, f"the session began in {folder!r}, and {reason}: {way_out}")


def project_of(scope: Scope, start: str) -> Project:
    """Return the project of the session of *scope*; *start* is the fallback folder.

    The folder is checked on each call: a link may have replaced it.
    """
    return project_at(scope.project or os.path.realpath(scope.folder or start))


def process_folder() -> str:
    """Return the real path of the current folder, or the root if the folder is gone."""
    try:
        return os.getcwd()  # noqa: PTH109 - as text
    except OSError:
        return "/"


def _reason_against(folder: str) -> str:
    """Return why the real path *folder* is not a project, "" if it may be one."""
    if os.path.realpath(folder) != folder:
        return "a link has replaced it or one of its parent folders"
    if folder == "/":
        return "that is the root of the file system"
    status = file_status(folder)
    for home in _homes():
        if _is_at(home, folder, status):
            return "that is the home folder"
        if any(_is_at(above, folder, status) for above in home.parents):
            return "it contains the home folder"
    if status is not None and status.st_mode & S_ISVTX and status.st_mode & S_IWOTH:
        return "all users share that folder"
    return ""


def _is_at(place: Path, folder: str, status: os.stat_result | None) -> bool:
    """Return whether *place* is *folder*, which has this *status*, under any name."""
    # File systems may accept other spellings of a name, and mounts give a folder further names.
    other = file_status(str(place))
    is_same = status is not None and other is not None and os.path.samestat(status, other)
    return str(place) == folder or is_same


def _homes() -> Iterator[Path]:
    """Yield the current user's home folders: from the environment and from the user database."""
    with suppress(RuntimeError):
        yield Path(os.path.realpath(Path.home()))
    if listed := _listed_home(os.geteuid()):
        yield Path(os.path.realpath(listed))


@cache
def _listed_home(user: int) -> str:
    # The look-up may query a directory server.
    with suppress(KeyError):
        return pwd.getpwuid(user).pw_dir
    return ""


def file_status(path: str) -> os.stat_result | None:
    """Return the status of the file at *path*, following links; None if it cannot be read."""
    try:
        return os.stat(path)  # noqa: PTH116 - as text
    except (OSError, ValueError):
        return None

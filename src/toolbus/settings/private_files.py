"""Private files: written whole or not at all, for one user, and read without following links."""

from __future__ import annotations

import fcntl
import grp
import os
import pwd
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG, S_ISVTX, S_IWGRP, S_IWOTH
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Signature: TypeAlias = tuple[int, ...] | None

_OTHERS = 0o077
_PARTIAL = ".toolbus-partial-"
_STALE = 60.0
"""Seconds after which a partial file is not being written any more."""
# O_NONBLOCK, so that opening a pipe does not wait for its other end.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class UnfitFileError(Exception):
    """A file is unfit, for *reason*: not regular, too long, or accessible to other users."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


# --- writing -------------------------------------------------------------------------------------


def make_private_folders(folder: Path) -> None:
    """Create *folder* and its missing parents, for their owner alone."""
    for missing in [each for each in (folder, *folder.parents) if not each.exists()][::-1]:
        missing.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def replacing_file(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Yield a stream to a file that replaces *path* at the end, unless the block raises.

    A link at *path* is replaced and not followed. Raises `OSError`.
    """
    number, name = tempfile.mkstemp(prefix=_PARTIAL, dir=path.parent)
    try:
        with open(number, "wb") as stream:  # noqa: PTH123 - a descriptor, not a path
            yield stream
            stream.flush()
            os.fchmod(number, mode)
            os.fsync(number)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


def remove_partial_files(folder: Path) -> None:
    """Remove the user's partial files in *folder*, which killed processes left there."""
    for path in folder.glob(f"{_PARTIAL}*"):
        with suppress(OSError):
            status = path.lstat()
            is_ours = S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            if is_ours and time.time() - status.st_mtime > _STALE:
                path.unlink()


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write *data* to *path* atomically; create missing folders for their owner alone."""
    make_private_folders(path.parent)
    with replacing_file(path, mode) as stream:
        stream.write(data)


# --- reading -------------------------------------------------------------------------------------


def read_regular(path: Path, limit: int) -> tuple[bytes, os.stat_result]:
    """Return the bytes of *path*, at most *limit*, and its status at that moment.

    Raises `OSError`, also for a link, and `UnfitFileError` for a longer file and for anything
    else than a regular file.
    """
    number = os.open(path, _READ)
    try:
        status = os.fstat(number)
        if not S_ISREG(status.st_mode):
            raise UnfitFileError("it is not a regular file")
        with open(number, "rb", closefd=False) as stream:
            data = stream.read(limit + 1)
    finally:
        os.close(number)
    if len(data) > limit:
        raise UnfitFileError(f"it is longer than {limit:,} bytes")
    return data, status


def read_secret_file(path: Path, limit: int) -> bytes:
    """Return the bytes of *path*, which only its owner, this user, may read or replace.

    Raises `OSError`, also for a link, and `UnfitFileError`.
    """
    data, status = read_regular(path, limit)
    reason = secret_file_problem(path, status) or writable_by_others(Path(os.path.realpath(path)))
    if reason is not None:
        raise UnfitFileError(reason)
    return data


# --- sharing -------------------------------------------------------------------------------------


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the lock *file* in a block; other processes wait for it. Raises `OSError`."""
    with lock_file(file) as number:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield


@contextmanager
def lock_file(file: Path) -> Iterator[int]:
    """Yield the descriptor of the lock *file* for `try_lock`; closing it releases the lock."""
    number = os.open(file, _LOCK, 0o600)
    try:
        yield number
    finally:
        os.close(number)


def try_lock(number: int) -> bool:
    """Take the lock of this open file without waiting; return whether that succeeded."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def signature(path: str | os.PathLike[str]) -> Signature:
    """Return numbers that change when *path* is written; None if it does not exist."""
    try:
        status = os.stat(path)  # noqa: PTH116 - of the text as it was given, hundreds of times
    except (OSError, ValueError):
        return None
    if S_ISDIR(status.st_mode):
        return status.st_dev, status.st_ino, status.st_uid  # Whatever comes and goes inside.
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


# --- ownership -----------------------------------------------------------------------------------


def is_private(status: os.stat_result) -> bool:
    """Return whether a file or folder of this *status* is this user's, and closed to others."""
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS


def secret_file_problem(path: Path, status: os.stat_result) -> str | None:
    """Return the reason why *path* with this *status* must not hold a secret, or None."""
    if not S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    if status.st_mode & _OTHERS:
        return f"others may use it (mode {status.st_mode & 0o7777:o}); see: chmod 600 {path}"
    return None


def writable_by_others(file: Path) -> str | None:
    """Return the reason why users other than this one may change *file*, a real path, or None.

    The file and each folder above it must belong to this user or to root, and be writable by no
    other user. A sticky folder may be shared, because no user can replace another user's files in
    it. Rights from an access control list are not examined.
    """
    user = os.geteuid()
    for path in (file, *file.parents):
        status = path.stat()
        what = "it" if path == file else f"its folder {str(path)!r}"
        if status.st_uid not in {0, user}:
            return f"{what} belongs to {_name(status.st_uid)}"
        shared = bool(status.st_mode & S_IWOTH) or (
            bool(status.st_mode & S_IWGRP) and not _is_private_group(status.st_gid, user)
        )
        if shared and not (S_ISDIR(status.st_mode) and status.st_mode & S_ISVTX):
            return f"others may write {what} (mode {status.st_mode & 0o7777:o})"
    return None


def _name(user: int) -> str:
    with suppress(KeyError):
        return f"user {pwd.getpwuid(user).pw_name!r}"
    return f"user {user}"


def _is_private_group(group: int, user: int) -> bool:
    """Return whether *group* has *user* alone, as on systems with one group per user.

    A file that such a group may write gives no other user access.
    """
    if group == 0:
        return user == 0
    try:
        entry, account = grp.getgrgid(group), pwd.getpwuid(user)
    except KeyError:
        return False
    return (
        account.pw_gid == group
        and entry.gr_name == account.pw_name
        and set(entry.gr_mem) <= {account.pw_name}
    )

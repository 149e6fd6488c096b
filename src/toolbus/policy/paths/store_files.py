"""Whether a file is a store of ours, or one that SQLite keeps beside it, by its first bytes."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from stat import S_ISREG
from typing import TYPE_CHECKING

from toolbus.store.sqlite.schema import APPLICATION_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_LONGEST_PATH = 1_024  # macOS's MAXPATHLEN
_MOST_OF_LOG = 2**20
_ID = slice(68, 72)  # https://sqlite.org/fileformat2.html#the_database_header
_ENDS = ("-wal", "-shm", "-journal")


def is_of_store(path: str) -> bool:
    """Tell whether the file at *path* is a store's, or a log or an index beside one."""
    stores = [path.removesuffix(end) for end in _ENDS if path.endswith(end)] or [path]
    return any(_is_store(store) for store in stores)


def open_stores() -> Iterator[str]:
    """Yield the real paths of the stores that this process has open."""
    for number in _open_files():
        with suppress(OSError, ValueError):
            path = _path_of(number)
            if _is_store(path):
                yield path


def _path_of(number: int) -> str:
    if sys.platform == "darwin":
        from fcntl import F_GETPATH, fcntl  # noqa: PLC0415 - others do not have it

        return os.fsdecode(fcntl(number, F_GETPATH, bytes(_LONGEST_PATH)).rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115 - texts all along


def _open_files() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/dev/fd")]  # noqa: PTH208 - numbers
    except OSError:
        return []


def _is_store(path: str) -> bool:
    header = _read_start(path, _HEADER_BYTES)
    if not header.startswith(_MAGIC):
        return False
    # What a young store says of itself stands in its log: somewhere there is its first page.
    return _is_ours(header) or any(
        _is_ours(page) for page in _pages(_read_start(f"{path}-wal", _MOST_OF_LOG))
    )


def _is_ours(page: bytes) -> bool:
    return int.from_bytes(page[_ID], "big") == APPLICATION_ID


def _pages(log: bytes) -> Iterator[bytes]:
    """Yield what begins as the first page of a file does."""
    index = log.find(_MAGIC)
    while index >= 0:
        yield log[index : index + _HEADER_BYTES]
        index = log.find(_MAGIC, index + 1)


def _read_start(path: str, size: int) -> bytes:
    """Return the first *size* bytes of the file at *path*, b"" if it cannot be a database's."""
    try:
        status = os.stat(path)  # noqa: PTH116 - texts all along
        if S_ISREG(status.st_mode) and status.st_size >= _HEADER_BYTES:
            return _read_unlocked(path, status, size)
    except (OSError, ValueError):
        pass
    return b""


def _read_unlocked(path: str, status: os.stat_result, size: int) -> bytes:
    # To close a file takes away all locks that this process has on it, those of SQLite as well
    # (https://sqlite.org/howtocorrupt.html, 2.2): what is open already is not opened again.
    for number in _open_files():
        with suppress(OSError):
            other = os.fstat(number)
            if (other.st_dev, other.st_ino) == (status.st_dev, status.st_ino):
                return os.pread(number, size, 0)
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(number, size)
    finally:
        os.close(number)

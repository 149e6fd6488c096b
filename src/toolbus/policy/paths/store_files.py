"""Files of our stores, and those that SQLite keeps beside one."""

from __future__ import annotations

import os
from pathlib import Path

from toolbus.store.sqlite.files import open_files
from toolbus.store.sqlite.schema import APPLICATION_ID

_MAGIC = b"SQLite format 3\0"
_ID = slice(68, 72)  # https://sqlite.org/fileformat2.html#the_database_header
_ENDS = ("-wal", "-shm", "-journal")


def is_of_store(path: str) -> bool:
    """Return whether the file at the real *path* is a store's, or a log or index beside one."""
    stores = [path.removesuffix(end) for end in _ENDS if path.endswith(end)] or [path]
    return any(Path(store) in open_files() or _has_header(store) for store in stores)


def _has_header(path: str) -> bool:
    # Not of a file that this process has open as a store: to close it again would end the locks
    # that SQLite has on it (https://sqlite.org/howtocorrupt.html, 2.2).
    try:
        if not Path(path).is_file():
            return False
        # Nothing is waited for, whatever somebody puts there meanwhile.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            header = os.read(file, _ID.stop)
        finally:
            os.close(file)
    except (OSError, ValueError):
        return False
    return header.startswith(_MAGIC) and int.from_bytes(header[_ID], "big") == APPLICATION_ID

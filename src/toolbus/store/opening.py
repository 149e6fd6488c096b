"""How a store's file is opened: told apart from others first, and its failures put into words."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from toolbus.errors import StoreError
from toolbus.store import schema
from toolbus.store.paths import is_unfinished
from toolbus.store.reasons import failure_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

EMPTY = (0, 0, 0)
"""The marks of an empty file."""


def connect(file: Path, timeout: float, mode: str) -> sqlite3.Connection:
    """Return a connection to *file*; *mode* is one of SQLite's: "ro", "rw" or "rwc"."""
    uri = f"{file.as_uri()}?mode={mode}"
    # Made here and used in one thread, but not in the same; transactions begin where we say so.
    return sqlite3.connect(
        uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
    )


def check_contents(
    where: str, file: Path, connected: Callable[[str], sqlite3.Connection], *, read_only: bool
) -> None:
    """Refuse a file that is no store, or a newer one, and leave every byte as it is."""
    if not file.exists():
        return
    # Who closes a writable connection carries the log into the file, and who closes a
    # read-only one leaves empty files beside it: each is used where it does nothing.
    with closing(connected("ro" if is_unfinished(file) else "rw")) as connection:
        connection.execute("BEGIN")
        found = marks(connection)
    application_id, version, _ = found
    if found == EMPTY and read_only:
        raise StoreError(where, "it is empty; give the path of a store")
    if found != EMPTY and application_id != schema.APPLICATION_ID:
        raise StoreError(where, "it is another application's database; give another path")
    if version > schema.VERSION:
        known = schema.VERSION
        raise StoreError(where, f"it has version {version}, newer than {known}; update toolbus")


def marks(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Return the file's application id, its version and the number of its tables."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return application_id, version, tables


@contextmanager
def worded(where: str) -> Iterator[None]:
    """Raise what fails inside as a `StoreError` about *where*."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise failure_of(where, error) from error

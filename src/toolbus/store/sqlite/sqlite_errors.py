"""Error texts for SQLite's result codes, each with the way out."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolbus.errors import SessionBusyError, StoreError, WrongPathError

if TYPE_CHECKING:
    from collections.abc import Iterator

READ_ONLY = "the file is read-only; make it writable"
STILL_LOGGED = (
    "the rows are deleted, but a log that another reader needs still contains them; "
    "let it finish, and forget them again"
)
GONE = (
    "the file, or one beside it, was deleted, moved or replaced while it was open, and nothing was "
    "written; put it back, or open the store again"
)
_FOLDER = "the file, or one beside it, cannot be opened; make its folder writable"
_MAKE_SPACE = "make room and try again"

_REASONS = {
    "SQLITE_BUSY": "the store is locked by another program; let it finish and try again",
    "SQLITE_CANTOPEN": _FOLDER,
    "SQLITE_CORRUPT": "the file is damaged; restore it from a copy",
    "SQLITE_FULL": f"the disk is full, or the file has reached its size limit; {_MAKE_SPACE}",
    "SQLITE_IOERR": "the disk failed; check it and try again",
    "SQLITE_IOERR_WRITE": f"the disk or a quota is full, or the disk failed; {_MAKE_SPACE}",
    "SQLITE_NOTADB": "not an SQLite database, or damaged; give another path or restore it",
    "SQLITE_READONLY": READ_ONLY,
    "SQLITE_READONLY_CANTINIT": _FOLDER,
    "SQLITE_READONLY_DIRECTORY": _FOLDER,
    "SQLITE_READONLY_ROLLBACK": "another program left a write unfinished; open it there first",
    "SQLITE_TOOBIG": "the appended data is too big for SQLite; shorten it",
}


def failure_of(where: str, error: Exception) -> StoreError | SessionBusyError:
    """Return *error* as a `StoreError` about *where*, with *error* as its cause.

    Errors of the store itself are returned unchanged.
    """
    if isinstance(error, StoreError | SessionBusyError):
        return error
    if isinstance(error, UnicodeEncodeError):
        # Only that character is quoted: the text around it may be secret.
        surrogate = error.object[error.start : error.end]
        reason = f"an id or a text contains a lone surrogate, {surrogate!r}: {error.reason}"
        failure = StoreError(where, f"{reason}; remove it, or give another id")
        failure.__cause__ = error
        return failure
    # Errors about the use of the module `sqlite3` have no code.
    code = getattr(error, "sqlite_errorname", "")
    # SQLite quotes the content of a damaged file, which may not be text.
    code = "SQLITE_CORRUPT" if isinstance(error, UnicodeDecodeError) else code
    # A longer code falls back to its prefix, and an unknown code to SQLite's own text.
    reason = _REASONS.get(code) or _REASONS.get("_".join(code.split("_")[:2])) or str(error)
    failure = (WrongPathError if code == "SQLITE_NOTADB" else StoreError)(where, reason)
    failure.__cause__ = error
    return failure


@contextmanager
def wrap_errors(where: str) -> Iterator[None]:
    """Convert errors inside to a `StoreError` about *where*."""
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeError) as error:
        raise failure_of(where, error) from error

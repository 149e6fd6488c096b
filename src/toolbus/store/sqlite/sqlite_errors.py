"""SQLite's result codes in words, each with the way out."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolbus.errors import SessionBusyError, StoreError, WrongPathError

if TYPE_CHECKING:
    from collections.abc import Iterator

READ_ONLY = "it is read-only, and this would write to it; make it writable"
STILL_LOGGED = (
    "it is deleted, but another reader needs a log that holds it; "
    "let that finish and forget it again"
)
GONE = (
    "it, or a file beside it, was deleted, moved or replaced while it was open, and nothing was "
    "written; put it back, or open the store again"
)
_FOLDER = "it, or a file beside it, cannot be opened; make its folder writable"
_MAKE_SPACE = "make room and try again"

_REASONS = {
    "SQLITE_BUSY": "it is locked by another program; let that finish and try again",
    "SQLITE_CANTOPEN": _FOLDER,
    "SQLITE_CORRUPT": "it is damaged; restore it from a copy",
    "SQLITE_FULL": f"the disk is full, or the file as big as it may be; {_MAKE_SPACE}",
    "SQLITE_IOERR": "the disk failed; see to it and try again",
    "SQLITE_IOERR_WRITE": f"the disk or a quota is full, or the disk failed; {_MAKE_SPACE}",
    "SQLITE_NOTADB": "it is no SQLite database, or damaged; give another path or restore it",
    "SQLITE_READONLY": READ_ONLY,
    "SQLITE_READONLY_CANTINIT": _FOLDER,
    "SQLITE_READONLY_DIRECTORY": _FOLDER,
    "SQLITE_READONLY_ROLLBACK": "another program left a write unfinished; open it there first",
    "SQLITE_TOOBIG": "what was appended is too big for SQLite; shorten it",
}


def failure_of(where: str, error: Exception) -> StoreError | SessionBusyError:
    """Return *error* as a `StoreError` about *where*; it has the error as its cause.

    A refusal is returned as it is.
    """
    if isinstance(error, StoreError | SessionBusyError):
        return error
    if isinstance(error, UnicodeEncodeError):
        # Only that character: what stands around it may be nobody's to read.
        half = error.object[error.start : error.end]
        what = f"an id or a text has half a character in it, {half!r}: {error.reason}"
        failure = StoreError(where, f"{what}; take it out, or give another id")
        failure.__cause__ = error
        return failure
    # Errors of the module itself, about how it is used, have no code.
    code = getattr(error, "sqlite_errorname", "")
    # SQLite quotes what it finds in a damaged file, and that is not always text.
    code = "SQLITE_CORRUPT" if isinstance(error, UnicodeDecodeError) else code
    # A longer code falls back to its head, and what has no words speaks for itself.
    reason = _REASONS.get(code) or _REASONS.get("_".join(code.split("_")[:2])) or str(error)
    failure = (WrongPathError if code == "SQLITE_NOTADB" else StoreError)(where, reason)
    failure.__cause__ = error
    return failure


@contextmanager
def wrap_errors(where: str) -> Iterator[None]:
    """Turn errors inside into a `StoreError` about *where*."""
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeError) as error:
        raise failure_of(where, error) from error

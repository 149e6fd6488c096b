"""PostgreSQL's error codes in words, each with the way out."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolbus.errors import SessionBusyError, StoreError
from toolbus.store.postgres.answer_guard import APPROVER, NO_APPROVER
from toolbus.store.postgres.driver import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNWRITTEN = ", and nothing was written"
"""The end of the reasons below where a write failed."""

UNKNOWN = (
    "the connection was lost in the middle of a commit, and the server does not answer since: "
    "it may have been written; read the session again before anything is repeated"
)
READ_ONLY = (
    f"the server or the role only reads (a standby?){_UNWRITTEN}; give the address of "
    "the primary, or several hosts with `target_session_attrs=read-write`"
)
_LOST = f"the connection was lost{_UNWRITTEN}; try again"
_DENIED = (
    "the role may not do this; grant it what is missing, as specs/postgres.md lists it "
    "(readers: `read_only=True`)"
)
_ROOM = f"the disk of the server is full{_UNWRITTEN}; make room and try again"
_SLOW = f"it took too long{_UNWRITTEN}; try again, or give a longer `timeout`"
_FULL = "53300"

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_REASONS = {
    "08": _LOST,
    "25006": READ_ONLY,
    "22021": "a text has a letter that the server cannot keep; take it out",
    "28": "the server refused the role or its password; see PGPASSFILE, PGPASSWORD and pg_hba.conf",
    "3D000": "there is no such database; make it with `createdb`",
    "40": f"another program held what this needs{_UNWRITTEN}; try again",
    "42501": _DENIED,
    "42P01": "a table of it is missing, so it is damaged; restore it from a copy",
    "53100": _ROOM,
    "53200": f"the server is out of memory{_UNWRITTEN}; try again",
    _FULL: "the server takes no more connections; raise its `max_connections`, or close some",
    "54": "what was appended is too big for PostgreSQL; shorten it",
    "55P03": "it is locked by another program; let that finish and try again",
    "57014": _SLOW,
    "57P": _LOST,
    "58": "the disk of the server failed; see to it and try again",
    NO_APPROVER: f"only a member of the role {APPROVER} may answer a question, or grant",
    "XX001": "it is damaged; restore it from a copy",
    "XX002": "an index of it is damaged; see REINDEX",
}


def failure_of(
    where: str, error: Exception, *, reading: bool = False
) -> StoreError | SessionBusyError:
    """Return *error* as a `StoreError` about *where*; it has the error as its cause.

    A refusal is returned as it is. Of a failure in *reading* nothing is said of writing.
    """
    if isinstance(error, StoreError | SessionBusyError):
        return error
    reason = _reason_of(error)
    failure = StoreError(where, reason.replace(_UNWRITTEN, "") if reading else reason)
    failure.__cause__ = error
    return failure


def _reason_of(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        # Only that character: what stands around it may be nobody's to read.
        half = error.object[error.start : error.end]
        what = f"an id or a text has half a character in it, {half!r}: {error.reason}"
        return f"{what}; take it out, or give another id"
    if isinstance(error, psycopg.Error):
        code = error.sqlstate or (_FULL if _has_no_room(str(error)) else "")
        for length in (5, 3, 2):
            if reason := _REASONS.get(code[:length]):
                return reason
        if isinstance(error, psycopg.OperationalError) and not code:
            return f"{_sentence(error)}{_UNWRITTEN}"
    return _sentence(error)


def _sentence(error: Exception) -> str:
    """Return the first line of what *error* says, which has no values of rows in it."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    lines = (primary or str(error) or type(error).__name__).strip().splitlines()
    return lines[0].strip()


_NOT_NOW = ("starting up", "shutting down", "recovery mode", "not yet accepting")
_NO_ROOM = ("too many clients", "too many connections", "connection slots are reserved")


def _has_no_room(text: str) -> bool:
    return any(words in text for words in _NO_ROOM)


def is_transient(error: Exception) -> bool:
    """Return whether a server that refused a connection with *error* may soon take one."""
    # libpq gives no code for what fails before a connection is there.
    text = str(error)
    if "FATAL" not in text:
        return True
    return _has_no_room(text) or any(words in text for words in _NOT_NOW)


@contextmanager
def wrap_errors(where: str) -> Iterator[None]:
    """Turn a failure of a read inside into a `StoreError` about *where*."""
    try:
        yield
    except (psycopg.Error, OSError, UnicodeError) as error:
        raise failure_of(where, error, reading=True) from error

"""Error texts for PostgreSQL's error codes, each with the way out."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolbus.errors import SessionBusyError, StoreError
from toolbus.store.postgres.answer_guard import APPROVER, NO_APPROVER
from toolbus.store.postgres.driver import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNWRITTEN = ", and nothing was written"
"""The end of a reason after a failed write."""

UNKNOWN = (
    "the connection was lost during a commit, and the server has not answered since: the data may "
    "have been written; read the session again before you repeat anything"
)
READ_ONLY = (
    f"the server or the role is read-only (a standby?){_UNWRITTEN}; give the address of "
    "the primary, or several hosts with `target_session_attrs=read-write`"
)
_LOST = f"the connection was lost{_UNWRITTEN}; try again"
_DENIED = (
    "the role lacks a privilege; grant it the privileges in specs/postgres.md "
    "(readers: use `read_only=True`)"
)
_ROOM = f"the disk of the server is full{_UNWRITTEN}; make room and try again"
_SLOW = f"it took too long{_UNWRITTEN}; try again, or give a longer `timeout`"
_FULL = "53300"

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_REASONS = {
    "08": _LOST,
    "25006": READ_ONLY,
    "22021": "a text has a character that the server cannot store; remove it",
    "28": "the server refused the role or its password; see PGPASSFILE, PGPASSWORD and pg_hba.conf",
    "3D000": "there is no such database; make it with `createdb`",
    "40": f"another program locked the same rows{_UNWRITTEN}; try again",
    "42501": _DENIED,
    "42P01": "a table is missing, so the store is damaged; restore it from a copy",
    "53100": _ROOM,
    "53200": f"the server is out of memory{_UNWRITTEN}; try again",
    _FULL: "the server accepts no more connections; raise its `max_connections`, or close some",
    "54": "the appended data is too big for PostgreSQL; shorten it",
    "55P03": "the store is locked by another program; let it finish and try again",
    "57014": _SLOW,
    "57P": _LOST,
    "58": "the disk of the server failed; check it and try again",
    NO_APPROVER: f"only a member of the role {APPROVER} may answer a question, or grant",
    "XX001": "the store is damaged; restore it from a copy",
    "XX002": "an index of the store is damaged; see REINDEX",
}


def failure_of(
    where: str, error: Exception, *, reading: bool = False
) -> StoreError | SessionBusyError:
    """Return *error* as a `StoreError` about *where*, with *error* as its cause.

    Errors of the store itself are returned unchanged. With *reading*, the text does not mention
    writes.
    """
    if isinstance(error, StoreError | SessionBusyError):
        return error
    reason = _reason_of(error)
    failure = StoreError(where, reason.replace(_UNWRITTEN, "") if reading else reason)
    failure.__cause__ = error
    return failure


def _reason_of(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        # Only that character is quoted: the text around it may be secret.
        surrogate = error.object[error.start : error.end]
        problem = f"an id or a text contains a lone surrogate, {surrogate!r}: {error.reason}"
        return f"{problem}; remove it, or give another id"
    if isinstance(error, psycopg.Error):
        code = error.sqlstate or (_FULL if _has_no_room(str(error)) else "")
        for length in (5, 3, 2):
            if reason := _REASONS.get(code[:length]):
                return reason
        if isinstance(error, psycopg.OperationalError) and not code:
            return f"{_sentence(error)}{_UNWRITTEN}"
    return _sentence(error)


def _sentence(error: Exception) -> str:
    """Return the first line of the text of *error*, which contains no values of rows."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    lines = (primary or str(error) or type(error).__name__).strip().splitlines()
    return lines[0].strip()


_NOT_NOW = ("starting up", "shutting down", "recovery mode", "not yet accepting")
_NO_ROOM = ("too many clients", "too many connections", "connection slots are reserved")


def _has_no_room(text: str) -> bool:
    return any(words in text for words in _NO_ROOM)


def is_transient(error: Exception) -> bool:
    """Return whether a server that refused a connection with *error* may soon accept one."""
    # libpq gives no code for failures before the connection is established.
    text = str(error)
    if "FATAL" not in text:
        return True
    return _has_no_room(text) or any(words in text for words in _NOT_NOW)


@contextmanager
def wrap_errors(where: str) -> Iterator[None]:
    """Convert a failure of a read inside to a `StoreError` about *where*."""
    try:
        yield
    except (psycopg.Error, OSError, UnicodeError) as error:
        raise failure_of(where, error, reading=True) from error

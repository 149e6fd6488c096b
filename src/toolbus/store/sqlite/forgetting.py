"""How whole sessions are deleted from an SQLite file, within one transaction of its writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.errors import DecodeError
from toolbus.store.rows import call_ids, decode_message, decode_page, mentioned

if TYPE_CHECKING:
    from toolbus.store.sqlite.files import Connection

_OLD = """SELECT sessions.key, sessions.id FROM sessions
    LEFT JOIN writers ON writers.session = sessions.id
    WHERE updated_ns < ? AND coalesce(until_ns, 0) <= ? ORDER BY sessions.key LIMIT ?"""
_MESSAGES = """SELECT key, version, CAST(body AS BLOB), checksum FROM messages
    WHERE session = ? ORDER BY seq"""
_LEFTOVERS = "SELECT key FROM ledger WHERE key < 0 AND session = ?"
_PAGE = "SELECT version, CAST(body AS BLOB), checksum FROM ledger WHERE key = ?"
_DROP_CALL = "DELETE FROM calls WHERE id = ? AND message = ?"
_DROP_MENTION = "DELETE FROM mentions WHERE id = ? AND page = ?"
# Without the ids, which an unreadable body keeps to itself, all of the index is searched.
_DROP_CALLS = "DELETE FROM calls WHERE message = ?"
_DROP_MENTIONS = "DELETE FROM mentions WHERE page = ?"
_DROP_PAGE = "DELETE FROM ledger WHERE key = ?"
_DROP_REST = (
    "DELETE FROM messages WHERE session = ?",
    "DELETE FROM originals WHERE session = ?",
    "DELETE FROM states WHERE session = ?",
    "DELETE FROM writers WHERE session = (SELECT id FROM sessions WHERE key = ?)",
    "DELETE FROM sessions WHERE key = ?",
)


def forget_sessions(
    connection: Connection, before_ns: int, now_ns: int, limit: int
) -> tuple[str, ...]:
    """Delete up to *limit* sessions last written before *before_ns*; return their ids.

    Those that were made first; not those whose lease lasts at *now_ns*.
    """
    sessions = connection.execute(_OLD, (before_ns, now_ns, limit)).fetchall()
    for key, _ in sessions:
        for message, *row in connection.execute(_MESSAGES, (key,)):
            _drop_calls(connection, message, row)
            _drop_page(connection, message)
        for (page,) in connection.execute(_LEFTOVERS, (key,)).fetchall():
            _drop_page(connection, page)
        for statement in _DROP_REST:
            connection.execute(statement, (key,))
    return tuple([session_id for _, session_id in sessions])


def _drop_calls(connection: Connection, key: int, row: list[object]) -> None:
    version, body, checksum = row
    assert isinstance(body, bytes)  # noqa: S101 - the statement casts it
    try:
        names = call_ids(decode_message(version, body, checksum))
    except DecodeError:
        connection.execute(_DROP_CALLS, (key,))
        return
    connection.executemany(_DROP_CALL, [(name, key) for name in names])


def _drop_page(connection: Connection, key: int) -> None:
    for version, body, checksum in connection.execute(_PAGE, (key,)).fetchall():
        try:
            names = mentioned(decode_page(version, body, checksum), None)
        except DecodeError:
            connection.execute(_DROP_MENTIONS, (key,))
        else:
            connection.executemany(_DROP_MENTION, [(name, key) for name in names])
        connection.execute(_DROP_PAGE, (key,))

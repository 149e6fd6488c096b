"""The reader of a store's file that may be damaged: it yields all rows that SQLite can read."""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict, deque
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from toolbus.errors import DecodeError, WrongPathError
from toolbus.store.protocol import Original
from toolbus.store.rows import decode_message
from toolbus.store.sql_reader import batch_from_row, state_from_row
from toolbus.store.sqlite import schema
from toolbus.store.sqlite.files import (
    EMPTY,
    ChangeDetector,
    check_version,
    checked_path,
    connect,
    integrity_problems,
    looking_mode,
    read_header,
)
from toolbus.store.sqlite.sqlite_errors import wrap_errors
from toolbus.store.store_reader import MessageRow, RecordBatch, SessionRow, StoreFacts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.store.sqlite.files import Header
    from toolbus.store.store_reader import StateRow

# SQLite quotes the content of a damaged file, which may not be text.
_ERRORS = (sqlite3.Error, UnicodeDecodeError)
_ELSEWHERE = ("SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_READONLY")
"""The prefixes of SQLite's codes for failures outside of the file."""

_MAGIC = b"SQLite format 3\0"
_NAMES = frozenset(re.findall(r"(?:TABLE|INDEX) IF NOT EXISTS (\w+)", " ".join(schema.TABLES)))
"""The tables and indexes of the current version."""

_OLD_NAMES = frozenset({"sessions", "messages", "calls", "ledger"})
"""The tables of every version."""

_MIN_ROW = 32
"""The fewest bytes of a row, which bounds the number of keys in the file."""

_TRIES = 20_000
"""The most ranges of keys that are tried in a table: this takes some seconds."""

_SESSION = "coalesce(CAST(session AS INTEGER), 0)"
# The columns after key and session, cast to the types of the tables: a damaged row may have other
# types, which give a number reported as lost, or a body with a wrong checksum.
_COLUMNS = {
    "messages": "coalesce(CAST(seq AS INTEGER), 0), id, version, CAST(body AS BLOB), checksum",
    "ledger": """coalesce(CAST(place AS INTEGER), 0), coalesce(CAST(seq AS INTEGER), 0),
        version, CAST(body AS BLOB), checksum""",
    "states": "coalesce(CAST(name AS TEXT), ''), version, CAST(body AS BLOB), checksum",
    "originals": "coalesce(CAST(digest AS TEXT), ''), CAST(body AS BLOB)",
}


@contextmanager
def open_damaged(where: str) -> Iterator[DamagedFile]:
    """Open the file *where* for reading; raises `StoreError` if it is not a store.

    A process that has the file open must not call this: closing the file here would release the
    locks of that process, by POSIX.
    """
    file = checked_path(where, read_only=True)
    with file.open("rb") as stream:
        has_head = stream.read(len(_MAGIC)) == _MAGIC
    mode = looking_mode(file)
    detector = None if mode == "ro" else ChangeDetector(where, file)
    with wrap_errors(where), closing(connect(file, 5.0, mode)) as connection:
        connection.text_factory = lambda text: text.decode(errors="replace")
        yield DamagedFile(where, connection, file.stat().st_size, has_head=has_head)
    if detector:
        detector.check()


class DamagedFile:
    """A reader of the file *where*, of *size* bytes, with methods of a `StoreReader`.

    Raises `WrongPathError` for a file that SQLite cannot read and that lacks the magic header of
    SQLite (*has_head*), and for a file of another application or of a newer version.
    """

    def __init__(
        self, where: str, connection: sqlite3.Connection, size: int, *, has_head: bool
    ) -> None:
        self._connection, self._size = connection, size
        self._version = self._pages = self._max_keys = 0
        self._names: set[str] = set()
        self._unread: dict[str, str] = {}
        self._problems = _opening_problems(connection)
        try:
            self._read_structure(where)
        except _ERRORS as error:
            if getattr(error, "sqlite_errorname", "").startswith(_ELSEWHERE):
                raise
            if not has_head:
                reason = "not a store, or its header is lost: then restore it from a copy"
                raise WrongPathError(where, reason) from error
            reason = f"SQLite cannot read the file at all ({error})"
            self._problems = [f"{reason}; restore it from a copy"]
        tables = [table for table in _COLUMNS if table in self._names]
        self._keys = {table: self._find_keys(table) for table in tables}
        self._sessions = self._read_sessions() if "sessions" in self._names else {}
        self._name_lost_sessions()

    def _read_structure(self, where: str) -> None:
        header = read_header(self._connection)
        names = {name for (name,) in self._connection.execute("SELECT name FROM sqlite_master")}
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        (page_size,) = self._connection.execute("PRAGMA page_size").fetchone()
        self._problems += _header_problems(where, header, names)
        if header != EMPTY:
            faults = integrity_problems(self._connection)
            self._problems += [f"SQLite finds: {problem}" for problem in faults]
        self._version, self._pages, self._names = header.version, pages, names
        self._max_keys = pages * page_size // _MIN_ROW + 1

    def facts(self) -> StoreFacts:
        """Return SQLite's facts about the file, its problems, and the partly unreadable tables."""
        calls = None
        if "calls" in self._names:
            calls = next((n for (n,) in self._execute("calls", "SELECT count(*) FROM calls")), None)
        problems = (*self._problems, *self._unread.values())
        return StoreFacts(self._version, self._size, problems, self._pages, calls)

    def sessions(self) -> list[SessionRow]:
        """Return all sessions, the oldest first; a session lost from the table gets a name."""
        return sorted(self._sessions.values())

    def messages(self, session: int) -> Iterator[MessageRow]:
        """Yield the messages of a session, in the order of writing."""
        for key, (seq, name, *body) in self._rows("messages", session):
            try:
                yield MessageRow(key, session, seq, name, decode_message(*body))
            except DecodeError as error:
                yield MessageRow(key, session, seq, name, None, str(error))

    def record_batches(self, session: int) -> Iterator[RecordBatch]:
        """Yield all records of a session; batches without a message come first."""
        return (batch for _, batch in self.keyed_batches(session))

    def keyed_batches(self, session: int) -> Iterator[tuple[int, RecordBatch]]:
        """Yield all records of a session with the key of their message, or a negative key.

        Negative keys of batches without a message decrease with each batch.
        """
        for key, (place, seq, *body) in self._rows("ledger", session):
            yield key, batch_from_row((session, place, seq, key > 0, *body))

    def states(self, session: int) -> Iterator[StateRow]:
        """Yield the states of the session."""
        return (state_from_row(*row) for _, row in self._rows("states", session))

    def originals(self, session: int) -> Iterator[Original]:
        """Yield the original values of the session."""
        rows = self._rows("originals", session)
        return (Original(digest=digest, body=body) for _, (digest, body) in rows)

    def _rows(self, table: str, session: int) -> Iterator[tuple[int, Any]]:
        """Yield the readable rows of the session with their keys, in order."""
        query = (
            f"SELECT {_COLUMNS[table]} FROM {table} NOT INDEXED WHERE key = ? AND {_SESSION} = ?"
        )
        for key in sorted(self._keys.get(table, {}).get(session, ())):
            for row in self._execute(table, query, key, session)[:1]:
                yield key, row

    def _execute(self, table: str, query: str, *values: object) -> list[Any]:
        """Return the rows of *query*; [] if *table* is damaged there."""
        try:
            return self._connection.execute(query, values).fetchall()
        except _ERRORS as error:
            self._note(table, error)
            return []

    def _note(self, table: str, reason: object) -> None:
        self._unread.setdefault(table, f"a part of the table {table!r} cannot be read: {reason}")

    def _find_keys(self, table: str) -> dict[int, set[int]]:
        """Return the keys of the rows in *table* by session."""
        keys: dict[int, set[int]] = defaultdict(set)
        for key, session in self._scan(table, f"key, {_SESSION}"):
            keys[session].add(key)
        return dict(keys)

    def _read_sessions(self) -> dict[str, SessionRow]:
        """Return the rows of the table of sessions by id."""
        sessions: dict[str, SessionRow] = {}
        for row in self._scan("sessions", "key, id, messages, records, created_ns, updated_ns"):
            if [*map(type, row)] == [int, str, int, int, int, int]:
                sessions.setdefault(row[1], SessionRow._make((*row, False)))
            else:
                self._note("sessions", "a row has a value of the wrong type")
        return sessions

    def _name_lost_sessions(self) -> None:
        """Add the sessions that have rows but are missing in the table of sessions."""
        listed = {session.key for session in self._sessions.values()}
        for key in sorted({key for keys in self._keys.values() for key in keys} - listed):
            records = [record for batch in self.record_batches(key) for record in batch.records]
            name = self._lost_name(key, [record.scope.session_id for record in records[:1]])
            times = [record.started_ns for record in records] or [0]
            row = SessionRow(key, name, 0, 0, min(times), max(times), has_originals=False)
            self._sessions[name] = row
            self._problems.append(f"session {name!r} is missing in the table of sessions")

    def _lost_name(self, key: int, recorded_names: list[str]) -> str:
        """Return the name of a lost session, from the index or else *recorded_names*."""
        query = """SELECT CAST(id AS TEXT) FROM sessions INDEXED BY sqlite_autoindex_sessions_1
            WHERE +key = ?"""
        names = [*[name for (name,) in self._execute("sessions", query, key)], *recorded_names]
        known = (name for name in names if name and name not in self._sessions)
        return next(known, f"recovered-{key}")

    def _scan(self, table: str, columns: str) -> Iterator[Any]:
        """Yield the rows of *table*, whose first column is the key; some may come twice.

        A range of keys is read upwards from its first key until an error, then downwards from its
        last key until an error: a damaged key may mislead either direction. The keys in between are
        halved again and again, so that each readable part is reached.
        """
        parts, tries = deque([(-(2**63), 2**63 - 1)]), 0
        while parts and tries < _TRIES:
            tries += 1
            low, high = parts.popleft()
            for order in ("ASC", "DESC"):
                query = f"""SELECT {columns} FROM {table} NOT INDEXED
                    WHERE key BETWEEN ? AND ? ORDER BY key {order} LIMIT ?"""
                try:
                    for row in self._connection.execute(query, (low, high, self._max_keys)):
                        yield row
                        # A damaged key may be outside of the range.
                        if low <= row[0] <= high:
                            low, high = (row[0] + 1, high) if order == "ASC" else (low, row[0] - 1)
                except _ERRORS as error:
                    self._note(table, error)
                else:
                    break
            else:
                low, high = max(low, -self._max_keys), min(high, self._max_keys)
                middle = (low + high) // 2
                parts += [(low, middle), (middle + 1, high)] if low < high else []


def _opening_problems(connection: sqlite3.Connection) -> list[str]:
    """Return why SQLite cannot open the file normally, and make it tolerate damage."""
    problems: list[str] = []
    try:
        read_header(connection)
    except _ERRORS as error:
        problems.append(f"SQLite cannot open the file: {error}")
    # With this SQLite also reads a truncated file, and skips tables with an invalid definition.
    connection.execute("PRAGMA writable_schema = ON")
    # A consistent snapshot is read, regardless of concurrent writes.
    connection.execute("BEGIN")
    return problems


def _header_problems(where: str, header: Header, names: set[str]) -> list[str]:
    """Return the problems of *header* and *names*; refuse a foreign or a newer file."""
    if header == EMPTY:
        return ["the file is empty: it was never written, or all of it was cut off"]
    is_ours = header.application_id == schema.APPLICATION_ID
    if not is_ours and "messages" not in names:
        raise WrongPathError(where, "the database is of another application; give another path")
    check_version(where, header.version)
    problems: list[str] = []
    if not is_ours:
        number = f"{header.application_id:#x}"
        problems.append(f"the application id {number} is not that of a store")
    if header.version < schema.OLDEST:
        problems.append(f"version {header.version} is not of any release")
    needed = _NAMES if header.version == schema.VERSION else _OLD_NAMES
    missing = sorted(needed - names)
    return problems + [f"the table or index {name!r} is missing" for name in missing]

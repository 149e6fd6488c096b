"""The rows of a store's file, as far as SQLite gives them: around damage, key by key."""

from __future__ import annotations

import sqlite3
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from toolbus.errors import DecodeError
from toolbus.store.protocol import Original
from toolbus.store.reading import MessageRow, Page, SessionRow
from toolbus.store.rows import decode_message
from toolbus.store.sql_reader import found_page, found_state

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from toolbus.store.reading import StateRow
    from toolbus.store.sqlite.files import Connection

_MIN_ROW = 32
"""No row of a message or of a record takes fewer bytes, so there are no more keys than that."""

_TRIES = 20_000
"""How many parts of a table are tried behind one another: some seconds."""

# The columns behind the key and the session, and the types of their values.
_COLUMNS = {
    "messages": "seq, id, version, CAST(body AS BLOB), checksum",
    "ledger": "place, seq, version, CAST(body AS BLOB), checksum",
    "states": "name, version, CAST(body AS BLOB), checksum",
    "originals": "digest, CAST(body AS BLOB)",
}
_TYPES = {
    "messages": (int, object, object, bytes, object),
    "ledger": (int, int, object, bytes, object),
    "states": (str, object, bytes, object),
    "originals": (str, bytes),
    "sessions": (int, str, int, int, int, int),
}


class DamagedFile:
    """Reads the *tables* behind *connection*, which are those of a file of *size* bytes.

    Its verbs are those of a `StoreReader`. `problems` says which tables cannot be read whole.
    """

    def __init__(self, connection: Connection, size: int, tables: Container[str]) -> None:
        self._connection, self._max_keys = connection, size // _MIN_ROW + 1
        self.problems: dict[str, str] = {}
        self._keys = {table: self._find_keys(table) for table in _COLUMNS if table in tables}
        self._sessions = self._read_sessions() if "sessions" in tables else {}
        listed = {session.key for session in self._sessions.values()}
        lost = {key for keys in self._keys.values() for key in keys} - listed
        self.lost_sessions = [self._name_session(key) for key in sorted(lost)]

    def sessions(self) -> list[SessionRow]:
        """Return all sessions, the oldest first; one that is not in the list is given a name."""
        return sorted(self._sessions.values())

    def keys(self, table: str, session: int) -> list[int]:
        """Return the keys of the session's rows in *table*, in order."""
        return sorted(self._keys.get(table, {}).get(session, ()))

    def messages(self, session: int) -> Iterator[MessageRow]:
        """Give the messages of a session, in the order in which they were written."""
        for key in self.keys("messages", session):
            if row := self.message(session, key):
                yield row

    def message(self, session: int, key: int) -> MessageRow | None:
        """Return the session's message of a key."""
        if (row := self._row("messages", session, key)) is None:
            return None
        seq, name, version, body, checksum = row
        try:
            return MessageRow(key, session, seq, name, decode_message(version, body, checksum))
        except DecodeError as error:
            return MessageRow(key, session, seq, name, None, str(error))

    def pages(self, session: int) -> Iterator[Page]:
        """Give all records of a session, those without a message first."""
        for key in self.keys("ledger", session):
            if page := self.page(session, key):
                yield page

    def page(self, session: int, key: int) -> Page | None:
        """Return the session's records of a key: that of their message, or one below zero."""
        row = self._row("ledger", session, key)
        return None if row is None else found_page((session, *row[:2], key > 0, *row[2:]))

    def entry_keys(self, session: int) -> set[int]:
        """Return the keys of messages, and of records that came with one."""
        pages = [key for key in self.keys("ledger", session) if key > 0]
        return {*self.keys("messages", session), *pages}

    def leftovers(self, session: int) -> list[Page]:
        """Return the records that came without a message, in order: each has the next lower key."""
        keys = [key for key in self.keys("ledger", session) if key < 0]
        return [page for key in reversed(keys) if (page := self.page(session, key))]

    def states(self, session: int) -> Iterator[StateRow]:
        """Give what components keep for the session."""
        for key in self.keys("states", session):
            if row := self._row("states", session, key):
                yield found_state(*row)

    def originals(self, session: int) -> Iterator[Original]:
        """Give the values that the session kept."""
        for key in self.keys("originals", session):
            if row := self._row("originals", session, key):
                yield Original(digest=row[0], body=row[1])

    def _row(self, table: str, session: int, key: int) -> Any:
        """Return a row, but for key and session; None if SQLite gives none that fits the table."""
        query = f"SELECT {_COLUMNS[table]} FROM {table} NOT INDEXED WHERE key = ? AND session = ?"
        try:
            row = self._connection.execute(query, (key, session)).fetchone()
        except sqlite3.Error as error:
            self._note(table, error)
            return None
        return row if row is not None and self._fits(table, row) else None

    def _fits(self, table: str, row: tuple[object, ...]) -> bool:
        fits = all(map(isinstance, row, _TYPES[table]))
        if not fits:
            self._note(table, "a row has a value of another type")
        return fits

    def _note(self, table: str, reason: object) -> None:
        self.problems.setdefault(table, f"the table {table!r} cannot be read whole: {reason}")

    def _find_keys(self, table: str) -> dict[int, set[int]]:
        """Return the keys of the rows in *table* by their sessions."""
        keys: dict[int, set[int]] = defaultdict(set)
        for key, session in self._scan(table, "key, session"):
            if isinstance(session, int):
                keys[session].add(key)
            else:
                self._note(table, "a row has no session")
        return dict(keys)

    def _read_sessions(self) -> dict[str, SessionRow]:
        """Return the rows of the list of sessions by their ids."""
        sessions: dict[str, SessionRow] = {}
        for row in self._scan("sessions", "key, id, messages, records, created_ns, updated_ns"):
            if self._fits("sessions", row):
                sessions.setdefault(row[1], SessionRow._make((*row, False)))
        return sessions

    def _name_session(self, key: int) -> str:
        """Name a session whose own row is lost; the index or its records may have the name."""
        records = [record for page in self.pages(key) for record in page.records]
        names = [self._indexed_name(key), *[each.scope.session_id for each in records[:1]]]
        known = (name for name in names if name and name not in self._sessions)
        name = next(known, f"recovered-{key}")
        times = [record.started_ns for record in records] or [0]
        row = SessionRow(key, name, 0, 0, min(times), max(times), has_originals=False)
        self._sessions[name] = row
        return name

    def _indexed_name(self, key: int) -> str | None:
        query = "SELECT id FROM sessions INDEXED BY sqlite_autoindex_sessions_1 WHERE +key = ?"
        try:
            row = self._connection.execute(query, (key,)).fetchone()
        except sqlite3.Error:
            return None
        return row[0] if row and isinstance(row[0], str) else None

    def _scan(self, table: str, columns: str) -> Iterator[Any]:
        """Give the rows of *table*, of which the first column is the key; some may come twice.

        A part of it is read from its first key up to an error, then from its last one down to one.
        What lies between is halved again and again, so each part that SQLite finds is read.
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
                        # A damaged key is no guide.
                        if low <= row[0] <= high:
                            low, high = (row[0] + 1, high) if order == "ASC" else (low, row[0] - 1)
                except sqlite3.Error as error:
                    self._note(table, error)
                else:
                    break
            else:
                low, high = max(low, -self._max_keys), min(high, self._max_keys)
                middle = (low + high) // 2
                parts += [(low, middle), (middle + 1, high)] if low < high else []

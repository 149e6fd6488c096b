"""What can be read of a store's file, gathered in a database of the same tables."""

from __future__ import annotations

from binascii import crc32
from typing import TYPE_CHECKING

from toolbus.errors import DecodeError
from toolbus.store.recovery.pairing import TURNS, read_pairing, turns_of
from toolbus.store.recovery.states import TABLES, Damage, SessionState, read_states
from toolbus.store.rows import (
    ENCODING,
    call_ids,
    checked_json,
    columns_of,
    decode_message,
    decode_page,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message
    from toolbus.store.recovery.salvage import Row, Salvage, Value
    from toolbus.store.sqlite.files import Connection

_PROVED: Mapping[str, Callable[[object, bytes, object], Message | tuple[DispatchRecord, ...]]] = {
    "ledger": decode_page,
    "messages": decode_message,
}
"""The tables whose rows prove themselves, by a body that decodes and its checksum."""

_KEPT = {"states": "state {0[name]!r}", "originals": "original {0[digest]!r}"}
"""The tables of JSON that sessions keep, and how a row is named. An original has no checksum."""

_SCRATCH = (
    TURNS,
    "CREATE TEMP TABLE found_calls (id TEXT, message INTEGER, PRIMARY KEY (id, message))",
)


class Survey:
    """Gathers the rows of *source* in *target*, an empty database with the tables of a store.

    With *bodies* they are copied whole, else only counted. `problems` says what is wrong, `notes`
    what is odd.
    """

    def __init__(self, source: Salvage, target: Connection, *, bodies: bool) -> None:
        self._source, self._target, self._bodies = source, target, bodies
        self._damaged: Damage = {}
        # By the keys of sessions, what their records say: name, first and last time.
        self._sessions: dict[Value, tuple[str, int, int]] = {}
        self.problems: list[str] = []
        self.notes: list[str] = []

    def gather(self, progress: Callable[[int, int], None]) -> tuple[SessionState, ...]:
        """Read all that can be read; return the state of each session, the oldest first."""
        for statement in _SCRATCH:
            self._target.execute(statement)
        self._copy_sessions()
        self._take_all(progress)
        for table in _KEPT:
            self._take_kept(table)
        self._name_sessions()
        states = read_states(self._target, self._damaged)
        for key, state, problems in states:
            self.problems += problems
            self.notes += self._strays(key, state)
        self._report_misplaced([(key, state) for key, state, _ in states])
        self._compare_calls()
        if self._source.misfits:
            self.problems.append(f"{_count(self._source.misfits, 'row')} cannot be made out")
        self.problems += self._source.problems.values()
        return tuple([state for _, state, _ in states])

    def _copy_sessions(self) -> None:
        """Take the list of sessions, whose rows do not prove themselves."""
        for row in self._source.rows("sessions"):
            if not self._insert("sessions", row):
                self.problems.append("a row of 'sessions' stands twice, or is damaged")

    def _take_all(self, progress: Callable[[int, int], None]) -> None:
        """Take messages and records, and tell how many there are of those that were counted."""
        (total,) = self._target.execute("SELECT total(messages + records) FROM sessions").fetchone()
        done, total = 0, max(1, int(total))
        for table in _PROVED:
            for row in self._source.rows(table):
                done += self._take(table, row)
                progress(min(done, total), total)

    def _take(self, table: str, row: Row) -> int:
        """Keep messages or records, or note that they are damaged; return how many they are."""
        data = row["body"]
        assert isinstance(data, bytes)  # noqa: S101 - other rows are misfits
        try:
            body = _PROVED[table](row["version"], data, row["checksum"])
        except DecodeError as error:
            self._damaged[table, row["session"], row["seq"]] = f"it {error}"
            return 1
        columns = columns_of(body)
        self._compare_columns(table, row, columns)
        copy = {**row, **columns, "checksum": crc32(data), "body": data if self._bodies else b""}
        inserted = int(str(row["seq"])) > 0 and self._insert(table, copy)
        if not inserted:
            self._refuse(table, copy)
        if isinstance(body, tuple):
            for record in body:
                self._note_session(row["session"], record)
            return len(body)
        if inserted:
            self._note_calls(copy, body)
        return 1

    def _take_kept(self, table: str) -> None:
        """Take values that a session keeps, or say that they are damaged."""
        for row in self._source.rows(table):
            place = f"{_KEPT[table].format(row)} of session {self._name(row['session'])}"
            body = row["body"]
            assert isinstance(body, bytes)  # noqa: S101 - other rows are misfits
            try:
                checked_json(row.get("version", ENCODING), body, row.get("checksum"))
            except DecodeError as error:
                self.problems.append(f"{place} cannot be read: it {error}")
                continue
            copy = {**row, "body": body if self._bodies else b""}
            if "checksum" in row:
                copy["checksum"] = crc32(body)
            # Its key says nothing, and may be damaged: then it may be that of another row.
            if not (self._insert(table, copy) or self._insert(table, {**copy, "key": None})):
                self.problems.append(f"{place} stands twice, or its name is damaged")

    def _name(self, session: Value) -> str:
        """Return the name of the session with the key *session*, else that key."""
        query = "SELECT id FROM sessions WHERE key = ?"
        (name,) = self._target.execute(query, (session,)).fetchone() or (session,)
        return repr(name)

    def _compare_columns(self, table: str, row: Row, columns: Mapping[str, str | int]) -> None:
        """Say which columns of *row* are not what its body says."""
        if wrong := [name for name, value in columns.items() if row[name] != value]:
            place = f"{table} {row['seq']!r} of session {row['session']!r}"
            self.problems.append(f"{place}: its {', '.join(wrong)} is not what its body says")

    def _insert(self, table: str, row: Row) -> bool:
        header = ", ".join("?" * len(row))
        statement = f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({header})"
        try:
            return self._target.execute(statement, tuple(row.values())).rowcount > 0
        except UnicodeEncodeError:
            return False

    def _refuse(self, table: str, row: Row) -> None:
        """Note that *row* has no place, unless it is there already: a tree may lead to it twice."""
        there = self._target.execute(
            f"SELECT session, seq, checksum FROM {table} WHERE key = ?", (row["key"],)
        ).fetchone()
        if there != (row["session"], row["seq"], row["checksum"]):
            self._damaged[table, row["session"], row["seq"]] = "it has no place there"

    def _note_session(self, session: Value, record: DispatchRecord) -> None:
        """Remember what a record says of its session, whose own row may be lost."""
        _, start, end = self._sessions.get(session, ("", record.started_ns, 0))
        start, end = min(start, record.started_ns), max(end, record.started_ns)
        self._sessions[session] = (record.scope.session_id or "", start, end)

    def _note_calls(self, row: Row, body: Message) -> None:
        session, key = row["session"], int(str(row["key"]))
        for call_id in call_ids(body):
            self._target.execute("INSERT OR IGNORE INTO calls VALUES (?, ?)", (call_id, key))
        turns = enumerate(turns_of(int(str(row["seq"])), key, body))
        self._target.executemany(
            "INSERT OR IGNORE INTO turns VALUES (?, ?, ?, ?, ?, ?)",
            [(session, *turn, place) for place, turn in turns],
        )

    def _name_sessions(self) -> None:
        """Make sessions for rows whose own session is lost; the index may have its name."""
        lost = self._target.execute(
            """SELECT session FROM messages WHERE session NOT IN (SELECT key FROM sessions)
            UNION SELECT session FROM ledger WHERE session NOT IN (SELECT key FROM sessions)
            UNION SELECT session FROM states WHERE session NOT IN (SELECT key FROM sessions)
            UNION SELECT session FROM originals WHERE session NOT IN (SELECT key FROM sessions)"""
        ).fetchall()
        index = "SELECT id, key FROM sessions INDEXED BY sqlite_autoindex_sessions_1"
        indexed = {key: name for name, key in self._source.pairs("sessions", index) if lost}
        for (key,) in lost:
            recorded, start, end = self._sessions.get(key, ("", 0, 0))
            row: Row = {"key": key, "messages": 0, "records": 0}
            row |= {"created_ns": start, "updated_ns": end}
            names: tuple[Value, ...] = (indexed.get(key), recorded, f"recovered-{key}")
            name = next(
                name for name in names if name and self._insert("sessions", {**row, "id": name})
            )
            self.problems.append(f"session {name!r} is missing in the list of sessions")

    def _strays(self, session: int, state: SessionState) -> list[str]:
        """Say which answers no message asks for; what did may have been lost long ago."""
        strays = read_pairing(self._target, session).strays if state.unasked else ()
        return [
            f"session {state.id!r}: message {stray.seq} answers call {stray.call!r}, "
            "which no message asks for"
            for stray in strays
        ]

    def _report_misplaced(self, states: list[tuple[int, SessionState]]) -> None:
        """Say what is damaged and is no gap in a session."""
        reported = {
            (TABLES[rows.kind], key, rows.first) for key, state in states for rows in state.lost
        }
        kinds = {table: kind for kind, table in TABLES.items()}
        for table, session, seq in self._damaged.keys() - reported:
            place = f"{kinds[table]} {seq!r} of session {session!r}"
            why = self._damaged[table, session, seq]
            self.problems.append(f"{place} stands where none should be: {why}")

    def _compare_calls(self) -> None:
        for call_id, key in self._source.pairs("calls", "SELECT id, message FROM calls"):
            self._insert("found_calls", {"id": call_id, "message": key})
        for table, other, what in (
            ("calls", "found_calls", "lacks what the messages have"),
            ("found_calls", "calls", "has what no message has"),
        ):
            query = f"SELECT count(*) FROM (SELECT * FROM {table} EXCEPT SELECT * FROM {other})"
            (number,) = self._target.execute(query).fetchone()
            if number:
                self.problems.append(f"the index of calls {what}, {_count(number, 'time')}")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"

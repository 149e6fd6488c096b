"""What can be read of a store's file, gathered in a database of the same tables."""

from __future__ import annotations

from binascii import crc32
from typing import TYPE_CHECKING

from toolbus.errors import DecodeError
from toolbus.store.pairing import TURNS, read_pairing, turns_of
from toolbus.store.rows import call_ids, columns_of, decode_message, decode_page
from toolbus.store.states import TABLES, Damage, SessionState, read_states

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message
    from toolbus.store.opening import Connection
    from toolbus.store.salvage import Row, Salvage, Value

_PROVED: Mapping[str, Callable[[object, bytes, object], Message | tuple[DispatchRecord, ...]]] = {
    "ledger": decode_page,
    "messages": decode_message,
}
"""The tables whose rows prove themselves, by a body that decodes and its checksum."""

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
        self._heard: dict[Value, tuple[str, int, int]] = {}
        self.problems: list[str] = []
        self.notes: list[str] = []

    def gather(self, progress: Callable[[int, int], None]) -> tuple[SessionState, ...]:
        """Read all that can be read; return the state of each session, the oldest first."""
        for statement in _SCRATCH:
            self._target.execute(statement)
        for table in ("sessions", "originals"):
            for row in self._source.rows(table):
                if not self._insert(table, row):
                    self.problems.append(f"a row of {table!r} stands twice, or is damaged")
        self._take_all(progress)
        self._name_sessions()
        states = read_states(self._target, self._damaged)
        self.problems += [problem for _, _, problems in states for problem in problems]
        self.notes += [note for key, state, _ in states for note in self._strays(key, state)]
        self._tell_misplaced([(key, state) for key, state, _ in states])
        self._compare_calls()
        if self._source.misfits:
            self.problems.append(f"{_count(self._source.misfits, 'row')} cannot be made out")
        self.problems += self._source.problems.values()
        return tuple([state for _, state, _ in states])

    def _take_all(self, progress: Callable[[int, int], None]) -> None:
        """Take messages and records, and tell how many there are of those that were counted."""
        (due,) = self._target.execute("SELECT total(messages + records) FROM sessions").fetchone()
        done = 0
        for table in _PROVED:
            for row in self._source.rows(table):
                done += self._take(table, row)
                progress(min(done, max(1, int(due))), max(1, int(due)))

    def _take(self, table: str, row: Row) -> int:
        """Keep messages or records, or note that they are damaged; return how many they are."""
        data = row["body"]
        assert isinstance(data, bytes)  # noqa: S101 - other rows are misfits
        try:
            body = _PROVED[table](row["version"], data, row["checksum"])
        except DecodeError as error:
            self._damaged[table, row["session"], row["seq"]] = f"it {error}"
            return 1
        told = columns_of(body)
        if wrong := [name for name, value in told.items() if row[name] != value]:
            place = f"{table} {row['seq']!r} of session {row['session']!r}"
            self.problems.append(f"{place}: its {', '.join(wrong)} is not what its body says")
        kept = {**row, **told, "checksum": crc32(data), "body": data if self._bodies else b""}
        for record in body if isinstance(body, tuple) else ():
            self._hear(row["session"], record)
        if int(str(row["seq"])) < 1 or not self._insert(table, kept):
            self._refuse(table, kept)
        elif not isinstance(body, tuple):
            self._note_calls(kept, body)
        return len(body) if isinstance(body, tuple) else 1

    def _insert(self, table: str, row: Row) -> bool:
        marks = ", ".join("?" * len(row))
        statement = f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({marks})"
        try:
            return self._target.execute(statement, tuple(row.values())).rowcount > 0
        except UnicodeEncodeError:
            return False

    def _refuse(self, table: str, row: Row) -> None:
        """Note that *row* has no place, unless it is there already: a tree may lead to it twice."""
        kept = self._target.execute(
            f"SELECT session, seq, checksum FROM {table} WHERE key = ?", (row["key"],)
        ).fetchone()
        if kept != (row["session"], row["seq"], row["checksum"]):
            self._damaged[table, row["session"], row["seq"]] = "it has no place there"

    def _hear(self, session: Value, record: DispatchRecord) -> None:
        """Remember what a record says of its session, which may be lost itself."""
        _, first, last = self._heard.get(session, ("", record.started_ns, 0))
        first, last = min(first, record.started_ns), max(last, record.started_ns)
        self._heard[session] = (record.scope.session_id or "", first, last)

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
        """Make sessions for messages and records whose own is lost; the index may have its name."""
        lost = self._target.execute(
            """SELECT session FROM messages WHERE session NOT IN (SELECT key FROM sessions)
            UNION SELECT session FROM ledger WHERE session NOT IN (SELECT key FROM sessions)"""
        ).fetchall()
        listed = "SELECT id, key FROM sessions INDEXED BY sqlite_autoindex_sessions_1"
        named = {key: name for name, key in self._source.pairs("sessions", listed) if lost}
        for (key,) in lost:
            heard, first, last = self._heard.get(key, ("", 0, 0))
            row: Row = {"key": key, "messages": 0, "records": 0}
            row |= {"created_ns": first, "updated_ns": last}
            names = (named.get(key), heard, f"recovered-{key}")
            name = next(one for one in names if one and self._insert("sessions", row | {"id": one}))
            self.problems.append(f"session {name!r} is missing in the list of sessions")

    def _strays(self, session: int, state: SessionState) -> list[str]:
        """Say which answers no message asks for; what did may have been lost long ago."""
        strays = read_pairing(self._target, session).strays if state.unasked else ()
        return [
            f"session {state.id!r}: message {one.seq} answers call {one.call!r}, "
            "which no message asks for"
            for one in strays
        ]

    def _tell_misplaced(self, states: list[tuple[int, SessionState]]) -> None:
        """Say what is damaged and is no gap in a session."""
        told = {(TABLES[one.kind], key, one.first) for key, state in states for one in state.lost}
        for table, session, seq in self._damaged.keys() - told:
            why = self._damaged[table, session, seq]
            kind = next(kind for kind, known in TABLES.items() if known == table)
            place = f"{kind} {seq!r} of session {session!r}"
            self.problems.append(f"{place} stands where none should be: {why}")

    def _compare_calls(self) -> None:
        for call_id, key in self._source.pairs("calls", "SELECT id, message FROM calls"):
            self._insert("found_calls", {"id": call_id, "message": key})
        for one, other, what in (
            ("calls", "found_calls", "lacks what the messages have"),
            ("found_calls", "calls", "has what no message has"),
        ):
            query = f"SELECT count(*) FROM (SELECT * FROM {one} EXCEPT SELECT * FROM {other})"
            (number,) = self._target.execute(query).fetchone()
            if number:
                self.problems.append(f"the index of calls {what}, {_count(number, 'time')}")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"

"""What can be read of a store's file, gathered in a database of the same tables."""

from __future__ import annotations

from binascii import crc32
from typing import TYPE_CHECKING

from toolbus.store.pairing import TURNS, read_pairing, turns_of
from toolbus.store.rows import call_ids, columns_of
from toolbus.store.salvage import PROVED, Found, Salvage
from toolbus.store.states import TABLES, Damage, SessionState, read_states

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.ledger import DispatchRecord
    from toolbus.messages import Message
    from toolbus.store.opening import Connection
    from toolbus.store.pages import Value
    from toolbus.store.salvage import Row
    from toolbus.store.shapes import Shape

_DERIVED = frozenset({"calls", "writers"})
"""Tables that say again what the messages say, or who writes them just now."""

_SCRATCH = (
    TURNS,
    "CREATE TEMP TABLE found_calls (id TEXT, message INTEGER, PRIMARY KEY (id, message))",
)


class Survey:
    """Gathers the rows of *source* in *target*, an empty database with the tables of *shapes*.

    With *bodies* they are copied whole, else only counted. `problems` says what is wrong, `notes`
    what is odd.
    """

    def __init__(
        self,
        source: Salvage,
        target: Connection,
        shapes: dict[str, Shape],
        *,
        bodies: bool,
    ) -> None:
        self._source, self._target, self._shapes, self._bodies = source, target, shapes, bodies
        self._damaged: Damage = {}
        self._heard: dict[Value, tuple[str, int, int]] = {}
        self.problems: list[str] = []
        self.notes: list[str] = []

    def gather(self, progress: Callable[[int, int], None]) -> tuple[SessionState, ...]:
        """Read all that can be read; return the state of each session, the oldest first."""
        self._execute_all(_SCRATCH)
        for table in self._shapes:
            if table not in PROVED and table not in _DERIVED:
                self._copy(table)
        for found in self._source.proved(progress):
            self._take(found)
        self._name_sessions()
        states = read_states(self._target, self._damaged)
        self.problems += [problem for _, _, problems in states for problem in problems]
        self.notes += [note for key, state, _ in states for note in self._strays(key, state)]
        told = {
            (TABLES[one.kind], key, one.first) for key, state, _ in states for one in state.lost
        }
        for table, session, seq in self._damaged.keys() - told:
            why = self._damaged[table, session, seq]
            kind = next(kind for kind, known in TABLES.items() if known == table)
            place = f"{kind} {seq!r} of session {session!r}"
            self.problems.append(f"{place} stands where none should be: {why}")
        self._compare_calls()
        if self._source.broken_cells:
            self.problems.append(f"{_count(self._source.broken_cells, 'row')} cannot be made out")
        return tuple([state for _, state, _ in states])

    def _execute_all(self, statements: tuple[str, ...]) -> None:
        for statement in statements:
            self._target.execute(statement)

    def _copy(self, table: str) -> None:
        for row in self._source.rows(table):
            if not self._insert(table, row):
                self.problems.append(f"a row of {table!r} stands twice, or is damaged")

    def _take(self, found: Found) -> None:
        """Keep a message or a record, or note that it is damaged."""
        table, row, body, damage, carved = found
        if body is None:
            self._damaged[table, row["session"], row["seq"]] = damage
            return
        told = columns_of(body)
        if wrong := [name for name, value in told.items() if row[name] != value]:
            place = f"{table} {row['seq']!r} of session {row['session']!r}"
            self.problems.append(f"{place}: its {', '.join(wrong)} is not what its body says")
        kept: Row = {**row, **told}
        if row["checksum"] is None:
            kept["checksum"] = crc32(str(row["body"]).encode())
        if not self._bodies:
            kept["body"] = ""
        for record in body if isinstance(body, tuple) else ():
            self._hear(row["session"], record)
        if int(str(row["seq"])) < 1 or not self._insert(table, kept):
            if not carved:
                self._refuse(table, kept)
        elif not isinstance(body, tuple):
            self._note_calls(kept, body)

    def _insert(self, table: str, row: Row) -> bool:
        marks = ", ".join("?" * len(row))
        statement = f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({marks})"
        try:
            return self._target.execute(statement, tuple(row.values())).rowcount > 0
        except UnicodeEncodeError:
            return False

    def _refuse(self, table: str, row: Row) -> None:
        """Note that *row* has no place, unless it is there already: pages may hold a copy."""
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
        """Make sessions for messages and records whose own is lost; an index may have its name."""
        named: dict[Value, Value] = {}
        for cell in self._source.cells("sqlite_autoindex_sessions_1"):
            match cell.values:
                case [str(found), int(key)]:
                    named[key] = found
        lost = self._target.execute(
            """SELECT session FROM messages WHERE session NOT IN (SELECT key FROM sessions)
            UNION SELECT session FROM ledger WHERE session NOT IN (SELECT key FROM sessions)"""
        ).fetchall()
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

    def _compare_calls(self) -> None:
        for cell in self._source.cells("calls"):
            match cell.values:
                case [str(call_id), int(key)]:
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

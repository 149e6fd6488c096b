"""The state of a store that is no file, told by what its reader gives."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from toolbus.errors import DecodeError
from toolbus.store.recovery.inspection import CheckReport
from toolbus.store.recovery.pairing import TURNS, turns_of
from toolbus.store.recovery.states import Damage, read_states
from toolbus.store.rows import ENCODING, checked_json
from toolbus.store.sqlite import schema
from toolbus.store.sqlite.files import scratch
from toolbus.store.sqlite.sqlite_errors import wrap_errors

if TYPE_CHECKING:
    from toolbus.store.reading import SessionRow, StoreReader
    from toolbus.store.recovery.inspection import ProgressCallback
    from toolbus.store.sqlite.files import Connection

_ADD_MESSAGE = "INSERT OR IGNORE INTO messages VALUES (NULL, ?, ?, ?, 0, '', NULL)"
_ADD_PAGE = "INSERT INTO ledger VALUES (NULL, ?, ?, ?, ?, 0, '', NULL)"
_ADD_TURN = "INSERT OR IGNORE INTO turns VALUES (?, ?, ?, ?, ?, ?)"
_ADD_STATE = "INSERT INTO states VALUES (NULL, ?, ?, 0, '', NULL)"


def check_reader(where: str, reader: StoreReader, progress: ProgressCallback) -> CheckReport:
    """Read all that *reader* gives, decode it and compare it with what is counted.

    *where* is how the report names the store; *progress* gets how many messages and records were
    read, and of how many. What is in no session is not found.
    """
    facts = reader.facts()
    problems = [f"the database finds: {problem}" for problem in facts.problems]
    # Numbers and ids only, on disk: there may be more of them than memory holds.
    with wrap_errors(where), closing(scratch()) as target:
        for statement in (*schema.TABLES, TURNS):
            target.execute(statement)
        target.execute("BEGIN")
        gathering = _Gathering(reader, target, progress)
        for session in reader.sessions():
            gathering.take(session)
        states = read_states(target, gathering.damaged)
    for _, _, wrong in states:
        problems += wrong
    problems += gathering.problems
    return CheckReport(
        path=where,
        is_whole=not problems,
        version=facts.version,
        bytes=facts.bytes,
        sessions=tuple([state for _, state, _ in states]),
        problems=tuple(problems),
    )


class _Gathering:
    """Gathers what a *reader* gives in *target*: numbers, ids, and what is damaged."""

    def __init__(self, reader: StoreReader, target: Connection, progress: ProgressCallback) -> None:
        self._reader, self._execute = reader, target.execute
        self._progress, self._done, self._total = progress, 0, 0
        self.damaged: Damage = {}
        self.problems: list[str] = []

    def take(self, session: SessionRow) -> None:
        """Read all of *session*."""
        key = session.key
        self._total += session.messages + session.records
        self._execute(
            "INSERT INTO sessions VALUES (?, ?, ?, ?, 0, 0)",
            (key, session.id, session.messages, session.records),
        )
        for row in self._reader.messages(key):
            self._count(1)
            if row.message is None:
                self.damaged["messages", key, row.seq] = f"it {row.damage}"
                continue
            self._execute(_ADD_MESSAGE, (key, row.seq, row.id))
            if row.message.id != row.id:
                place = f"message {row.seq} of session {session.id!r}"
                self.problems.append(f"{place}: its id is not what its body says")
            for place_in_row, turn in enumerate(turns_of(row.seq, row.seq, row.message)):
                self._execute(_ADD_TURN, (key, *turn, place_in_row))
        for page in self._reader.pages(key):
            self._count(max(1, len(page.records)))
            if page.damage:
                self.damaged["ledger", key, page.seq] = f"it {page.damage}"
            else:
                self._execute(_ADD_PAGE, (key, page.place, page.seq, len(page.records)))
        self._take_kept(session)

    def _take_kept(self, session: SessionRow) -> None:
        """Read the states and originals of *session*."""
        for state in self._reader.states(session.key):
            if state.body is None:
                self.problems.append(f"{state.problem_in(session.id)}")
            else:
                self._execute(_ADD_STATE, (session.key, state.name))
        for original in self._reader.originals(session.key):
            try:
                checked_json(ENCODING, original.body, None)
            except DecodeError as error:
                place = f"original {original.digest!r} of session {session.id!r}"
                self.problems.append(f"{place} cannot be read: it {error}")

    def _count(self, number: int) -> None:
        self._done += number
        self._progress(min(self._done, self._total), max(1, self._total))

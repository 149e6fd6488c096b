"""The check of a store: each row is decoded, numbers and counts agree, calls have one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from toolbus.errors import DecodeError
from toolbus.store.check.damaged_file import open_damaged
from toolbus.store.check.pairing import Pairing, turns_of
from toolbus.store.check.report import CheckReport, SessionState, lost_rows
from toolbus.store.rows import ENCODING, checked_json

if TYPE_CHECKING:
    from toolbus.store.check.damaged_file import DamagedFile
    from toolbus.store.check.report import ProgressCallback
    from toolbus.store.protocol import Original
    from toolbus.store.reading import SessionRow, StoreReader

    Source: TypeAlias = StoreReader | DamagedFile
    Numbers: TypeAlias = list[tuple[int, int, str]]


def check_file(where: str, progress: ProgressCallback) -> CheckReport:
    """Check the store file *where*, and change nothing; raises as `open_damaged`."""
    with open_damaged(where) as file:
        return check_reader(where, file, progress)


def check_reader(where: str, reader: Source, progress: ProgressCallback) -> CheckReport:
    """Check all sessions that *reader* gives; rows that are in no session are not found.

    *where* is the store's name in the report.
    """
    sessions = list(reader.sessions())
    total = sum([session.messages + session.records for session in sessions])
    check = SessionCheck(reader, total, progress)
    for session in sessions:
        check.take(session)
    facts = reader.facts()
    problems = [*facts.problems, *check.problems]
    if facts.calls not in {None, check.calls}:
        problems.append(
            f"the index of calls has {facts.calls}, and the messages have {check.calls}"
        )
    return CheckReport(
        path=where,
        is_whole=not problems,
        version=facts.version,
        bytes=facts.bytes,
        pages=facts.pages,
        sessions=tuple(check.states),
        problems=tuple(problems),
        notes=tuple(check.notes),
    )


class SessionCheck:
    """Reads the sessions of *source*, which have *total* messages and records, one by one.

    *states* has one entry for each session, *problems* says what is wrong, and *notes* what is odd.
    *calls* counts the calls that messages ask for or answer.
    """

    def __init__(self, source: Source, total: int, progress: ProgressCallback) -> None:
        self.states: list[SessionState] = []
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.calls = 0
        self._source, self._progress = source, progress
        self._done, self._total = 0, max(1, total)

    def take(self, session: SessionRow) -> None:
        """Check *session*."""
        problems: list[str] = []
        pairing, messages = self._messages(session, problems)
        records = self._records(session)
        lost = lost_rows("message", messages, session.messages)
        lost += lost_rows("record", records, session.records)
        state = SessionState(
            id=session.id,
            messages=_count(messages),
            records=_count(records),
            states=self._count_states(session),
            lost=lost,
            unanswered=pairing.unanswered,
            unasked=len(pairing.strays),
        )
        self.states.append(state)
        for kind, promised, count in (
            ("messages", session.messages, state.messages),
            ("records", session.records, state.records),
        ):
            if count > promised:
                problems.append(f"it counts {promised} {kind}, and {count} are there")
        problems += [f"{rows.span} cannot be read: {rows.reason}" for rows in lost]
        problems += pairing.problems()
        self.problems += [f"session {session.id!r}: {problem}" for problem in problems]
        self.notes += [f"session {session.id!r}: {note}" for note in pairing.notes()]

    def _messages(self, session: SessionRow, problems: list[str]) -> tuple[Pairing, Numbers]:
        """Read the messages; return their calls, and their numbers as `lost_rows` takes them."""
        turns, numbers = [], []
        for row in self._source.messages(session.key):
            self._advance(1)
            numbers.append((row.seq, 1, row.damage))
            if row.message is None:
                continue
            if row.message.id != row.id:
                problems.append(f"message {row.seq}: its id is not what its body says")
            turns += turns_of(row.seq, row.key, row.message)
        self.calls += len({(turn.call, turn.key) for turn in turns if turn.call})
        return Pairing(turns), numbers

    def _records(self, session: SessionRow) -> Numbers:
        numbers = []
        for page in self._source.pages(session.key):
            size = 1 if page.damage else len(page.records)
            self._advance(size)
            numbers.append((page.seq, size, page.damage))
        return numbers

    def _count_states(self, session: SessionRow) -> int:
        """Read originals and states; return the number of readable states."""
        for original in self._source.originals(session.key):
            if damage := damage_of(original):
                place = f"original {original.digest!r} of session {session.id!r}"
                self.problems.append(f"{place} cannot be read: it {damage}")
        states = list(self._source.states(session.key))
        damaged = [state for state in states if state.damage]
        for state in damaged:
            place = f"state {state.name!r} of session {session.id!r}"
            self.problems.append(f"{place} cannot be read: it {state.damage}")
        return len(states) - len(damaged)

    def _advance(self, number: int) -> None:
        self._done += number
        self._progress(min(self._done, self._total), self._total)


def damage_of(original: Original) -> str:
    """Return why *original* cannot be read, "" if it can."""
    try:
        checked_json(ENCODING, original.body, None)
    except DecodeError as error:
        return str(error)
    return ""


def _count(numbers: Numbers) -> int:
    return sum([size for _, size, damage in numbers if not damage])

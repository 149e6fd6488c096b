"""The check of a store: rows can be decoded, numbers and counts agree, calls have one answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from toolbus.errors import DecodeError
from toolbus.store.check.call_pairs import CallPairs
from toolbus.store.check.damaged_file import open_damaged
from toolbus.store.rows import ENCODING, call_ids, checked_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.store.check.damaged_file import DamagedFile
    from toolbus.store.protocol import Original
    from toolbus.store.store_reader import SessionRow, StoreReader

    Source: TypeAlias = StoreReader | DamagedFile

ProgressCallback: TypeAlias = Callable[[int, int], None]
"""Called with the number of messages and records read so far, and with the total."""


class LostRows(Struct, frozen=True, kw_only=True):
    """Unreadable rows of a session, from number *first* to *last*, with the *reason*."""

    kind: str
    first: int
    last: int
    reason: str

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        several = "" if self.count == 1 else "s"
        numbers = f"{self.first} to {self.last}" if several else f"{self.first}"
        return f"{self.kind}{several} {numbers} cannot be read: {self.reason}"


class SessionState(Struct, frozen=True, kw_only=True):
    """The readable rows of one session.

    *states* is the number of readable states, *unanswered* of calls without a result, *unasked* of
    results without a call; an interrupted session may have some.
    """

    id: str
    messages: int
    records: int
    states: int = 0
    lost: tuple[LostRows, ...] = ()
    unanswered: int = 0
    unasked: int = 0


class SavedRows(Struct, frozen=True):
    """The number of rows in the new file of a recovery."""

    sessions: int
    messages: int
    records: int
    originals: int
    states: int


class CheckReport(Struct, frozen=True, kw_only=True):
    """The findings of a check; *is_whole* if there are no *problems*.

    *version* is 0 if it is unknown; *recovered* is the new file of a recovery, and *saved* has the
    numbers of its rows.
    """

    path: str
    is_whole: bool
    version: int = 0
    bytes: int
    pages: int = 0
    sessions: tuple[SessionState, ...] = ()
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    recovered: str | None = None
    saved: SavedRows | None = None


def check_file(where: str, progress: ProgressCallback) -> CheckReport:
    """Check the store file *where* without changing it; raises as `open_damaged`."""
    with open_damaged(where) as file:
        return check_reader(where, file, progress)


def check_reader(where: str, reader: Source, progress: ProgressCallback) -> CheckReport:
    """Check all sessions of *reader*; rows without a session are not found.

    *where* is the name of the store in the report.
    """
    sessions = list(reader.sessions())
    total = sum([session.messages + session.records for session in sessions])
    check = StoreCheck(reader, total, progress)
    for session in sessions:
        check.take(session)
    facts = reader.facts()
    problems = [*facts.problems, *check.problems]
    if facts.calls not in {None, check.calls}:
        problems.append(
            f"the index of calls has {facts.calls} entries, and the messages have {check.calls}"
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


class RowCount:
    """The rows of one *kind* in a session, added roughly in the order of their numbers."""

    def __init__(self, kind: str) -> None:
        self.kind, self.readable = kind, 0
        self._rows: list[tuple[int, int, str]] = []

    def add(self, number: int, size: int, damage: str) -> None:
        """Count *size* rows beginning at *number*, or a single row with its *damage*."""
        self._rows.append((number, size, damage))
        self.readable += 0 if damage else size

    def lost(self, promised: int) -> Iterator[LostRows]:
        """Yield the rows with numbers 1 to *promised* that are missing or unreadable."""
        due, gone = 1, "no row is found"
        for number, size, damage in [*sorted(self._rows), (promised + 1, 0, "")]:
            if number > due:
                yield LostRows(kind=self.kind, first=due, last=number - 1, reason=gone)
            if damage and number >= due:
                yield LostRows(kind=self.kind, first=number, last=number, reason=f"it {damage}")
            due = max(due, number + size)


class StoreCheck:
    """The check of the sessions of *source*, which have *total* messages and records.

    *states* has one entry for each session, *problems* are damage, and *notes* are oddities.
    *calls* is the number of calls that messages request or answer.
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
        pairing, messages, records = CallPairs(), RowCount("message"), RowCount("record")
        problems = [*self._read_messages(session, pairing, messages)]
        self._read_records(session, records)
        lost = [*messages.lost(session.messages), *records.lost(session.records)]
        for rows, promised in ((messages, session.messages), (records, session.records)):
            if rows.readable > promised:
                problems.append(f"it counts {promised} {rows.kind}s, but has {rows.readable}")
        problems += [*map(str, lost), *pairing.problems()]
        self.states.append(
            SessionState(
                id=session.id,
                messages=messages.readable,
                records=records.readable,
                states=self._count_states(session),
                lost=tuple(lost),
                unanswered=pairing.unanswered,
                unasked=len(pairing.strays),
            )
        )
        self.problems += [f"session {session.id!r}: {problem}" for problem in problems]
        self.notes += [f"session {session.id!r}: {note}" for note in pairing.notes()]

    def _read_messages(
        self, session: SessionRow, pairing: CallPairs, count: RowCount
    ) -> Iterator[str]:
        """Read the messages; yield the problems of their ids."""
        for row in self._source.messages(session.key):
            self._advance(1)
            count.add(row.seq, 1, row.damage)
            pairing.add(row)
            if row.message is not None:
                self.calls += len({*call_ids(row.message)})
                if row.message.id != row.id:
                    yield f"message {row.seq}: its id differs from the id in its body"

    def _read_records(self, session: SessionRow, count: RowCount) -> None:
        for batch in self._source.record_batches(session.key):
            size = 1 if batch.damage else len(batch.records)
            self._advance(size)
            count.add(batch.seq, size, batch.damage)

    def _count_states(self, session: SessionRow) -> int:
        """Read originals and states; return the number of readable states."""
        originals = self._source.originals(session.key)
        values = [(f"original {each.digest!r}", damage_of(each)) for each in originals]
        states = [(f"state {row.name!r}", row.damage) for row in self._source.states(session.key)]
        for name, damage in (*values, *states):
            if damage:
                place = f"{name} of session {session.id!r}"
                self.problems.append(f"{place} cannot be read: it {damage}")
        return len([damage for _, damage in states if not damage])

    def _advance(self, number: int) -> None:
        self._done += number
        self._progress(min(self._done, self._total), self._total)


def damage_of(original: Original) -> str:
    """Return the damage of *original*, "" if it is readable."""
    try:
        checked_json(ENCODING, original.body, None)
    except DecodeError as error:
        return str(error)
    return ""

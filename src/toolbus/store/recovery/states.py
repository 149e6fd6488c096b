"""The state of each session, by the rows that could be gathered of it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.store.recovery.pairing import read_pairing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolbus.store.sqlite.files import Connection

Damage = dict[tuple[str, object, object], str]
"""Why a row of a table, a session and a number cannot be read."""

TABLES = {"message": "messages", "record": "ledger"}
"""Where what is kept of a session stands."""

_GONE = "not found anywhere in the file"


class LostRows(Struct, frozen=True, kw_only=True):
    """Rows of a session that cannot be read: those numbered *first* to *last*, and why."""

    kind: str
    first: int
    last: int
    reason: str

    @property
    def count(self) -> int:
        """How many there are."""
        return self.last - self.first + 1

    @property
    def span(self) -> str:
        """Their numbers in words."""
        if self.count == 1:
            return f"{self.kind} {self.first}"
        return f"{self.kind}s {self.first} to {self.last}"


class SessionState(Struct, frozen=True, kw_only=True):
    """What can be read of one session.

    *states* counts what components keep, *unanswered* calls without a result and *unasked* results
    without a call; a session that was interrupted has some.
    """

    id: str
    messages: int
    records: int
    states: int = 0
    lost: tuple[LostRows, ...] = ()
    unanswered: int = 0
    unasked: int = 0


def read_states(
    connection: Connection, damaged: Damage
) -> list[tuple[int, SessionState, list[str]]]:
    """Return the key of each session, its state, and what is wrong in it, the oldest first."""
    reasons: dict[tuple[object, object], dict[int, str]] = defaultdict(dict)
    for (table, session, seq), why in damaged.items():
        if isinstance(seq, int):
            reasons[table, session][seq] = why
    sessions = connection.execute("SELECT key, id, messages, records FROM sessions ORDER BY key")
    return [_state(connection, reasons, row) for row in sessions.fetchall()]


def _state(
    connection: Connection,
    reasons: Mapping[tuple[object, object], dict[int, str]],
    session: tuple[int, str, int, int],
) -> tuple[int, SessionState, list[str]]:
    key, name, messages, records = session
    lost: list[LostRows] = []
    counts: dict[str, int] = {}
    problems: list[str] = []
    for kind, promised in (("message", messages), ("record", records)):
        counts[kind], gaps = _gaps(connection, kind, key, promised)
        damaged = reasons.get((TABLES[kind], key), {})
        lost += [rows for gap in gaps for rows in _lost_rows(kind, gap, damaged)]
        if counts[kind] > promised:
            problems.append(f"it counts {promised} {kind}s, and {counts[kind]} are there")
    problems += [f"{rows.span} cannot be read: {rows.reason}" for rows in lost]
    pairing = read_pairing(connection, key)
    problems += pairing.problems()
    state = SessionState(
        id=name,
        messages=counts["message"],
        records=counts["record"],
        states=_count_states(connection, key),
        lost=tuple(lost),
        unanswered=pairing.unanswered,
        unasked=len(pairing.strays),
    )
    return key, state, [f"session {name!r}: {problem}" for problem in problems]


def _count_states(connection: Connection, session: int) -> int:
    query = "SELECT count(*) FROM states WHERE session = ?"
    (count,) = connection.execute(query, (session,)).fetchone()
    return int(count)


def _gaps(
    connection: Connection, kind: str, session: int, promised: int
) -> tuple[int, list[tuple[int, int]]]:
    """Return how many rows there are, and the numbers between which there should be more."""
    # A row of the ledger holds several records; of two for the same ones, one is a copy.
    size = "records" if kind == "record" else "1"
    query = f"SELECT seq, {size} FROM {TABLES[kind]} WHERE session = ? ORDER BY seq"
    count, due = 0, 1
    gaps: list[tuple[int, int]] = []
    for seq, number in connection.execute(query, (session,)):
        if seq > due:
            gaps.append((due, seq - 1))
        count, due = count + number, max(due, seq + number)
    # A session that was made for rows without one promises nothing.
    if promised >= due:
        gaps.append((due, promised))
    return count, gaps


def _lost_rows(kind: str, gap: tuple[int, int], damaged: Mapping[int, str]) -> Iterator[LostRows]:
    """Divide a gap into rows that were *damaged*, number and why, and those not found at all."""
    first, last = gap
    # The smaller one is searched in the larger one: there may be many of both.
    numbers = range(first, last + 1) if last - first < len(damaged) else sorted(damaged)
    for seq in [seq for seq in numbers if first <= seq <= last and seq in damaged]:
        if seq > first:
            yield LostRows(kind=kind, first=first, last=seq - 1, reason=_GONE)
        yield LostRows(kind=kind, first=seq, last=seq, reason=damaged[seq])
        first = seq + 1
    if first <= last:
        yield LostRows(kind=kind, first=first, last=last, reason=_GONE)

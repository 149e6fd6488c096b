"""The state of each session, by the rows that could be gathered of it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.store.pairing import read_pairing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolbus.store.opening import Connection

Damage = dict[tuple[str, object, object], str]
"""Why a row of a table, a session and a number cannot be read."""

TABLES = {"message": "messages", "record": "ledger"}
"""Where what is kept of a session stands."""

_GONE = "not found anywhere in the file"


class Lost(Struct, frozen=True, kw_only=True):
    """Rows of a session that cannot be read: those numbered *first* to *last*, and why."""

    kind: str
    first: int
    last: int
    reason: str


class SessionState(Struct, frozen=True, kw_only=True):
    """What can be read of one session.

    *unanswered* counts calls without a result and *unasked* results without a call; a session
    that was interrupted has some.
    """

    id: str
    messages: int
    records: int
    lost: tuple[Lost, ...] = ()
    unanswered: int = 0
    unasked: int = 0


def read_states(
    connection: Connection, damaged: Damage
) -> list[tuple[int, SessionState, list[str]]]:
    """Return the key of each session, its state, and what is wrong in it, the oldest first."""
    known: dict[tuple[object, object], dict[int, str]] = defaultdict(dict)
    for (table, session, seq), why in damaged.items():
        if isinstance(seq, int):
            known[table, session][seq] = why
    sessions = connection.execute("SELECT key, id, messages, records FROM sessions ORDER BY key")
    return [_state(connection, known, row) for row in sessions.fetchall()]


def _state(
    connection: Connection,
    known: Mapping[tuple[object, object], dict[int, str]],
    session: tuple[int, str, int, int],
) -> tuple[int, SessionState, list[str]]:
    key, name, messages, records = session
    lost: list[Lost] = []
    found: dict[str, int] = {}
    problems: list[str] = []
    for kind, promised in (("message", messages), ("record", records)):
        found[kind], gaps = _gaps(connection, kind, key, promised)
        whys = known.get((TABLES[kind], key), {})
        lost += [one for gap in gaps for one in _named(kind, gap, whys)]
        if found[kind] > promised:
            problems.append(f"it counts {promised} {kind}s, and {found[kind]} are there")
    problems += [f"{_span(one)} cannot be read: {one.reason}" for one in lost]
    pairing = read_pairing(connection, key)
    problems += pairing.problems()
    state = SessionState(
        id=name,
        messages=found["message"],
        records=found["record"],
        lost=tuple(lost),
        unanswered=pairing.unanswered,
        unasked=len(pairing.strays),
    )
    return key, state, [f"session {name!r}: {one}" for one in problems]


def _gaps(
    connection: Connection, kind: str, session: int, promised: int
) -> tuple[int, list[tuple[int, int]]]:
    """Return how many rows there are, and the numbers between which there should be more."""
    # A row of the ledger holds several records; of two for the same ones, one is a copy.
    many = "records" if kind == "record" else "1"
    query = f"SELECT seq, {many} FROM {TABLES[kind]} WHERE session = ? ORDER BY seq"
    found, due = 0, 1
    gaps: list[tuple[int, int]] = []
    for seq, number in connection.execute(query, (session,)):
        if seq > due:
            gaps.append((due, seq - 1))
        found, due = found + number, max(due, seq + number)
    # A session that was made for what was left promises nothing.
    if promised >= due:
        gaps.append((due, promised))
    return found, gaps


def _named(kind: str, gap: tuple[int, int], whys: Mapping[int, str]) -> Iterator[Lost]:
    """Divide a gap into what was seen damaged and what was not seen at all."""
    first, last = gap
    # The smaller one is searched in the larger one: there may be many of both.
    few = range(first, last + 1) if last - first < len(whys) else sorted(whys)
    seen = [seq for seq in few if first <= seq <= last and seq in whys]
    for seq in seen:
        if seq > first:
            yield Lost(kind=kind, first=first, last=seq - 1, reason=_GONE)
        yield Lost(kind=kind, first=seq, last=seq, reason=whys[seq])
        first = seq + 1
    if first <= last:
        yield Lost(kind=kind, first=first, last=last, reason=_GONE)


def _span(lost: Lost) -> str:
    if lost.first == lost.last:
        return f"{lost.kind} {lost.first}"
    return f"{lost.kind}s {lost.first} to {lost.last}"

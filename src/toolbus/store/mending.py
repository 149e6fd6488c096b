"""Sessions in which calls are answered twice or apart, put in order in a new file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.store.pairing import read_pairing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.store.opening import Connection
    from toolbus.store.pairing import Pairing, Turn


def mend_sessions(target: Connection) -> list[str]:
    """Leave each call one answer next to it, in every session of *target*; return what was done.

    Of several answers the first true one stays, else the first.
    """
    done: list[str] = []
    for session, name in target.execute("SELECT key, id FROM sessions ORDER BY key").fetchall():
        pairing = read_pairing(target, session)
        if any(pairing.problems()):
            order = pairing.mended()
            _write(target, session, order)
            done += [f"session {name!r}: {one}" for one in _told(pairing, order)]
    return done


def _told(pairing: Pairing, order: Sequence[Turn]) -> Iterator[str]:
    """Say which messages were left out and which were moved."""
    for asked in pairing.calls:
        for one in asked.answers:
            if one is not asked.best:
                kept = f"call {asked.turn.call!r} keeps the answer of message {asked.best.seq}"
                yield f"message {one.seq} was left out: {kept}"
    stays = sorted([one.seq for one in order])
    for now, before in zip(order, stays, strict=True):
        if now.seq > before and now.is_answer:
            yield f"message {now.seq} was moved next to its call {now.call!r}"


def _write(target: Connection, session: int, order: Sequence[Turn]) -> None:
    """Write down the messages of a session in *order*, and delete the others."""
    target.execute("UPDATE messages SET seq = -seq WHERE session = ?", (session,))
    numbers = [(number, one.key) for number, one in enumerate(order, 1)]
    target.executemany("UPDATE messages SET seq = ? WHERE key = ?", numbers)
    # Records that came with a message stand where it does now.
    target.executemany("UPDATE ledger SET place = ? WHERE key = ?", numbers)
    target.execute("DELETE FROM messages WHERE session = ? AND seq < 0", (session,))

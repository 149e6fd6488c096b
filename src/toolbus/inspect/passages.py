"""One dispatch as it is told: every handler in order, with the values if they were kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.bus.ledger.records import HandlerKind, HandlerStatus, Outcome
from toolbus.bus.ledger.wording import describe_idleness
from toolbus.messages.codec import decoder

if TYPE_CHECKING:
    from toolbus.bus.ledger.records import DispatchRecord, HandlerEntry
    from toolbus.store.archive import Archive

_decode: Any = decoder(Any)


class Seen(Struct, frozen=True, kw_only=True):
    """What is known of a value: its digest, the bytes of its encoding, itself if it was *kept*."""

    digest: str
    size: int
    kept: bool = False
    value: Any = None


class Step(Struct, frozen=True, kw_only=True):
    """What one handler did, or why it did nothing; *before* and *after* if it changed the value.

    *detail* is what operators were told, if the session kept it.
    """

    name: str
    kind: HandlerKind
    priority: int
    status: HandlerStatus
    reason: str | None
    duration_ns: int
    fields: tuple[str, ...] = ()
    before: Seen | None = None
    after: Seen | None = None
    detail: str | None = None


class Passage(Struct, frozen=True, kw_only=True):
    """A value's way past the handlers of one event; *started_ns* counts from the epoch."""

    event: str
    outcome: Outcome
    reason: str | None
    run_id: str
    turn: int
    started_ns: int
    duration_ns: int
    original: Seen
    steps: tuple[Step, ...]


def passage_of(archive: Archive, session: int, record: DispatchRecord) -> Passage:
    """Return what *record* tells, with the values that its session kept."""

    def seen(digest: str, size: int) -> Seen:
        body = archive.original(session, digest)
        value = None if body is None else _decode(body)
        return Seen(digest=digest, size=size, kept=body is not None, value=value)

    def step(at: int, entry: HandlerEntry) -> Step:
        return Step(
            name=entry.name,
            kind=entry.kind,
            priority=entry.priority,
            status=entry.status,
            reason=entry.reason or describe_idleness(entry, record.entries[:at]),
            duration_ns=entry.duration_ns,
            fields=entry.fields,
            before=None if entry.before is None else seen(entry.before, entry.size_before),
            after=None if entry.after is None else seen(entry.after, entry.size_after),
            detail=seen(entry.detail_digest, 0).value if entry.detail_digest else None,
        )

    return Passage(
        event=record.event,
        outcome=record.outcome,
        reason=record.reason,
        run_id=record.scope.run_id,
        turn=record.scope.turn,
        started_ns=record.started_ns,
        duration_ns=record.duration_ns,
        original=seen(record.original, record.size),
        steps=tuple([step(at, entry) for at, entry in enumerate(record.entries)]),
    )

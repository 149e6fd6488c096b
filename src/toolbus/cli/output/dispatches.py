"""One dispatch as a person sees it: every handler in order, with the values if they were kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.bus.ledger.records import HandlerKind, HandlerStatus, Outcome, is_notable
from toolbus.cli.output.descriptions import describe_idleness
from toolbus.messages.codec import decoder

if TYPE_CHECKING:
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.store.store_reader import StoreReader

_decode: Any = decoder(Any)


class ValueView(Struct, frozen=True, kw_only=True, rename={"has_value": "kept"}):
    """What is known of a value: its digest, the bytes of its encoding, itself if it was kept."""

    digest: str
    size: int
    has_value: bool = False
    value: Any = None


class HandlerView(Struct, frozen=True, kw_only=True):
    """What one handler did, or why it did nothing; *before* and *after* if it changed the value.

    *detail* is what it told operators, if the session kept it.
    """

    name: str
    kind: HandlerKind
    priority: int
    status: HandlerStatus
    reason: str | None
    duration_ns: int
    fields: tuple[str, ...] = ()
    before: ValueView | None = None
    after: ValueView | None = None
    detail: str | None = None


class DispatchView(Struct, frozen=True, kw_only=True, rename={"handlers": "steps"}):
    """A value's way past the handlers of one event; *started_ns* counts from the epoch."""

    event: str
    outcome: Outcome
    reason: str | None
    run_id: str
    turn: int
    started_ns: int
    duration_ns: int
    original: ValueView
    handlers: tuple[HandlerView, ...]


def view_of(reader: StoreReader, session: int, record: DispatchRecord) -> DispatchView:
    """Return *record* with the values that its session kept; *session* is that one's key."""

    def value_of(digest: str, size: int) -> ValueView:
        body = reader.original(session, digest)
        value = None if body is None else _decode(body)
        return ValueView(digest=digest, size=size, has_value=body is not None, value=value)

    handlers = [
        HandlerView(
            name=entry.name,
            kind=entry.kind,
            priority=entry.priority,
            status=entry.status,
            reason=entry.reason or describe_idleness(entry, record.entries[:index]),
            duration_ns=entry.duration_ns,
            fields=entry.fields,
            before=None if entry.before is None else value_of(entry.before, entry.size_before),
            after=None if entry.after is None else value_of(entry.after, entry.size_after),
            detail=value_of(entry.detail_digest, 0).value if entry.detail_digest else None,
        )
        for index, entry in enumerate(record.entries)
        # What adapters did stands under their names; that their component looked is no news.
        if is_notable(entry.status) or not entry.composite
    ]
    return DispatchView(
        event=record.event,
        outcome=record.outcome,
        reason=record.reason,
        run_id=record.scope.run_id,
        turn=record.scope.turn,
        started_ns=record.started_ns,
        duration_ns=record.duration_ns,
        original=value_of(record.original, record.size),
        handlers=tuple(handlers),
    )

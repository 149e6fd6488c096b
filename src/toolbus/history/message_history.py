"""The history of one message or call as data: handlers' effects, and the stored and read values."""

from __future__ import annotations

from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.bus.ledger.records import HandlerKind, HandlerStatus, Outcome, is_notable
from toolbus.errors import DecodeError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    MODEL_CALL_BEFORE,
    TOOL_CALL_BEFORE,
)
from toolbus.history.descriptions import describe_idleness
from toolbus.messages.codec import decoder
from toolbus.messages.records import AssistantMessage, Message, ToolCall, ToolMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.history.lookup import Match
    from toolbus.store.sql_reader import SqlReader
    from toolbus.store.store_reader import RecordBatch, StoreReader

_decode: Any = decoder(Any)

_LOOKAHEAD = 1_000
"""The messages that are searched for the model's next one."""

NEVER_RAN = {"denied", "unknown_tool", "invalid_arguments", "interrupted", "answered"}
"""The statuses of calls whose tool did not run."""

RESULT_REFUSED = "ran, and its result was refused"
_STATUSES = NEVER_RAN | {"timeout", "cancelled"}


class ValueView(Struct, frozen=True, kw_only=True, rename={"has_value": "kept"}):
    """A value's digest, the bytes of its encoding, and the value itself if it was kept."""

    digest: str
    size: int
    has_value: bool = False
    value: Any = None


class HandlerView(Struct, frozen=True, kw_only=True):
    """The effect of one handler, or why it had none; *before* and *after* of a changed value.

    *detail* is its message for operators, if the session kept it.
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
    """One dispatch: its value, and the handlers in order; *started_ns* counts from the epoch."""

    event: str
    outcome: Outcome
    reason: str | None
    run_id: str
    turn: int
    started_ns: int
    duration_ns: int
    original: ValueView
    handlers: tuple[HandlerView, ...]


class CallHistory(Struct, frozen=True, kw_only=True):
    """A call as *asked* in a message and as it *ran*, None if it did not.

    *status* is the outcome of the tool, "" without an answer; *duration_ns* is the tool's.
    """

    id: str
    status: str
    asked_in: str
    asked: ToolCall | None
    ran: ToolCall | None
    duration_ns: int | None


class MessageHistory(Struct, frozen=True, kw_only=True, rename={"dispatches": "passages"}):
    """The complete record of one message or call in a store.

    *seq* is the message's number in its session, None if it was refused. *read* is the model's
    input if it differs from the *stored* message, *returned* the tool's result if the model read
    another one, *requests* the later changes of model requests with it. *damage* names
    unreadable rows.
    """

    session: str
    id: str
    role: str
    seq: int | None
    call: CallHistory | None
    dispatches: tuple[DispatchView, ...]
    returned: ValueView | None
    read: ValueView | None
    stored: Message | None
    requests: tuple[DispatchView, ...]
    damage: tuple[str, ...]


def history_of(reader: SqlReader, match: Match) -> MessageHistory:
    """Return the history of the message or call of *match*."""
    batches = _batches(reader, match)
    session, row = match.session.key, match.row
    dispatches = tuple(
        [dispatch_view(reader, session, record) for record in _records(match, batches)]
    )
    stored = row.message if row else None
    problems = [batch.problem for batch in batches] + [row.problem for row in match.rows]
    return MessageHistory(
        session=match.session.id,
        id=row.id if row else match.name,
        role=stored.role if stored else "",
        seq=row.seq if row else None,
        call=_call_history(match, dispatches) if match.call_id else None,
        dispatches=dispatches,
        returned=_value_before(MESSAGE_APPEND_BEFORE.name, dispatches),
        read=_value_before(MESSAGE_PERSIST_BEFORE.name, dispatches),
        stored=stored,
        requests=tuple(_requests(reader, match)),
        damage=tuple(dict.fromkeys(filter(None, problems))),
    )


def status_of(message: ToolMessage, dispatches: tuple[DispatchView, ...] = ()) -> str:
    """Return the outcome of the tool call that *message* answers."""
    outcomes = {dispatch.event: dispatch.outcome for dispatch in dispatches}
    if outcomes.get(TOOL_CALL_BEFORE.name) == "answered":
        return "answered"
    refused = outcomes.get(MESSAGE_APPEND_BEFORE.name) in {"denied", "rejected"}
    if refused and outcomes.get(TOOL_CALL_BEFORE.name) != "denied":
        return RESULT_REFUSED
    response = message.tool_response
    if response is None or not response.is_error:
        return "ok"
    return response.error_type if response.error_type in _STATUSES else "error"


def executed_call(answer: ToolMessage, status: str) -> ToolCall | None:
    """Return the call as it ran, given its *status*; None if it did not run or is not known."""
    response = answer.tool_response
    if response is None or response.parameters is None or status in NEVER_RAN:
        return None
    call_id, arguments = answer.tool_call_id, response.parameters
    return ToolCall(id=call_id, name=answer.tool_name, arguments=arguments)


def is_same_call(asked: ToolCall, ran: ToolCall) -> bool:
    """Return whether a call ran with the tool and the arguments of the request."""
    return (asked.name, asked.arguments) == (ran.name, ran.arguments)


def _call_history(match: Match, dispatches: tuple[DispatchView, ...]) -> CallHistory:
    answer = match.row.message if match.row else None
    status, response, ran = "", None, None
    if isinstance(answer, ToolMessage):
        status, response = status_of(answer, dispatches), answer.tool_response
        ran = executed_call(answer, status)
    return CallHistory(
        id=match.call_id,
        status=status,
        asked_in=match.asking.id if match.asking else "",
        asked=_asked_call(match),
        ran=ran,
        duration_ns=response.duration_ns if response else None,
    )


def _asked_call(match: Match) -> ToolCall | None:
    message = match.asking.message if match.asking else None
    calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
    return next((call for call in calls if call.id == match.call_id), None)


def _batches(reader: SqlReader, match: Match) -> list[RecordBatch]:
    """Return the batches with records about the match, each once, in order."""
    rows = [*match.rows, *([match.asking] if match.asking else [])]
    batches = [batch for row in rows if (batch := reader.batch_of(row))]
    for name in {match.name, match.call_id, match.row.id if match.row else ""} - {""}:
        batches += reader.batches_mentioning(name, match.asking)
    by_seq = {batch.seq: batch for batch in batches if batch.session == match.session.key}
    return [by_seq[seq] for seq in sorted(by_seq)]


def _records(match: Match, batches: list[RecordBatch]) -> Iterator[DispatchRecord]:
    """Yield the records about the match; earlier and later calls may have used its id."""
    message_id = match.row.id if match.row else match.name
    for batch in batches:
        first = _first_place(match, batch)
        for place, record in enumerate(batch.records):
            about_call = match.call_id and match.call_id == record.call_id and place >= first
            if about_call or record.subject == message_id:
                yield record


def _first_place(match: Match, batch: RecordBatch) -> float:
    """Return the place in *batch* from which its records may be about the call of *match*."""
    start = match.asking.seq if match.asking else 0
    end = match.reused.seq if match.reused else inf
    if not start <= batch.message_seq <= end:
        return inf
    if match.asking is None or batch.message_seq > start:
        return 0
    # Outside an agent a slow call is requested and judged in one batch, without its result.
    asked = [place for place, each in enumerate(batch.records) if each.subject == match.asking.id]
    return asked[-1] + 1 if asked else 0


def _value_before(event: str, dispatches: tuple[DispatchView, ...]) -> ValueView | None:
    """Return the original value of the latest dispatch of *event*, None if it was not changed."""
    for dispatch in reversed(dispatches):
        if dispatch.event == event:
            return dispatch.original if dispatch.outcome != "unchanged" else None
    return None


def _requests(reader: SqlReader, match: Match) -> Iterator[DispatchView]:
    """Yield the dispatches that changed the messages of the first request with this message."""
    if match.row is None:
        return
    key, after = match.session.key, match.row.seq
    for row in islice(reader.messages(key, after), _LOOKAHEAD):
        batch = reader.batch_of(row)
        for record in batch.records if batch else ():
            fields = {field for entry in record.entries for field in entry.fields}
            if record.event == MODEL_CALL_BEFORE.name and "messages" in fields:
                yield dispatch_view(reader, key, record)
        if isinstance(row.message, AssistantMessage):
            return


def dispatch_view(
    reader: StoreReader, session: int, record: DispatchRecord, *, values: bool = True
) -> DispatchView:
    """Return *record* with the values kept by its session, whose key is *session*.

    Without *values*, as without kept ones: only with digests and sizes.
    """

    def value_of(digest: str, size: int) -> ValueView:
        body = reader.original(session, digest) if values else None
        try:
            value = None if body is None else _decode(body)
        except DecodeError:  # It is damaged: as if it was not kept.
            body = value = None
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
        # The adapters of a component have entries of their own; its own entry adds nothing.
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

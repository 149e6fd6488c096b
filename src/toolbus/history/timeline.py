"""The timeline of a session as data: turns, messages and calls in the order of time."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from toolbus.bus.ledger.records import FAILURES
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    MODEL_CALL_BEFORE,
    TOOL_CALL_BEFORE,
)
from toolbus.history.message_history import (
    RESULT_REFUSED,
    DispatchView,
    ValueView,
    dispatch_view,
    executed_call,
    status_of,
)
from toolbus.history.session_part import SessionPart
from toolbus.messages.records import AssistantMessage, Message, ToolCall, ToolMessage, encode
from toolbus.store.store_reader import SessionRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.history.session_part import Slot
    from toolbus.messages.immutable import JsonObject
    from toolbus.store.sql_reader import SqlReader
    from toolbus.store.store_reader import MessageRow

_MOST_BATCHES, _MOST_BYTES = 2_000, 2**23
"""The most batches of records in one part of a timeline, and the most bytes of its messages."""

_EXPLAINED = {"denied", "unknown_tool", "invalid_arguments", "timeout", "cancelled", "interrupted"}
"""The statuses of calls whose answer is the reason."""

_ENDS = {"denied", "rejected", "asked", *FAILURES}
_GO_ON = {None, "unchanged", "changed", "asked"}


class CallEntry(Struct, frozen=True, kw_only=True):
    """A call as *requested* by the model and as *executed*, None if it did not run.

    Both are None for a call of a program or inside another call, of which only the ledger knows;
    then *tool* is "". *status* is that of `ToolCallOutcome`, or "refused" (it ran, and its result
    was denied), "asked" (a question waits), "ran" (its result is not stored), or "open".
    *reason* and *by*, the names of handlers, say why it was refused or asked. *answer* is the tool
    message. Times are nanoseconds, since the epoch, 0 if unknown; the duration begins with the
    first handler.
    """

    id: str
    tool: str
    requested: ToolCall | None
    executed: ToolCall | None
    status: str
    reason: str = ""
    by: str = ""
    started_ns: int = 0
    duration_ns: int = 0
    dispatches: tuple[DispatchView, ...] = ()
    answer: MessageEntry | None = None

    @property
    def all_dispatches(self) -> tuple[DispatchView, ...]:
        """The dispatches of the call and of its answer."""
        return self.dispatches + (self.answer.dispatches if self.answer else ())


class MessageEntry(Struct, frozen=True, kw_only=True):
    """The message number *seq*, or what happened before the message of that number.

    *message* is None if it is damaged, and for records without a stored message: a refused
    message, request or run in *dispatches*, or a call of a program in *calls*. *reads* is the
    model's input if it differs from the message, which is the store's. *calls* are those of an
    assistant message, or the one that a tool message answers whose request is not stored.
    *duration_ns* is the model's. *tokens_in*, *tokens_out* and *cost* are its usage, as far as it
    is known.
    """

    seq: int
    id: str
    message: Message | None
    damage: str = ""
    reads: ValueView | None = None
    dispatches: tuple[DispatchView, ...] = ()
    calls: tuple[CallEntry, ...] = ()
    started_ns: int = 0
    duration_ns: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None


class Turn(Struct, frozen=True, kw_only=True):
    """A turn of a run, or without runs the entries at one time; tool messages stand in calls."""

    run_id: str
    number: int
    messages: tuple[MessageEntry, ...]

    @property
    def key(self) -> str:
        """The key of the turn in its session: it stays when entries are added."""
        first = self.messages[0]
        return f"{first.seq}-{first.started_ns}"


class Timeline(Struct, frozen=True, kw_only=True):
    """The *turns* of a session from message *after* + 1 to message *end*.

    *damage* names unreadable records. *is_cut*: it has too many records without a message, and
    leaves some out.
    """

    session: SessionRow
    turns: tuple[Turn, ...]
    after: int
    end: int
    has_more: bool
    is_cut: bool = False
    damage: tuple[str, ...] = ()


def read_timeline(
    reader: SqlReader,
    session: SessionRow,
    after: int = 0,
    limit: int = 200,
    *,
    values: bool = False,
) -> Timeline:
    """Return the part of the timeline with the next *limit* messages after message *after*.

    The time depends on *limit* and not on the length of the session. An answer is in the part with
    its request, also if it follows much later. With *values*, dispatches have the kept values.
    """
    rows, has_more = _read_rows(reader, session.key, after, limit)
    end = rows[-1].seq if rows else after
    part = SessionPart(reader, session, rows)
    batches = list(islice(reader.record_batches(session.key, after, end + 1), _MOST_BATCHES))
    part.add_records(batches, end if has_more else None)
    view = partial(dispatch_view, reader, session.key, values=values and session.has_originals)
    entries = map(_EntryBuilder(view).message_entry, part.slots())
    return Timeline(
        session=session,
        turns=tuple(_turns_of(entries)),
        after=after,
        end=end,
        has_more=has_more,
        is_cut=part.is_cut or len(batches) == _MOST_BATCHES,
        damage=tuple([batch.problem for batch in batches if batch.damage]),
    )


def read_parts(
    reader: SqlReader, session: SessionRow, *, values: bool = False
) -> Iterator[Timeline]:
    """Yield the timeline of *session* part by part; *values* as for `read_timeline`."""
    after, has_more = 0, True
    while has_more:
        part = read_timeline(reader, session, after, values=values)
        yield part
        after, has_more = part.end, part.has_more


def join_parts(parts: Iterable[Timeline]) -> Timeline:
    """Return the timeline of all *parts*, which follow each other."""
    turns, damage, is_cut = list[Turn](), list[str](), False
    for part in parts:
        damage, is_cut = [*damage, *part.damage], is_cut or part.is_cut
        for turn in part.turns:
            if turns and turn.run_id and _is_same_turn(turns[-1], turn):
                turns[-1] = replace(turns[-1], messages=(*turns[-1].messages, *turn.messages))
            else:
                turns.append(turn)
    return replace(part, turns=tuple(turns), after=0, damage=tuple(damage), is_cut=is_cut)


def _is_same_turn(before: Turn, after: Turn) -> bool:
    return (before.run_id, before.number) == (after.run_id, after.number)


def _read_rows(
    reader: SqlReader, session: int, after: int, limit: int
) -> tuple[list[MessageRow], bool]:
    """Return the next messages, fewer than *limit* if they are large, and whether others follow."""
    rows: list[MessageRow] = []
    size = 0
    for row in reader.messages(session, after):
        size += len(encode(row.message))
        if rows and (len(rows) == limit or size > _MOST_BYTES):
            return rows, True
        rows.append(row)
    return rows, False


class _EntryBuilder:
    """The entries of slots, with the *reader*'s views of their records."""

    def __init__(self, view: Callable[[DispatchRecord], DispatchView]) -> None:
        self._view = view

    def message_entry(self, slot: Slot) -> MessageEntry:
        message, dispatches = slot.message, self._views(slot)
        by_event = {dispatch.event: dispatch for dispatch in dispatches}
        admitted = by_event.get(MESSAGE_APPEND_BEFORE.name)
        persisted = by_event.get(MESSAGE_PERSIST_BEFORE.name)
        asked = by_event.get(MODEL_CALL_BEFORE.name)
        took = admitted.started_ns - asked.started_ns if admitted and asked else 0
        usage: JsonObject = message.usage if isinstance(message, AssistantMessage) else {}
        cost = usage.get("cost")
        return MessageEntry(
            seq=slot.seq,
            id=slot.id,
            message=message,
            damage=slot.row.problem if slot.row else "",
            reads=persisted.original if persisted and persisted.outcome != "unchanged" else None,
            dispatches=dispatches,
            calls=tuple(map(self._call_entry, slot.calls)),
            started_ns=dispatches[0].started_ns if dispatches else 0,
            duration_ns=max(0, took),
            tokens_in=_count(usage.get("input_tokens")),
            tokens_out=_count(usage.get("output_tokens")),
            cost=cost if type(cost) in {int, float} else None,
        )

    def _call_entry(self, slot: Slot) -> CallEntry:
        stored = slot.answer.message if slot.answer else None
        message = stored if isinstance(stored, ToolMessage) else None
        # A tool message without its request stands for itself: its call does not repeat it.
        answer = self.message_entry(slot.answer) if slot.answer and not slot.answer.calls else None
        dispatches, behind = self._views(slot), self._views(slot.answer)
        status = _call_status(message, (*dispatches, *behind))
        by, reason = _reason_of(message, status, (*dispatches, *behind))
        started_ns, duration_ns = _times_of(message, dispatches, behind)
        return CallEntry(
            id=slot.id,
            tool=slot.call.name if slot.call else message.tool_name if message else "",
            requested=slot.call,
            executed=executed_call(message, status) if message else None,
            status=status,
            reason=reason,
            by=by,
            started_ns=started_ns,
            duration_ns=duration_ns,
            dispatches=dispatches,
            answer=answer,
        )

    def _views(self, slot: Slot | None) -> tuple[DispatchView, ...]:
        return tuple(map(self._view, slot.records)) if slot else ()


def _count(number: object) -> int:
    return number if type(number) is int else 0


def _call_status(message: ToolMessage | None, dispatches: tuple[DispatchView, ...]) -> str:
    """Return the status of the call that *message* answers, None without a stored answer."""
    if message is not None:
        status = status_of(message, dispatches)
        return "refused" if status == RESULT_REFUSED else status
    outcomes = {dispatch.event: dispatch.outcome for dispatch in dispatches}
    if MESSAGE_APPEND_BEFORE.name in outcomes:
        return "ran" if outcomes.get(TOOL_CALL_BEFORE.name) in _GO_ON else "denied"
    outcome = outcomes.get(TOOL_CALL_BEFORE.name, "")
    return outcome if outcome in {"denied", "answered", "asked"} else "open"


def _reason_of(
    message: ToolMessage | None, status: str, dispatches: Sequence[DispatchView]
) -> tuple[str, str]:
    """Return the handlers that denied or asked, and why; both may be ""."""
    answer = message.text if message and status in _EXPLAINED else ""
    for dispatch in reversed(dispatches):
        if dispatch.outcome in {"denied", "rejected", "asked"}:
            ends = [each.name for each in dispatch.handlers if each.status in _ENDS]
            # The prompt of a question is not the reason of its refusal.
            reason = answer if dispatch.outcome == "asked" else ""
            return ", ".join(dict.fromkeys(ends)), reason or dispatch.reason or answer
    return "", answer


def _times_of(
    message: ToolMessage | None, dispatches: Sequence[DispatchView], behind: Sequence[DispatchView]
) -> tuple[int, int]:
    """Return the start of a call, and its duration: the stored one, or the time to its answer."""
    response = message.tool_response if message else None
    duration_ns = (response.duration_ns if response else None) or 0
    starts = [each.started_ns for each in dispatches if each.event == TOOL_CALL_BEFORE.name]
    ends = [each.started_ns for each in behind if each.event == MESSAGE_APPEND_BEFORE.name]
    if not (starts and ends):
        return next(iter(starts), 0), duration_ns
    if not dispatches[0].run_id:
        # A coding agent runs the tool itself, and the stored duration is only that of handlers.
        return starts[0], max(0, ends[0] - starts[0])
    # A call that waited for a person was judged several times.
    return min(starts, key=lambda start: abs(start + duration_ns - ends[0])), duration_ns


def _turns_of(entries: Iterable[MessageEntry]) -> Iterator[Turn]:
    """Yield *entries* by turns; without runs those at the same time are together."""
    key, end_ns, group = ("", 0), 0, list[MessageEntry]()
    for entry in entries:
        scope = _scope_of(entry)
        start_ns, stop_ns = _span_of(entry)
        is_same = scope == key if scope != ("", 0) else bool(group) and 0 < start_ns < end_ns
        if group and not is_same:
            yield Turn(run_id=key[0], number=key[1], messages=tuple(group))
            group, end_ns = [], 0
        key, end_ns = scope, max(end_ns, stop_ns)
        group.append(entry)
    if group:
        yield Turn(run_id=key[0], number=key[1], messages=tuple(group))


def _scope_of(entry: MessageEntry) -> tuple[str, int]:
    """Return run and turn of *entry*, as far as its records know them."""
    dispatches = [*entry.dispatches, *[each for call in entry.calls for each in call.dispatches]]
    return next(((each.run_id, each.turn) for each in dispatches if each.run_id), ("", 0))


def _span_of(entry: MessageEntry) -> tuple[int, int]:
    """Return the start and the end of *entry* with its calls, 0 if unknown."""
    times = [(entry.started_ns, entry.duration_ns)]
    times += [(call.started_ns, call.duration_ns) for call in entry.calls]
    starts = [start_ns for start_ns, _ in times if start_ns]
    return min(starts, default=0), max([sum(time) for time in times if time[0]], default=0)

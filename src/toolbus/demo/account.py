"""What happened in a run, read from the records that its bus leaves, and from nothing else."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from toolbus.bus.ledger.records import HandlerKind, HandlerStatus
from toolbus.events.catalogue import (
    MESSAGE_APPEND_AFTER,
    MESSAGE_APPEND_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    ModelReply,
    ToolCallFailure,
    ToolCallOutcome,
    ToolStatus,
)
from toolbus.messages.records import (
    AssistantMessage,
    JsonObject,
    ToolCall,
    ToolMessage,
    ToolResponse,
    encode,
)
from toolbus.terminal.excerpts import Rows, excerpt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.bus.ledger.records import DispatchRecord, HandlerEntry

_JUDGED = (TOOL_CALL_BEFORE.name, TOOL_CALL_ERROR.name, MESSAGE_APPEND_BEFORE.name)
_QUIET: tuple[HandlerStatus, ...] = ("ran", "queued", "skipped", "not_run")


class Deed(Struct, frozen=True, kw_only=True):
    """What one handler did to one call; *rows* shows it, before beside after.

    Characters are those of the text before and after it.
    """

    handler: str
    did: HandlerStatus
    event: str
    kind: HandlerKind
    reason: str | None
    duration_ns: int
    characters_before: int
    characters_after: int
    rows: Rows


class CallStory(Struct, frozen=True, kw_only=True):
    """One call from the model's wish to what the model read; characters are those of the result."""

    number: int
    turn: int
    id: str
    tool: str
    arguments: JsonObject
    executed: JsonObject | None
    status: ToolStatus
    approved: bool | None
    began_ns: int
    ended_ns: int
    duration_ns: int
    characters_returned: int
    characters_read: int
    text: str
    deeds: tuple[Deed, ...]


class Audience(Protocol):
    """Who is told while it happens."""

    def turn(self, number: int, message: AssistantMessage) -> None:
        """Hear that the model has answered with calls."""

    def call(self, story: CallStory) -> None:
        """Hear what became of a call."""


class Account:
    """A sink for `bus.tap(…, values=True)` that makes stories of records."""

    def __init__(self, audience: Audience | None = None) -> None:
        self._audience = audience
        self._records: defaultdict[str, list[DispatchRecord]] = defaultdict(list)
        self._returned: list[str] = []
        self._sent = b""
        self.calls: list[CallStory] = []

    def __call__(self, record: DispatchRecord) -> None:
        """Take in one record; tell the audience when a turn or a call is complete."""
        if record.call_id:
            self._records[record.call_id].append(record)
        match record.value:
            case ModelReply(request=request):
                # The last request holds all that the model has read.
                self._sent = encode(request)
            case ToolCallOutcome(response=response):
                self._returned.append(response.text)
            case AssistantMessage(tool_calls=calls) as message if calls and _is_in(record):
                if self._audience is not None:
                    self._audience.turn(record.scope.turn, message)
            case ToolMessage() as message if _is_in(record):
                self.calls.append(self._story(message, record.scope.turn))
                if self._audience is not None:
                    self._audience.call(self.calls[-1])

    def returned(self, texts: Iterable[str]) -> int:
        """Count which of *texts* the tools returned."""
        return len([one for one in texts if any(one in said for said in self._returned)])

    def read(self, texts: Iterable[str]) -> int:
        """Count which of *texts* the model was sent."""
        return len([one for one in texts if one.encode() in self._sent])

    def _story(self, message: ToolMessage, turn: int) -> CallStory:
        records = {one.event: one for one in self._records.pop(message.tool_call_id)}
        before, after = records[TOOL_CALL_BEFORE.name], records[TOOL_CALL_AFTER.name]
        outcome: ToolCallOutcome = after.value
        asked = before.outcome == "asked"
        return CallStory(
            number=len(self.calls) + 1,
            turn=turn,
            id=outcome.requested.id,
            tool=outcome.requested.name,
            arguments=outcome.requested.arguments,
            executed=None if outcome.executed is None else outcome.executed.arguments,
            status=outcome.status,
            approved=outcome.status != "denied" if asked else None,
            began_ns=before.started_ns,
            ended_ns=after.started_ns,
            duration_ns=outcome.duration_ns,
            characters_returned=len(outcome.response.text),
            characters_read=len(message.text),
            text=message.text,
            deeds=tuple(
                [one for name in _JUDGED if name in records for one in _deeds(records[name])]
            ),
        )


def _is_in(record: DispatchRecord) -> bool:
    return record.event == MESSAGE_APPEND_AFTER.name


def _deeds(record: DispatchRecord) -> Iterator[Deed]:
    for entry in record.entries:
        if entry.status not in _QUIET:
            before, after = _texts(record, entry)
            yield Deed(
                handler=entry.name,
                did=entry.status,
                event=record.event,
                kind=entry.kind,
                reason=entry.reason,
                duration_ns=entry.duration_ns,
                characters_before=len(before),
                characters_after=len(after),
                rows=excerpt(before, after),
            )


def _texts(record: DispatchRecord, entry: HandlerEntry) -> tuple[str, str]:
    if entry.status == "answered":
        return _text(record.value), _text(record.result)
    return _text(entry.value_before), _text(entry.value_after)


def _text(value: Any) -> str:
    """Return what a person would compare of *value*."""
    match value:
        case ToolMessage(text=text) | ToolResponse(text=text) | ToolCallFailure(error_text=text):
            return text
        case ToolCall(arguments=arguments):
            return "\n".join([str(one) for one in arguments.values()])
    return ""

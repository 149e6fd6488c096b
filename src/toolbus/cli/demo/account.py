"""What happened in a run, read from the records that its bus leaves, and whether all of it did."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.bus.ledger.records import HandlerKind, HandlerStatus, is_notable
from toolbus.cli.output.screen import Rows, excerpt
from toolbus.events.call_values import ToolStatus
from toolbus.events.catalogue import (
    MESSAGE_APPEND_AFTER,
    MESSAGE_APPEND_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    ModelReply,
    ToolCallFailure,
    ToolCallOutcome,
)
from toolbus.messages.records import (
    AssistantMessage,
    JsonObject,
    ToolCall,
    ToolMessage,
    ToolResponse,
    encode,
)

if TYPE_CHECKING:
    from pathlib import Path

    from toolbus.bus.ledger.records import DispatchRecord, HandlerEntry
    from toolbus.cli.demo.printer import DemoPrinter

_EXPECTED: tuple[tuple[str, str, str, HandlerStatus], ...] = (
    ("credentials redacted", "Secrets", "Redact", "changed"),
    ("a log cut", "LongResults", "Shorten", "changed"),
    ("commands rewritten", "GitManners", "GitManners.rewrite", "changed"),
    ("a command denied", "NoDestruction", "NoDestruction.forbid", "denied"),
    ("a person asked", "AskBeforePush", "AskBeforePush.ask", "asked"),
    ("a failure answered", "MissingFiles", "MissingFiles.answer", "answered"),
)
"""What is to happen, the component that it depends on, and its handler with what that does."""


class Intervention(Struct, frozen=True, kw_only=True):
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
    """One call as the model asked for it, up to the *text* that the model read."""

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
    deeds: tuple[Intervention, ...]


class Account:
    """A sink for `bus.tap(…, values=True)` that makes stories of records."""

    def __init__(self, printer: DemoPrinter | None) -> None:
        self._printer = printer
        self._records: defaultdict[str, dict[str, DispatchRecord]] = defaultdict(dict)
        self._returned: list[str] = []
        self._sent = b""
        self.calls: list[CallStory] = []

    def __call__(self, record: DispatchRecord) -> None:
        """Take in one record; print it when a turn or a call is complete."""
        if record.call_id:
            self._records[record.call_id][record.event] = record
        is_appended = record.event == MESSAGE_APPEND_AFTER.name
        match record.value:
            case ModelReply(request=request):
                # The last request holds all that the model has read.
                self._sent = encode(request)
            case ToolCallOutcome(response=response):
                self._returned.append(response.text)
            case AssistantMessage(tool_calls=calls) as message if calls and is_appended:
                if self._printer is not None:
                    self._printer.show_turn(record.scope.turn, message)
            case ToolMessage() as message if is_appended:
                records = self._records.pop(message.tool_call_id)
                self.calls.append(_story(len(self.calls) + 1, record.scope.turn, message, records))
                if self._printer is not None:
                    self._printer.show_call(self.calls[-1])

    def count(self, credentials: tuple[str, ...], transcript: Path) -> dict[str, int]:
        """Return what the run amounts to, *credentials* counted by searching for each of them."""
        files = transcript.parent.glob(f"{transcript.name}*")
        stored = b"".join([file.read_bytes() for file in files])
        returned = "\0".join(self._returned)
        return {
            "characters_returned": sum([call.characters_returned for call in self.calls]),
            "characters_read": sum([call.characters_read for call in self.calls]),
            "credentials_planted": len(credentials),
            "credentials_returned": sum([secret in returned for secret in credentials]),
            "credentials_read": sum([secret.encode() in self._sent for secret in credentials]),
            "credentials_stored": sum([secret.encode() in stored for secret in credentials]),
        }

    def check(self, totals: dict[str, int]) -> list[dict[str, Any]]:
        """Return for all that was to happen whether it did, in which calls, and by what."""
        expected = [("calls at the same time", "", _overlapping(self.calls))]
        for text, component, handler, status in _EXPECTED:
            calls = [call for call in self.calls if _did(call, handler, status)]
            expected.append((text, component, calls))
        unknown = [call for call in self.calls if call.status == "unknown_tool"]
        expected.append(("an unknown tool explained", "", unknown))
        checks = [
            (text, component, bool(calls), [call.number for call in calls])
            for text, component, calls in expected
        ]
        checks += [
            (f"no credential {verb}", "Secrets", not totals[f"credentials_{verb}"], [])
            for verb in ("read", "stored")
        ]
        keys = ("expected", "component", "happened", "calls")
        return [dict(zip(keys, check, strict=True)) for check in checks]


def _overlapping(calls: list[CallStory]) -> list[CallStory]:
    """Return the calls that began before another one had ended."""
    return [
        call
        for call in calls
        if any(
            call is not other and call.began_ns < other.ended_ns and other.began_ns < call.ended_ns
            for other in calls
        )
    ]


def _did(call: CallStory, handler: str, status: HandlerStatus) -> bool:
    """Tell whether *handler* did that to *call*, and the call ended as it wanted."""
    if status == "denied" and (call.status != "denied" or call.executed is not None):
        return False
    if status == "asked" and (not call.approved or call.executed is None):
        return False
    return any((each.handler, each.did) == (handler, status) for each in call.deeds)


def _story(
    number: int, turn: int, message: ToolMessage, records: dict[str, DispatchRecord]
) -> CallStory:
    before, after = records[TOOL_CALL_BEFORE.name], records[TOOL_CALL_AFTER.name]
    outcome: ToolCallOutcome = after.value
    judged = (TOOL_CALL_BEFORE.name, TOOL_CALL_ERROR.name, MESSAGE_APPEND_BEFORE.name)
    interventions = [
        _intervention(records[event], entry)
        for event in judged
        if event in records
        for entry in records[event].entries
        if is_notable(entry.status)
    ]
    return CallStory(
        number=number,
        turn=turn,
        id=outcome.requested.id,
        tool=outcome.requested.name,
        arguments=outcome.requested.arguments,
        executed=None if outcome.executed is None else outcome.executed.arguments,
        status=outcome.status,
        approved=outcome.status != "denied" if before.outcome == "asked" else None,
        began_ns=before.started_ns,
        ended_ns=after.started_ns,
        duration_ns=outcome.duration_ns,
        characters_returned=len(outcome.response.text),
        characters_read=len(message.text),
        text=message.text,
        deeds=tuple(interventions),
    )


def _intervention(record: DispatchRecord, entry: HandlerEntry) -> Intervention:
    values = (entry.value_before, entry.value_after)
    if entry.status == "answered":
        values = (record.value, record.result)
    before, after = map(_text, values)
    return Intervention(
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


def _text(value: Any) -> str:
    """Return what a person would compare of *value*."""
    match value:
        case ToolMessage(text=text) | ToolResponse(text=text) | ToolCallFailure(error_text=text):
            return text
        case ToolCall(arguments=arguments):
            return "\n".join(map(str, arguments.values()))
    return ""

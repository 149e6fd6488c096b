"""A tool call's part of a life: as the model asked, as it ran, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE
from toolbus.messages.records import AssistantMessage, ToolCall, ToolMessage

if TYPE_CHECKING:
    from toolbus.inspect.finding import Found
    from toolbus.inspect.passages import Passage
    from toolbus.messages.records import ToolResponse

_NEVER_RAN = {"denied", "unknown_tool", "invalid_arguments", "interrupted", "answered"}
_ENDS = _NEVER_RAN | {"timeout", "cancelled"}


class CallLife(Struct, frozen=True, kw_only=True):
    """A call as it was *asked* in a message, as it *ran*, if it did, and its *status*.

    *status* is what happened to the tool, "" without an answer; *duration_ns* is its own.
    """

    id: str
    status: str
    asked_in: str
    asked: ToolCall | None
    ran: ToolCall | None
    duration_ns: int | None


def call_life(found: Found, passages: tuple[Passage, ...]) -> CallLife:
    """Return the part of the call in what was *found*."""
    asked, answer = _asked(found), found.row.message if found.row else None
    message = answer if isinstance(answer, ToolMessage) else None
    response = message.tool_response if message else None
    status = status_of(message, passages) if message else ""
    ran = None
    if message and response and status not in _NEVER_RAN:
        ran = ToolCall(
            id=found.call_id, name=message.tool_name, arguments=response.parameters or {}
        )
    return CallLife(
        id=found.call_id,
        status=status,
        asked_in=found.asking.id if found.asking else "",
        asked=asked,
        ran=ran,
        duration_ns=response.duration_ns if response else None,
    )


def status_of(message: ToolMessage, passages: tuple[Passage, ...] = ()) -> str:
    """Return what happened to the tool that *message* answers for."""
    outcomes = {passage.event: passage.outcome for passage in passages}
    if outcomes.get(TOOL_CALL_BEFORE.name) == "answered":
        return "answered"
    refused = outcomes.get(MESSAGE_APPEND_BEFORE.name) in {"denied", "rejected"}
    if refused and outcomes.get(TOOL_CALL_BEFORE.name) != "denied":
        return "ran, and its result was refused"
    return _status(message.tool_response)


def _status(response: ToolResponse | None) -> str:
    if response is None or not response.is_error:
        return "ok"
    return response.error_type if response.error_type in _ENDS else "error"


def _asked(found: Found) -> ToolCall | None:
    message = found.asking.message if found.asking else None
    calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
    return next((call for call in calls if call.id == found.call_id), None)

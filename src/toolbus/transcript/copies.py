"""The copy of a message for the store: what stands for one that is not to be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import AssistantMessage, Message, ToolCall, ToolMessage, ToolResponse

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext


def stub(message: Message, reason: str) -> Message:
    """Return what is stored in place of *message*: its role, ids and call ids, and the reason."""
    match message:
        case AssistantMessage(id=message_id, tool_calls=calls):
            bare = tuple([ToolCall(id=call.id, name=call.name) for call in calls])
            return AssistantMessage(id=message_id, content=reason, tool_calls=bare)
        case ToolMessage(tool_response=ToolResponse() as response):
            bare_response = ToolResponse(
                is_error=response.is_error,
                tool_name=response.tool_name,
                tool_call_id=response.tool_call_id,
                duration_ns=response.duration_ns,
            )
            return replace(message, tool_response=bare_response.with_text(reason), metadata=EMPTY)
    return replace(message, content=reason, metadata=EMPTY)


def check_calls(turn: EventContext[Any], after: Message) -> str | None:
    """Refuse a stored copy with other calls: what is read back would pair them wrongly."""
    if not isinstance(after, AssistantMessage):
        return None
    before = [call.id for call in turn.value.tool_calls]
    if before == [call.id for call in after.tool_calls]:
        return None
    return "changed the calls of the stored message"

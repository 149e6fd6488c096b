"""What a value is about: the ids under which the ledger knows it."""

from __future__ import annotations

from toolbus.events import ModelReply, ToolCallFailure, ToolCallOutcome, ToolCallPersist
from toolbus.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage


def ids_of(value: object) -> tuple[str, str]:
    """Return the id of the message or call that *value* is about, and the tool call's id."""
    match value:
        case ToolMessage(id=own, tool_call_id=call_id):
            return own, call_id
        case ToolCall(id=own):
            return own, own
        case SystemMessage(id=own) | UserMessage(id=own) | AssistantMessage(id=own):
            return own, ""
        case ToolCallOutcome(requested=call) | ToolCallFailure(call=call):
            return call.id, call.id
        case ToolCallPersist(tool_message_id=own, tool_call_id=call_id):
            return own, call_id
        case ModelReply(message=message):
            return message.id, ""
    return "", ""

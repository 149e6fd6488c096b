"""What a value is about: the ids under which the ledger knows it, and the tool."""

from __future__ import annotations

from toolbus.events.catalogue import ModelReply, ToolCallFailure, ToolCallOutcome, ToolCallPersist
from toolbus.messages.records import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)


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


def tool_of(value: object) -> str | None:
    """Return the name of the tool that *value* is about, None if it is about none, or several.

    That of a call is the one that it has now, after the handlers before.
    """
    match value:
        case ToolCall(name=name) | ToolCallFailure(call=ToolCall(name=name)):
            return name
        case ToolMessage(tool_name=name) | ToolCallPersist(tool_name=name):
            return name
        case ToolCallOutcome():
            return (value.executed or value.requested).name
    return None

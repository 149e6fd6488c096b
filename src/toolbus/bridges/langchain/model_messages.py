"""The messages of a request to a LangChain model as records of ours, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from toolbus.bridges.langchain.tool_messages import message_of, response_of
from toolbus.messages import records
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import thaw
from toolbus.messages.records import AssistantMessage, ToolCall, ToolResponse

if TYPE_CHECKING:
    from toolbus.messages.records import Message


def record_of(message: Any) -> Message:
    """Return *message* of LangChain as a record; of blocks only the texts."""
    message_id = message.id or new_id()
    match message:
        case ToolMessage():
            return records.ToolMessage(
                id=message_id,
                tool_call_id=message.tool_call_id,
                tool_name=message.name or "",
                tool_response=response_of(message),
            )
        case AIMessage():
            calls = [
                ToolCall(id=call["id"] or new_id(), name=call["name"], arguments=call["args"])
                for call in message.tool_calls
            ]
            return AssistantMessage(id=message_id, content=message.text, tool_calls=tuple(calls))
        case SystemMessage():
            return records.SystemMessage(id=message_id, content=message.text)
    return records.UserMessage(id=message_id, content=message.text)


def message_like(record: Message, original: Any = None) -> Any:
    """Return *record* as a message of LangChain, with what it left of *original*."""
    match record:
        case records.ToolMessage(tool_call_id=call_id, tool_name=name):
            response = record.tool_response or ToolResponse(record.text)
            return message_of(response, ToolCall(id=call_id, name=name), original)
        case AssistantMessage():
            calls = [
                {"id": call.id, "name": call.name, "args": thaw(call.arguments)}
                for call in record.tool_calls
            ]
            if original is None:
                return AIMessage(record.text, id=record.id, tool_calls=calls)
            return with_text(original, record.text).model_copy(update={"tool_calls": calls})
    if original is not None:
        return with_text(original, record.text)
    kind = SystemMessage if record.role == "system" else HumanMessage
    return kind(record.text, id=record.id)


def with_text(message: Any, text: str) -> Any:
    """Return *message* with *text* in place of its texts; other blocks, such as images, stay."""
    content: Any = text
    if not isinstance(message.content, str):
        others = [each for each in message.content if not _is_text(each)]
        content = [{"type": "text", "text": text}, *others]
    return message.model_copy(update={"content": content})


def _is_text(block: Any) -> bool:
    return isinstance(block, str) or block.get("type") == "text"

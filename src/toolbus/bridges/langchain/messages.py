"""Messages of LangChain, and results of its tools, as records of ours, and back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
)
from langgraph.types import Command

from toolbus.errors import FreezeError
from toolbus.messages import records
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import thaw
from toolbus.messages.records import ImagePart, Part, TextPart, ToolCall, ToolResponse

_KINDS = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}


# --- results of tools ----------------------------------------------------------------------------


def with_messages(result: Any) -> Any:
    """Return *result* with the messages of tools as objects; a state takes dicts of them, too."""
    match result:
        case Command(update=update):
            return replace(result, update=with_messages(update))
        case {"tool_call_id": str(), "role": "tool"} | {"tool_call_id": str(), "type": "tool"}:
            return convert_to_messages([result])[0]
    if type(result) is dict:
        return {name: with_messages(value) for name, value in result.items()}
    return [*map(with_messages, result)] if type(result) is list else result


def message_in(result: Any, call_id: str) -> ToolMessage | None:
    """Return the message for the model in *result*: a message, or a command or list with it.

    Raises `ValueError` for several, of which the model would read each.
    """
    if isinstance(result, ToolMessage):
        return result  # It answers the call even with the id of another.
    messages = _messages_in(result, call_id)
    if len(messages) > 1:
        raise ValueError("the tool returned several messages for one call")
    return messages[0] if messages else None


def _messages_in(result: Any, call_id: str) -> list[ToolMessage]:
    match result:
        case ToolMessage():
            return [result] if result.tool_call_id == call_id else []
        case Command(update=update):
            return _messages_in(update, call_id)
        case dict():
            return _messages_in([*result.values()], call_id)
        case list():
            return [message for each in result for message in _messages_in(each, call_id)]
    return []


def response_of(message: ToolMessage | None) -> ToolResponse:
    """Return *message* as a response."""
    if message is None:
        return ToolResponse()
    parts = tuple([_part(block) for block in _blocks(message)])
    return ToolResponse(parts, is_error=message.status == "error")


def message_of(response: ToolResponse, call: ToolCall) -> ToolMessage:
    """Return *response* as the message for *call*."""
    message = ToolMessage("", name=call.name, tool_call_id=call.id)
    put_response(response, message)
    return message


def put_response(response: ToolResponse, message: ToolMessage) -> None:
    """Put *response* into *message*; blocks that it left unchanged stay."""
    blocks = _blocks(message)
    if isinstance(message.content, str):
        message.content = response.text
    else:
        message.content = [_block(part, blocks) for part in response.content]
    message.status = "error" if response.is_error else "success"
    # It may hold texts that a handler took out of the content.
    message.artifact = None


def _blocks(message: ToolMessage) -> list[Any]:
    content = message.content
    return [content] if isinstance(content, str) else content


def _part(block: Any) -> Part:
    """Return *block* as a part; unknown kinds are texts of JSON."""
    match block:
        case str(text) | {"type": "text", "text": str(text)}:
            return TextPart(text)
        case {"type": "image", "base64": str(data), "mime_type": str(mime_type)}:
            return ImagePart(data=data, mime_type=mime_type)
    return TextPart(json.dumps(block, ensure_ascii=False, default=str))


def _block(part: Part, blocks: list[Any]) -> Any:
    """Return the one of *blocks* for *part*, or a new text."""
    text = {"type": "text", "text": ToolResponse((part,)).text}
    return next((block for block in blocks if _part(block) == part), text)


# --- calls, and messages of a request -------------------------------------------------------------


def call_of(call_id: str | None, name: str, arguments: Any) -> ToolCall:
    """Return a call of the model; arguments that no record can hold become its raw text."""
    known_id = call_id or new_id()
    try:
        return ToolCall(id=known_id, name=name, arguments=arguments)
    except FreezeError:  # Such as an integer of more than 64 bits.
        return ToolCall(id=known_id, name=name, raw=json.dumps(arguments, default=str))


def record_of(message: Any) -> records.Message:
    """Return *message* as a record; of blocks only the texts."""
    message_id = message.id or new_id()
    match message:
        case ToolMessage(tool_call_id=call_id, name=name):
            return records.ToolMessage(
                id=message_id,
                tool_call_id=call_id,
                tool_name=name or "",
                tool_response=response_of(message),
            )
        case AIMessage(text=text):
            calls = [call_of(each["id"], each["name"], each["args"]) for each in message.tool_calls]
            return records.AssistantMessage(id=message_id, content=text, tool_calls=tuple(calls))
        case SystemMessage(text=text):
            return records.SystemMessage(id=message_id, content=text)
    return records.UserMessage(id=message_id, content=message.text)


def message_like(record: records.Message, original: Any = None) -> Any:
    """Return *record* as a message, with what it left of *original*."""
    if isinstance(record, records.ToolMessage):
        call = ToolCall(id=record.tool_call_id, name=record.tool_name)
        message = message_of(ToolResponse(), call) if original is None else original.model_copy()
        put_response(record.tool_response or ToolResponse.from_text(record.text), message)
        return message
    message = with_text(original or _KINDS[record.role](""), record.text)
    message.id = record.id
    if isinstance(record, records.AssistantMessage):
        message.tool_calls = [
            {"type": "tool_call", "id": call.id, "name": call.name, "args": thaw(call.arguments)}
            for call in record.tool_calls
        ]
    return message


def with_text(message: Any, text: str) -> Any:
    """Return *message* with *text* in place of its texts; other blocks, such as images, stay."""
    content: Any = text
    if not isinstance(message.content, str):
        others = [each for each in message.content if not _is_text(each)]
        content = [{"type": "text", "text": text}, *others]
    return message.model_copy(update={"content": content})


def _is_text(block: Any) -> bool:
    return isinstance(block, str) or block.get("type") == "text"

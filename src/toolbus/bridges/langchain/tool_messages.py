"""The results of LangChain tools as responses of ours, and back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from toolbus.errors import FreezeError
from toolbus.messages.immutable import thaw
from toolbus.messages.records import ImagePart, Part, TextPart, ToolCall, ToolResponse


def message_in(result: Any, call_id: str) -> ToolMessage | None:
    """Return the message for the model in *result*: a message, a command, or a list of these."""
    match result:
        case ToolMessage():
            return result if result.tool_call_id == call_id else None
        case Command(update={"messages": messages}):
            return message_in(messages, call_id)
        case list():
            messages = (message_in(each, call_id) for each in result)
            return next((message for message in messages if message is not None), None)
    return None


def with_message(result: Any, original: ToolMessage | None, message: ToolMessage) -> Any:
    """Return *result* with *message* in place of *original*; without it, *message* alone."""
    if original is None or result is original:
        return message
    match result:
        case Command(update={"messages": messages} as update):
            changed = with_message(messages, original, message)
            return replace(result, update={**update, "messages": changed})
        case list():
            return [with_message(each, original, message) for each in result]
    return result


def response_of(message: ToolMessage | None) -> ToolResponse:
    """Return *message* as a response; an artifact is its `structured`, if it is JSON."""
    if message is None:
        return ToolResponse()
    parts, is_error = tuple([part for part, _ in _parts(message)]), message.status == "error"
    try:
        return ToolResponse(parts, structured=message.artifact, is_error=is_error)
    except FreezeError:
        return ToolResponse(parts, is_error=is_error)


def message_of(
    response: ToolResponse, call: ToolCall, original: ToolMessage | None = None
) -> ToolMessage:
    """Return *response* as the message for *call*, with what it left of *original*."""
    is_text = original is None or isinstance(original.content, str)
    blocks = [] if original is None else _parts(original)
    content: Any = response.text
    if not (is_text and all(isinstance(part, TextPart) for part in response.content)):
        content = [_block(part, blocks) for part in response.content]
    return ToolMessage(
        content=content,
        # An artifact that is no JSON may hold what a handler took out of the text.
        artifact=thaw(response.structured),
        id=None if original is None else original.id,
        name=call.name,
        tool_call_id=call.id,
        status="error" if response.is_error else "success",
    )


def _parts(message: ToolMessage) -> list[tuple[Part, Any]]:
    """Return each block of *message* after the part for it; unknown kinds are texts of JSON."""
    content = message.content
    if isinstance(content, str):
        return [(TextPart(content), content)]
    return [(_part(block), block) for block in content]


def _part(block: str | dict[str, Any]) -> Part:
    match block:
        case str():
            return TextPart(block)
        case {"type": "text", "text": str(text)}:
            return TextPart(text)
        case {"type": "image", "base64": str(data), "mime_type": str(mime_type)}:
            return ImagePart(data=data, mime_type=mime_type)
    return TextPart(json.dumps(block, ensure_ascii=False, default=str))


def _block(part: Part, blocks: list[tuple[Part, Any]]) -> Any:
    """Return the block of *part*, the original one if the part is unchanged."""
    for known, block in blocks:
        if known == part:
            return block
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case ImagePart(data=data, mime_type=mime_type):
            return {"type": "image", "base64": data, "mime_type": mime_type}
    return {"type": "text", "text": ToolResponse((part,)).text}

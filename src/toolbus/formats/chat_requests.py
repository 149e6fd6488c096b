"""Requests to OpenAI's chat completions: messages and tools as the body of a request.

The shapes are those of https://platform.openai.com/docs/api-reference/chat/create.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from toolbus.errors import RegistrationError
from toolbus.formats.chat_messages import REASONING_FIELDS
from toolbus.formats.media import as_text, data_uri, file_name, foreign_block, image_url_of
from toolbus.formats.names import wire_name
from toolbus.formats.output_schemas import FORMAT_CONFLICT, openai_format
from toolbus.formats.requests import arguments_text, schema_of, with_settings
from toolbus.messages.records import (
    AssistantMessage,
    AudioPart,
    Message,
    Part,
    Resource,
    ResourcePart,
    SystemMessage,
    ToolMessage,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.events.values import ModelRequest

_RESERVED = frozenset({"messages", "model", "stream", "tools"})
_ID_LENGTH = 40
_NAME = re.compile(r"[^\s<|\\/>]{1,64}")
_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def body_of(request: ModelRequest) -> dict[str, Any]:
    """Return the body of `POST /v1/chat/completions` for *request*, without streaming."""
    body = {
        "model": request.model,
        "messages": _messages(request.messages),
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": wire_name(spec.name),
                    "description": spec.description,
                    "parameters": schema_of(spec),
                },
            }
            for spec in request.tools
        ]
        or None,
    }
    sent = with_settings(body, request.settings, _RESERVED)
    if request.output_schema is not None:
        if "response_format" in sent:
            raise RegistrationError("model setting 'response_format'", FORMAT_CONFLICT)
        output = openai_format(request.output_schema)
        sent["response_format"] = {"type": "json_schema", "json_schema": output}
    return sent


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    # Results of tools cannot have images here, so a user message behind the last one has them.
    turn = max(
        (i for i, other in enumerate(messages) if isinstance(other, UserMessage)), default=-1
    )
    sent: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        if images and not isinstance(message, ToolMessage):
            sent.append({"role": "user", "content": images})
            images = []
        match message:
            case SystemMessage(content=text):
                role = "developer" if message.metadata.get("role") == "developer" else "system"
                sent.append({"role": role, "content": text, **_speaker(message)})
            case UserMessage(content=content):
                words = content if isinstance(content, str) else [*map(_part, content)]
                sent.append({"role": "user", "content": words, **_speaker(message)})
            case AssistantMessage():
                sent.append(_answer(message, is_current=index > turn))
            case ToolMessage():
                sent.append(_result(message))
                images += _images(message)
    return [*sent, {"role": "user", "content": images}] if images else sent


def _answer(message: AssistantMessage, *, is_current: bool) -> dict[str, Any]:
    """Return an answer, with its reasoning if it belongs to the current turn.

    Some servers require the reasoning between calls, and some refuse that of earlier turns
    (https://api-docs.deepseek.com/guides/thinking_mode).
    """
    answer: dict[str, Any] = {"role": "assistant", "content": message.content, **_speaker(message)}
    if message.stop_reason == "refusal":
        answer |= {"content": None, "refusal": message.content}
    if message.tool_calls:
        answer["content"] = message.content or None
        answer["tool_calls"] = [
            {
                "id": wire_name(call.id, _ID_LENGTH),
                "type": "function",
                "function": {"name": wire_name(call.name), "arguments": arguments_text(call)},
            }
            for call in message.tool_calls
        ]
    for part in message.reasoning if is_current else ():
        if part.format in REASONING_FIELDS:
            answer[part.format] = answer.get(part.format, "") + part.text
    return answer


def _result(message: ToolMessage) -> dict[str, Any]:
    """Return a result, which can hold only text; its images follow after all results."""
    response = message.tool_response
    text = message.text
    if response is not None and response.content:
        text = "\n".join([_words(part, message.tool_call_id) for part in response.content])
    call_id = wire_name(message.tool_call_id, _ID_LENGTH)
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def _images(message: ToolMessage) -> list[dict[str, Any]]:
    content = message.tool_response.content if message.tool_response else ()
    parts = [part for part in content if image_url_of(part) is not None]
    if not parts:
        return []
    words = f"[images of the result of call {message.tool_call_id}]"
    return [{"type": "text", "text": words}, *[_part(part) for part in parts]]


def _words(part: Part, call_id: str) -> str:
    is_image = image_url_of(part) is not None
    return f"[image: shown below, for call {call_id}]" if is_image else as_text(part)


def _part(part: Part) -> dict[str, Any]:
    if (block := foreign_block(part, {"file"})) is not None:
        return block
    if (address := image_url_of(part)) is not None:
        return {"type": "image_url", "image_url": {"url": address}}
    match part:
        case AudioPart(data=data, mime_type=kind) if kind in _AUDIO:
            return {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO[kind]}}
        case ResourcePart(resource=Resource(text=None, blob=str(data)) as resource):
            uri = data_uri(resource.mime_type, data)
            return {"type": "file", "file": {"filename": file_name(resource), "file_data": uri}}
    return {"type": "text", "text": as_text(part)}


def _speaker(message: Message) -> dict[str, Any]:
    """Return the speaker's name, if it is valid for the API: metadata may hold anything."""
    name = message.metadata.get("name")
    return {"name": name} if isinstance(name, str) and _NAME.fullmatch(name) else {}

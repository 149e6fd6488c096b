"""Messages in the JSON of OpenTelemetry's GenAI conventions, `gen_ai.input.messages`.

Schemas: https://github.com/open-telemetry/semantic-conventions-genai, `model/gen-ai`. The data of
images, audio and files is left out, and so is a text that a model wrote in place of a tool's name:
no handler redacts names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from toolbus.messages.records import (
    AssistantMessage,
    AudioPart,
    ImagePart,
    ToolMessage,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolbus.messages.records import Message

_NAME = re.compile(r"[\w.:/@+-]{1,200}")


def encode_messages(messages: Iterable[Message]) -> str:
    """Return *messages* as JSON: their texts, calls and results."""
    return encode_value([_encoded(message) for message in messages])


def encode_value(value: object) -> str:
    """Return *value*, the arguments of a call, as JSON."""
    return msgspec.json.encode(value).decode()


def _encoded(message: Message) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message.role, "parts": _parts(message)}
    if isinstance(message, AssistantMessage) and message.stop_reason:
        made["finish_reason"] = message.stop_reason
    return made


def _parts(message: Message) -> list[dict[str, Any]]:
    if isinstance(message, ToolMessage):
        kind, call_id = "tool_call_response", message.tool_call_id
        return [{"type": kind, "id": call_id, "response": message.text}]
    parts: list[dict[str, Any]] = []
    if message.text:
        parts.append({"type": "text", "content": message.text})
    if isinstance(message, UserMessage) and isinstance(message.content, tuple):
        media = [part for part in message.content if isinstance(part, ImagePart | AudioPart)]
        parts += [{"type": part.type} for part in media]
    for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
        name = call.name if _NAME.fullmatch(call.name) else ""
        called = {"type": "tool_call", "id": call.id, "name": name}
        parts.append({**called, "arguments": call.arguments})
    return parts

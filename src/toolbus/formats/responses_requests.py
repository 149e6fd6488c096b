"""Requests to OpenAI's responses API: messages and tools as the body of a request.

The shapes are those of https://platform.openai.com/docs/api-reference/responses/create. Each
request has the whole conversation, and tells the provider to store nothing.
"""

from __future__ import annotations

from itertools import compress, groupby
from typing import TYPE_CHECKING, Any

from toolbus.formats.answers import AnswerItem, items_of
from toolbus.formats.media import (
    as_text,
    data_uri,
    file_name,
    foreign_block,
    image_url_of,
    is_web_url,
)
from toolbus.formats.names import wire_name
from toolbus.formats.output_schemas import openai_format, with_format
from toolbus.formats.requests import arguments_text, schema_of, with_settings
from toolbus.formats.responses_output import WIRE
from toolbus.messages.immutable import thaw
from toolbus.messages.records import (
    AssistantMessage,
    Message,
    Part,
    Resource,
    ResourcePart,
    SystemMessage,
    ToolMessage,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolbus.events.values import ModelRequest

_RESERVED = frozenset({"input", "model", "stream", "tools"})
_FOREIGN = frozenset({"input_file", "input_image"})
_ENCRYPTED = "reasoning.encrypted_content"
_WITHOUT_REASONING = ("gpt-3", "gpt-4", "chatgpt-4")
"""Models without reasoning, which refuse a request for it."""


def body_of(request: ModelRequest) -> dict[str, Any]:
    """Return the body of `POST /v1/responses` for *request*, without streaming."""
    has_reasoning = not request.model.startswith(_WITHOUT_REASONING)
    body = {
        "model": request.model,
        "input": [item for message in request.messages for item in _items(message)],
        "store": False,
        # Since the provider stores nothing, it needs its encrypted reasoning sent back.
        "include": [_ENCRYPTED] if has_reasoning else None,
        "tools": [
            {
                "type": "function",
                "name": wire_name(spec.name),
                "description": spec.description,
                "parameters": schema_of(spec),
                # The default is true here, and refuses most schemas that other APIs accept.
                "strict": False,
            }
            for spec in request.tools
        ]
        or None,
    }
    sent = with_settings(body, request.settings, _RESERVED)
    if request.output_schema is None:
        return sent
    return with_format(
        sent, "text", {"type": "json_schema", **openai_format(request.output_schema)}
    )


def _items(message: Message) -> list[dict[str, Any]]:
    match message:
        case SystemMessage(content=text):
            role = "developer" if message.metadata.get("role") == "developer" else "system"
            return [{"role": role, "content": text}]
        case UserMessage(content=content):
            parts = content if isinstance(content, str) else [*map(_user_part, content)]
            return [{"role": "user", "content": parts}]
        case AssistantMessage():
            items = items_of(message, WIRE)
            is_sendable = [item.kind != "reasoning" or item.value.item_id for item in items]
            return _answer(compress(items, is_sendable))
        case ToolMessage():
            return [_result(message)]


def _answer(items: Iterable[AnswerItem]) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    for item_id, group in groupby(items, _reasoning_id):
        same = list(group)
        sent += [_item(item) for item in same] if item_id is None else [_reasoning(item_id, same)]
    return sent


def _reasoning_id(item: AnswerItem) -> str | None:
    return item.value.item_id if item.kind == "reasoning" else None


def _reasoning(item_id: str, items: Iterable[AnswerItem]) -> dict[str, Any]:
    parts = [item.value for item in items]
    summaries = [part.text for part in parts if part.is_summary]
    texts = [part.text for part in parts if part.text and not part.is_summary]
    thought: dict[str, Any] = {
        "type": "reasoning",
        "id": item_id,
        "summary": [{"type": "summary_text", "text": text} for text in summaries],
    }
    if texts:
        thought["content"] = [{"type": "reasoning_text", "text": text} for text in texts]
    if sealed := next((part.data for part in parts if part.data is not None), None):
        thought["encrypted_content"] = sealed
    return thought


def _item(item: AnswerItem) -> dict[str, Any]:
    match item.kind:
        case "text":
            phase = item.facts.get("phase")
            facts = {"phase": phase} if phase else {}
            return {"role": "assistant", "content": item.value, **facts}
        case "call":
            # Without the item's own id, which would require the reasoning before it.
            return {
                "type": "function_call",
                "call_id": wire_name(item.value.id),
                "name": wire_name(item.value.name),
                "arguments": arguments_text(item.value),
            }
        case _:
            block: dict[str, Any] = thaw(item.value)
            return block


def _result(message: ToolMessage) -> dict[str, Any]:
    response = message.tool_response
    output: Any = message.text
    if response is not None and any(_media(part) for part in response.content):
        output = [_part(part) for part in response.content]
    call_id = wire_name(message.tool_call_id)
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _user_part(part: Part) -> dict[str, Any]:
    return foreign_block(part, _FOREIGN) or _part(part)


def _part(part: Part) -> dict[str, Any]:
    return _media(part) or {"type": "input_text", "text": as_text(part)}


def _media(part: Part) -> dict[str, Any] | None:
    if (address := image_url_of(part)) is not None:
        return {"type": "input_image", "detail": "auto", "image_url": address}
    match part:
        case ResourcePart(resource=Resource(text=None, blob=str(data)) as resource):
            uri = data_uri(resource.mime_type, data)
            return {"type": "input_file", "filename": file_name(resource), "file_data": uri}
        case ResourcePart(resource=Resource(text=None, uri=uri)) if is_web_url(uri):
            return {"type": "input_file", "file_url": uri}
    return None

"""Requests to Anthropic: messages and tools as the body of a request.

The shapes are those of https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.formats.answers import AnswerItem, items_of
from toolbus.formats.anthropic_messages import WIRE
from toolbus.formats.media import UNNAMED, as_text, foreign_block, is_web_url
from toolbus.formats.names import wire_name
from toolbus.formats.output_schemas import ANTHROPIC, enforceable, with_format, with_schema_prompt
from toolbus.formats.requests import arguments_of, schema_of, with_settings
from toolbus.messages.immutable import thaw
from toolbus.messages.records import (
    AssistantMessage,
    ImagePart,
    Message,
    Part,
    Resource,
    ResourcePart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.events.values import ModelRequest
    from toolbus.messages.reasoning import ReasoningPart

MAX_TOKENS = 8_192
"""The limit for an answer, which the API requires, where the settings have none."""

_RESERVED = frozenset({"messages", "model", "stream", "system", "tools"})
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF = "application/pdf"
_FOREIGN = frozenset({"search_result", "container_upload", "document", "image"})
_FIRST_TURN = {"role": "user", "content": [{"type": "text", "text": "(The conversation begins.)"}]}


def body_of(request: ModelRequest) -> dict[str, Any]:
    """Return the body of `POST /v1/messages` for *request*, without streaming."""
    # The API has a parameter of its own for system texts, turns, tools, thinking and schema.
    schema = request.output_schema
    output = None if schema is None else enforceable(schema, ANTHROPIC)
    if output is None:
        request = with_schema_prompt(request)
    first = next(
        (i for i, other in enumerate(request.messages) if not isinstance(other, SystemMessage)),
        len(request.messages),
    )
    system = [block for message in request.messages[:first] for block in _text_blocks(message.text)]
    body = {
        "model": request.model,
        "max_tokens": MAX_TOKENS,
        "system": system or None,
        "messages": _turns(request.messages[first:]),
        "tools": [
            {
                "name": wire_name(spec.name),
                "description": spec.description,
                "input_schema": schema_of(spec),
            }
            for spec in request.tools
        ]
        or None,
    }
    sent = with_settings(body, request.settings, _RESERVED)
    if "thinking" in sent and _lacks_reasoning(request.messages):
        sent["thinking"] = {"type": "disabled"}
    if output is None:
        return sent
    return with_format(sent, "output_config", {"type": "json_schema", "schema": output})


def _lacks_reasoning(messages: Sequence[Message]) -> bool:
    """Return whether reasoning before the open calls cannot be sent back.

    With thinking enabled, the API refuses a turn of calls that does not begin with thinking
    (https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking).
    """
    for message in reversed(messages):
        match message:
            case UserMessage():
                return False
            case AssistantMessage(reasoning=parts):
                if any(part.format == WIRE and not part.is_sealed for part in parts):
                    return True
    return False


def _turns(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the turns; results and a following user message form one turn."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role, blocks = _turn(message)
        if not blocks:
            continue  # The API refuses empty turns and empty texts.
        if turns and role == turns[-1]["role"]:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    # The API requires a user turn first, but a session may begin with an answer.
    is_answer = bool(turns) and turns[0]["role"] == "assistant"
    return [dict(_FIRST_TURN), *turns] if is_answer else turns


def _turn(message: Message) -> tuple[str, list[dict[str, Any]]]:
    match message:
        case AssistantMessage():
            return "assistant", _answer(message)
        case ToolMessage():
            return "user", [_result(message)]
        case UserMessage(content=content):
            return "user", _text_blocks(content) if isinstance(content, str) else _blocks(content)
        case SystemMessage(content=text):
            return "system", _text_blocks(text)


def _answer(message: AssistantMessage) -> list[dict[str, Any]]:
    blocks = [_block_of(item) for item in items_of(message, WIRE)]
    return [block for block in blocks if block is not None]


def _block_of(item: AnswerItem) -> dict[str, Any] | None:
    match item.kind:
        case "text":
            return {**_text_block(item.value), **thaw(item.facts)} if item.value.strip() else None
        case "reasoning":
            return _reasoning_block(item.value)
        case "call":
            return {
                "type": "tool_use",
                "id": wire_name(item.value.id),
                "name": wire_name(item.value.name),
                "input": arguments_of(item.value),
            }
        case "block":
            block: dict[str, Any] = thaw(item.value)
            return block


def _reasoning_block(part: ReasoningPart) -> dict[str, Any]:
    if part.data is not None:
        return {"type": "redacted_thinking", "data": part.data}
    return {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _result(message: ToolMessage) -> dict[str, Any]:
    response = message.tool_response
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": wire_name(message.tool_call_id)}
    if response is None or not response.content:
        content = _text_blocks(message.text)
    else:
        content = [_block(part) for part in response.content if not _is_blank(part)]
    if content:
        block["content"] = content
    if response is not None and response.is_error:
        block["is_error"] = True
    return block


def _blocks(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return the parts of a user's message as blocks."""
    return [_document(part) or _block(part) for part in parts if not _is_blank(part)]


def _document(part: Part) -> dict[str, Any] | None:
    """Return a block that only a user message may contain: a text document or a foreign block."""
    if block := foreign_block(part, _FOREIGN):
        return block
    match part:
        case ResourcePart(resource=Resource(uri=uri, text=str(text))) if not uri.startswith(
            "block:"
        ):
            source = {"type": "text", "media_type": "text/plain", "data": text}
            return _titled(uri, {"type": "document", "source": source})
    return None


def _block(part: Part) -> dict[str, Any]:
    match part:
        case ImagePart(data=data, mime_type=kind) if kind in _IMAGES:
            return _image({"type": "base64", "media_type": kind, "data": data})
        case ResourcePart(resource=Resource(text=None) as resource):
            return _resource(resource) or _text_block(as_text(part))
    return _text_block(as_text(part))


def _resource(resource: Resource) -> dict[str, Any] | None:
    match resource:
        case Resource(blob=str(data), mime_type=str(kind)) if kind in _IMAGES:
            return _image({"type": "base64", "media_type": kind, "data": data})
        case Resource(blob=str(data), mime_type=kind) if kind == _PDF:
            source = {"type": "base64", "media_type": _PDF, "data": data}
            return _titled(resource.uri, {"type": "document", "source": source})
        case Resource(blob=None, mime_type=kind, uri=uri) if is_web_url(uri):
            if kind is not None and kind.startswith("image/"):
                return _image({"type": "url", "url": uri})
            if kind in {None, _PDF}:
                return {"type": "document", "source": {"type": "url", "url": uri}}
    return None


def _image(source: dict[str, Any]) -> dict[str, Any]:
    return {"type": "image", "source": source}


def _titled(title: str, block: dict[str, Any]) -> dict[str, Any]:
    return block if title == UNNAMED else {**block, "title": title}


def _is_blank(part: Part) -> bool:
    return isinstance(part, TextPart) and not part.text.strip()


def _text_blocks(text: str) -> list[dict[str, Any]]:
    return [_text_block(text)] if text.strip() else []


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}

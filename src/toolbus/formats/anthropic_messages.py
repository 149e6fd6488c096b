"""Anthropic's content blocks as parts and messages.

The shapes are those of https://docs.anthropic.com/en/api/messages. A block without a counterpart
here is kept as JSON, so that handlers see what the model saw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.formats.answers import AnswerItem, message_of
from toolbus.formats.json_input import call_of, unexpected
from toolbus.formats.media import UNNAMED, foreign_part, image_from
from toolbus.formats.usage import anthropic_usage, stop_of
from toolbus.messages.immutable import EMPTY, JsonObject
from toolbus.messages.reasoning import ReasoningPart
from toolbus.messages.records import (
    AssistantMessage,
    ImagePart,
    Message,
    Part,
    Resource,
    ResourcePart,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
    encode,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.formats.answers import MakeCall, Wire
    from toolbus.formats.json_input import ToolNames


WIRE: Wire = "anthropic"


def answer_message(
    items: Sequence[AnswerItem], message_id: str, facts: JsonObject = EMPTY
) -> AssistantMessage:
    """Return *items* as a message; *facts* are usage and stop reason."""
    return message_of(
        items,
        WIRE,
        message_id,
        usage=anthropic_usage(facts.get("usage")),
        stop_reason=stop_of(facts.get("stop_reason")),
    )


def answer_items(content: Any, path: str, make_call: MakeCall = call_of) -> list[AnswerItem]:
    """Return the blocks of an assistant's *content* as items; raises `DecodeError`."""
    # One case for each type of block in the Messages API; an unknown type stays as it came.
    items: list[AnswerItem] = []
    for index, block in enumerate(_blocks(content, path)):
        match block:
            case {"type": "text", "text": ""}:
                pass
            case {"type": "text", "text": str(text)}:
                citations = block.get("citations")
                items.append(
                    AnswerItem("text", text, {"citations": citations} if citations else EMPTY)
                )
            case {"type": "thinking", "thinking": str(text)}:
                seal = block.get("signature")
                part = ReasoningPart(text, signature=seal or None, format=WIRE)
                items.append(AnswerItem("reasoning", part))
            case {"type": "redacted_thinking", "data": str(data)}:
                items.append(AnswerItem("reasoning", ReasoningPart(data=data, format=WIRE)))
            case {"type": "tool_use"}:
                items.append(AnswerItem("call", _call(block, f"{path}[{index}]", make_call)))
            case {"type": str()}:
                items.append(AnswerItem("block", block))
            case _:
                raise unexpected("a content block", block, f"{path}[{index}]")
    return items


def user_messages(content: Any, message_id: str, names: ToolNames, path: str) -> list[Message]:
    """Return the messages of a user turn: a tool message for each result, then the user's own.

    The API requires results first in a turn.
    """
    blocks, rest = _blocks(content, path), []
    messages: list[Message] = []
    for index, block in enumerate(blocks):
        match block:
            case {"type": "tool_result"}:
                result_id = f"{message_id}/{index}" if len(blocks) > 1 else message_id
                messages.append(_result(block, result_id, names, f"{path}[{index}]"))
            case _:
                rest.append(block)
    if isinstance(content, str):
        messages.append(UserMessage(id=message_id, content=content))
    elif rest or not messages:
        messages.append(UserMessage(id=message_id, content=parts_of(rest, path)))
    return messages


def parts_of(content: Any, path: str) -> tuple[Part, ...]:
    """Return the blocks of *content*, a text, an array or None, as parts."""
    return tuple(
        [part_of(block, f"{path}[{index}]") for index, block in enumerate(_blocks(content, path))]
    )


def part_of(block: Any, path: str) -> Part:
    """Return a block as a part, or as a resource with its JSON if it has no counterpart."""
    match block:
        case {"type": "text", "text": str(text)}:
            return TextPart(text=text)
        case {
            "type": "image",
            "source": {"type": "base64", "media_type": str(mime_type), "data": str(data)},
        }:
            return ImagePart(data=data, mime_type=mime_type)
        case {
            "type": "document",
            "source": {"type": "base64", "media_type": str(mime_type), "data": str(data)},
        }:
            resource = Resource(uri=_title(block), mime_type=mime_type, blob=data)
            return ResourcePart(resource=resource)
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            return ResourcePart(resource=Resource(uri=_title(block), text=text))
        case {"type": "image", "source": {"type": "url", "url": str(uri)}}:
            return image_from(uri)
        case {"type": "document", "source": {"type": "url", "url": str(uri)}}:
            return ResourcePart(resource=Resource(uri=uri))
        case {"type": str(kind)}:
            return foreign_part(kind, block)
    raise unexpected("a content block", block, path)


def _title(block: Any) -> str:
    title = block.get("title")
    return title if isinstance(title, str) and title else UNNAMED


def _blocks(content: Any, path: str) -> list[Any]:
    match content:
        case str():
            return [{"type": "text", "text": content}]
        case list():
            return content
        case None:
            return []
    raise unexpected("text or an array of blocks", content, path)


def _call(block: Any, path: str, make_call: MakeCall) -> ToolCall:
    match block:
        case {"id": str(call_id), "name": str(name)}:
            # An input other than an object is kept as its text. A stream gives the input as
            # the model's own text.
            value = block.get("input")
            is_usual = isinstance(value, dict | str)
            return make_call(call_id, name, value if is_usual else encode(value).decode())
    raise unexpected("a tool_use block with id and name", block, path)


def _result(block: Any, message_id: str, names: ToolNames, path: str) -> ToolMessage:
    call_id, failed = block.get("tool_use_id"), block.get("is_error")
    if not isinstance(call_id, str):
        raise unexpected("a tool_use_id", call_id, f"{path}.tool_use_id")
    if not (failed is None or isinstance(failed, bool)):
        raise unexpected("true or false", failed, f"{path}.is_error")
    response = ToolResponse(
        content=parts_of(block.get("content"), f"{path}.content"), is_error=bool(failed)
    )
    return ToolMessage(
        id=message_id, tool_call_id=call_id, tool_name=names.of(call_id), tool_response=response
    )

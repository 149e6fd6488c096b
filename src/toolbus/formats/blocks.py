"""Anthropic's content blocks as parts and messages.

The blocks are those of https://docs.anthropic.com/en/api/messages. A block without a counterpart
here is kept as JSON, so that handlers see what the model saw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.formats.parsing import unexpected
from toolbus.messages.immutable import EMPTY, JsonObject
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
    from toolbus.formats.parsing import ToolNames


class AnswerBlocks(Struct, kw_only=True):
    """What an assistant said, gathered from its content blocks."""

    texts: list[str]
    reasoning: list[str]
    calls: list[ToolCall]
    others: list[Any]

    def message(self, message_id: str, facts: JsonObject = EMPTY) -> AssistantMessage:
        """Return it as a message with the id *message_id*; *facts* are usage and stop reason."""
        usage, stop = facts.get("usage"), facts.get("stop_reason")
        return AssistantMessage(
            id=message_id,
            content="\n".join(self.texts),
            reasoning="\n".join(self.reasoning) if self.reasoning else None,
            tool_calls=tuple(self.calls),
            usage=usage if isinstance(usage, dict) else EMPTY,
            stop_reason=stop if isinstance(stop, str) else None,
            metadata={"blocks": self.others} if self.others else EMPTY,
        )


def answer_of(content: Any, path: str) -> AnswerBlocks:
    """Gather the blocks of an assistant's *content*; raises `DecodeError`."""
    answer = AnswerBlocks(texts=[], reasoning=[], calls=[], others=[])
    for index, block in enumerate(_blocks(content, path)):
        match block:
            case {"type": "text", "text": str(text)}:
                answer.texts.append(text)
            case {"type": "thinking", "thinking": str(text)}:
                answer.reasoning.append(text)
            case {"type": "tool_use"}:
                answer.calls.append(_call(block, f"{path}[{index}]"))
            case {"type": str()}:
                answer.others.append(block)
            case _:
                raise unexpected("a content block", block, f"{path}[{index}]")
    return answer


def user_messages(content: Any, message_id: str, names: ToolNames, path: str) -> list[Message]:
    """Return what a user turn holds: a tool message for each result, then what the user says.

    The API wants results before anything else in the turn.
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
    """Return the blocks of *content*, text or an array or nothing, as parts."""
    return tuple(
        [part_of(block, f"{path}[{index}]") for index, block in enumerate(_blocks(content, path))]
    )


def part_of(block: Any, path: str) -> Part:
    """Return a block as the part that it is, or as a resource that holds its JSON."""
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
            return ResourcePart(resource=Resource(uri="document", mime_type=mime_type, blob=data))
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            return ResourcePart(resource=Resource(uri="document", text=text))
        case {"type": "image" | "document", "source": {"type": "url", "url": str(uri)}}:
            return ResourcePart(resource=Resource(uri=uri))
        case {"type": str(kind)}:
            return foreign_part(kind, block)
    raise unexpected("a content block", block, path)


def foreign_part(kind: str, block: Any) -> ResourcePart:
    """Return content that has no counterpart here, as JSON."""
    text = encode(block).decode()
    return ResourcePart(
        resource=Resource(uri=f"block:{kind}", mime_type="application/json", text=text)
    )


def _blocks(content: Any, path: str) -> list[Any]:
    match content:
        case str():
            return [{"type": "text", "text": content}]
        case list():
            return content
        case None:
            return []
    raise unexpected("text or an array of blocks", content, path)


def _call(block: Any, path: str) -> ToolCall:
    match block:
        case {"id": str(call_id), "name": str(name), "input": dict(arguments)}:
            return ToolCall(id=call_id, name=name, arguments=arguments)
        # What a model wrote as its input and what is no object is kept as its text.
        case {"id": str(call_id), "name": str(name)}:
            return ToolCall(id=call_id, name=name, raw=encode(block.get("input")).decode())
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

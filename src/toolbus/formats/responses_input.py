"""The input of OpenAI's responses API as messages of toolbus.

The shapes are those of https://platform.openai.com/docs/api-reference/responses/create.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.formats.answers import AnswerItem, message_of
from toolbus.formats.json_input import ToolNames, unexpected
from toolbus.formats.media import UNNAMED, document_from, foreign_part, image_from
from toolbus.formats.responses_output import WIRE, output_items
from toolbus.messages.records import (
    Message,
    Part,
    Resource,
    ResourcePart,
    SystemMessage,
    TextPart,
    ToolMessage,
    ToolResponse,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_RESULT = "function_call_output"


def is_input(items: Any) -> bool:
    """Return whether *items* look like the input of this API."""
    return (
        isinstance(items, list)
        and bool(items)
        and all(isinstance(item, dict) and ("role" in item or "type" in item) for item in items)
    )


def input_messages(items: Sequence[Any], session: str, path: str) -> list[Message]:
    """Return *items* as messages, with ids that begin with *session*; raises `DecodeError`.

    Consecutive items of one answer form one message.
    """
    names, messages, answer = ToolNames(), list[Message](), list[AnswerItem]()

    def add(message: Message) -> None:
        names.add(message)
        messages.append(message)

    def new_id() -> str:
        return f"{session}/{len(messages) + 1}"

    for index, item in enumerate(items):
        if _is_answer(item):
            answer += output_items(_with_parts(item), f"{path}[{index}]")
            continue
        if answer:
            add(message_of(answer, WIRE, new_id()))
            answer = []
        add(_message(item, new_id(), names, f"{path}[{index}]"))
    if answer:
        add(message_of(answer, WIRE, new_id()))
    return messages


def _is_answer(item: Any) -> bool:
    match item:
        case {"role": role}:
            return bool(role == "assistant")
        case {"type": str(kind)}:
            return kind != _RESULT
    return False


def _with_parts(item: Any) -> Any:
    """Return *item* with its text as parts, as in the API's output."""
    match item:
        case {"role": "assistant", "content": str(text)}:
            return {**item, "type": "message", "content": [{"type": "output_text", "text": text}]}
        case {"role": "assistant"}:
            return {**item, "type": "message"}
    return item


def _message(item: Any, message_id: str, names: ToolNames, path: str) -> Message:
    match item:
        case {"role": "system" | "developer" as role, "content": content}:
            texts = [part for part in _parts(content, path) if isinstance(part, TextPart)]
            facts = {"role": role} if role == "developer" else {}
            text = "\n".join([part.text for part in texts])
            return SystemMessage(id=message_id, content=text, metadata=facts)
        case {"role": "user", "content": content}:
            parts = content if isinstance(content, str) else _parts(content, path)
            return UserMessage(id=message_id, content=parts)
        case {"type": "function_call_output", "call_id": str(call_id), "output": output}:
            response = ToolResponse(_parts(output, f"{path}.output"))
            return ToolMessage(
                id=message_id,
                tool_call_id=call_id,
                tool_name=names.of(call_id),
                tool_response=response,
            )
    raise unexpected("an input item", item, path)


def _parts(content: Any, path: str) -> tuple[Part, ...]:
    match content:
        case str():
            return (TextPart(content),)
        case list():
            return tuple([_part(part, f"{path}[{index}]") for index, part in enumerate(content)])
    raise unexpected("text or an array of parts", content, path)


def _part(part: Any, path: str) -> Part:
    match part:
        case {"type": "input_text", "text": str(text)}:
            return TextPart(text)
        case {"type": "input_image", "image_url": str(uri)}:
            return image_from(uri)
        case {"type": "input_file", "file_data": str(uri)} if document := document_from(
            uri, part.get("filename")
        ):
            return document
        case {"type": "input_file", "file_url": str(uri)}:
            return ResourcePart(resource=Resource(uri=uri or UNNAMED))
        case {"type": str(kind)}:
            return foreign_part(kind, part)
    raise unexpected("a content part", part, path)

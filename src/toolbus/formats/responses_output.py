"""The output of OpenAI's responses API as messages of toolbus.

The shapes are those of https://platform.openai.com/docs/api-reference/responses/object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.formats.answers import AnswerItem, message_of
from toolbus.formats.json_input import call_of, unexpected
from toolbus.formats.usage import openai_usage, stop_of
from toolbus.messages.immutable import EMPTY
from toolbus.messages.reasoning import ReasoningPart

if TYPE_CHECKING:
    from toolbus.formats.answers import MakeCall, Wire
    from toolbus.messages.records import AssistantMessage

WIRE: Wire = "openai-responses"


def response_message(
    response: Any, message_id: str, path: str = "$", make_call: MakeCall = call_of
) -> AssistantMessage:
    """Return the output of *response* as a message; raises `DecodeError`.

    A refusal becomes the text, with the stop reason `refusal`.
    """
    match response:
        case {"output": list(output)}:
            pass
        case _:
            raise unexpected("a response with output", response, path)
    items: list[AnswerItem] = []
    for index, item in enumerate(output):
        items += output_items(item, f"{path}.output[{index}]", make_call)
    return message_of(
        items,
        WIRE,
        message_id,
        usage=openai_usage(response.get("usage")),
        stop_reason=_stop(response, output, items),
    )


def output_items(item: Any, path: str, make_call: MakeCall = call_of) -> list[AnswerItem]:
    """Return the items in the output *item*; raises `DecodeError`."""
    match item:
        case {"type": "message", "content": list(content)}:
            phase = item.get("phase")
            facts = {"phase": phase} if phase else EMPTY
            texts = [_text(part, facts, f"{path}.content[{i}]") for i, part in enumerate(content)]
            return [text for text in texts if text.value]
        case {"type": "reasoning"}:
            return _reasoning_items(item, path)
        case {"type": "function_call", "call_id": str(call_id), "name": str(name)}:
            return [AnswerItem("call", make_call(call_id, name, item.get("arguments", "")))]
        case {"type": str(kind)} if kind not in {"message", "function_call"}:
            return [AnswerItem("block", item)]
    raise unexpected("an output item", item, path)


def _text(part: Any, facts: Any, path: str) -> AnswerItem:
    match part:
        case {"type": "output_text", "text": str(text)}:
            annotations = part.get("annotations")
            return AnswerItem(
                "text", text, {**facts, "annotations": annotations} if annotations else facts
            )
        case {"type": "refusal", "refusal": str(text)}:
            return AnswerItem("text", text, facts)
    raise unexpected("a text or a refusal", part, path)


def _reasoning_items(item: Any, path: str) -> list[AnswerItem]:
    """Return the parts of a reasoning item, the encrypted one first, all with its id."""
    item_id, sealed = item.get("id"), item.get("encrypted_content")
    parts: list[ReasoningPart] = []
    texts = [
        *[(text, True) for text in _texts(item.get("summary"), f"{path}.summary")],
        *[(text, False) for text in _texts(item.get("content"), f"{path}.content")],
    ]
    if sealed or not texts:
        parts.append(ReasoningPart(data=sealed or None, item_id=item_id, format=WIRE))
    for text, is_summary in texts:
        parts.append(ReasoningPart(text, item_id=item_id, format=WIRE, is_summary=is_summary))
    return [AnswerItem("reasoning", part) for part in parts]


def _texts(parts: Any, path: str) -> list[str]:
    match parts:
        case None:
            return []
        case list() if all(isinstance(part, dict) for part in parts):
            return [part["text"] for part in parts if isinstance(part.get("text"), str)]
    raise unexpected("an array of texts", parts, path)


def _stop(response: Any, output: list[Any], items: list[AnswerItem]) -> str | None:
    match response:
        case {"incomplete_details": {"reason": str(reason)}}:
            return stop_of(reason)
    contents = [item.get("content") for item in output if item.get("type") == "message"]
    if any(part.get("type") == "refusal" for content in contents for part in content):
        return "refusal"
    if any(item.kind == "call" for item in items):
        return "tool_calls"
    return "stop" if response.get("status") == "completed" else stop_of(response.get("status"))

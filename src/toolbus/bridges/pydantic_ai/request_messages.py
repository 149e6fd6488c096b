"""The messages of a request of Pydantic AI to its model as ours, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
    UserPromptPart,
)

from toolbus.bridges.bridged_call import BridgeError
from toolbus.bridges.pydantic_ai.values import InvalidArguments, call_of, text_of, with_text
from toolbus.events import ModelDelta
from toolbus.messages.immutable import thaw
from toolbus.messages.records import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    ToolResponse,
    UserMessage,
)

if TYPE_CHECKING:
    from toolbus.messages.records import Message


class Origin(NamedTuple):
    """The place of a message of ours: the *part* of the *number*th message, None for an answer."""

    message: Message
    number: int
    part: int | None


def origins_of(history: list[ModelMessage]) -> list[Origin]:
    """Return the messages of *history* as ours, with their places."""
    origins = []
    for number, message in enumerate(history):
        if isinstance(message, ModelResponse):
            origins.append(Origin(message_of(message), number, None))
            continue
        for place, part in enumerate(message.parts):
            record = _record_of(part)
            if record is not None:
                origins.append(Origin(record, number, place))
    return origins


def message_of(response: ModelResponse) -> AssistantMessage:
    """Return the model's *response* as a message."""
    usage = {
        "input_tokens": response.usage.input_tokens,
        "output_tokens": response.usage.output_tokens,
    }
    return AssistantMessage(
        content=response.text or "",
        tool_calls=tuple(
            [
                call_of(call.tool_call_id, call.tool_name, InvalidArguments(call.args))
                for call in response.tool_calls
            ]
        ),
        usage={name: count for name, count in usage.items() if count},
        stop_reason=response.finish_reason,
    )


def response_of_message(message: AssistantMessage) -> ModelResponse:
    """Return a handler's *message* as the response of the model."""
    text = [TextPart(message.content)] if message.content else []
    calls = [ToolCallPart(call.name, thaw(call.arguments), call.id) for call in message.tool_calls]
    return ModelResponse(parts=[*text, *calls])


def changed_history(
    history: list[ModelMessage], origins: list[Origin], messages: tuple[Message, ...]
) -> list[ModelMessage]:
    """Return *history* as *messages* have it: some changed, left out or new."""
    by_id = {origin.message.id: origin for origin in origins}
    changed: list[ModelMessage] = []
    number = -1
    for message in messages:
        origin = by_id.get(message.id)
        if isinstance(message, AssistantMessage):
            changed.append(_response(message, history[origin.number] if origin else None))
            number = -1
            continue
        part, latest = _part(message, history, origin), changed[-1] if changed else None
        if isinstance(latest, ModelRequest) and (not origin or origin.number == number):
            changed[-1] = replace(latest, parts=[*latest.parts, part])
        elif origin:
            number = origin.number
            changed.append(_request(history, origins, number, part))
        else:
            changed.append(ModelRequest(parts=[part]))
    return changed


def _request(history: list[Any], origins: list[Origin], number: int, part: Any) -> ModelRequest:
    """Return the request of *number* with *part*, and with the parts that handlers do not see."""
    seen = {origin.part for origin in origins if origin.number == number}
    parts = [each for i, each in enumerate(history[number].parts) if i not in seen]
    changed: ModelRequest = replace(history[number], parts=[*parts, part])
    return changed


def with_answer(response: ModelResponse, text: str) -> ModelResponse:
    """Return *response* with *text* in place of its own, where that begins."""
    parts: list[Any] = []
    is_there = False
    for part in response.parts:
        if not isinstance(part, TextPart):
            parts.append(part)
        elif not is_there:
            parts.append(replace(part, content=text))
            is_there = True
    return replace(response, parts=parts if is_there else [TextPart(text), *parts])


def _response(message: AssistantMessage, original: Any) -> ModelResponse:
    if original is None:
        return response_of_message(message)
    is_same = message.text == (original.text or "")
    return original if is_same else with_answer(original, message.text)


def _part(message: Message, history: list[ModelMessage], origin: Origin | None) -> Any:
    if origin is None:
        if isinstance(message, ToolMessage):
            raise BridgeError("a request to the model cannot have a new result of a tool")
        kind = SystemPromptPart if isinstance(message, SystemMessage) else UserPromptPart
        return kind(content=message.text)
    part: Any = history[origin.number].parts[origin.part or 0]
    if message.text == origin.message.text:
        return part
    is_prompt = isinstance(part, UserPromptPart)
    return replace(
        part, content=with_text(part.content, message.text) if is_prompt else message.text
    )


def _record_of(part: Any) -> Message | None:
    if isinstance(part, SystemPromptPart):
        return SystemMessage(content=part.content)
    if isinstance(part, UserPromptPart):
        return UserMessage(content=text_of(part.content))
    if isinstance(part, ToolReturnPart):
        return _result_of(part, part.model_response_str(), is_error=part.outcome != "success")
    # pydantic-ai 2.28: a result that asks the model to try again is a part of another type.
    if part.part_kind == "retry-prompt":
        text = part.model_response()
        return (
            _result_of(part, text, is_error=True) if part.tool_name else UserMessage(content=text)
        )
    return None


def _result_of(part: Any, text: str, *, is_error: bool) -> ToolMessage:
    response = ToolResponse.from_text(text, is_error=is_error)
    return ToolMessage(
        tool_call_id=part.tool_call_id, tool_name=part.tool_name, tool_response=response
    )


def delta_of(event: Any, calls: list[int]) -> ModelDelta | None:
    """Return the piece of an answer in *event* of a stream, or None.

    *calls* are the places of the answer's calls so far, which are added here.
    """
    if isinstance(event, PartStartEvent):
        if event.index == 0:
            calls.clear()
        if isinstance(event.part, ToolCallPart):
            calls.append(event.index)
        content: Any = event.part
    elif isinstance(event, PartDeltaEvent):
        content = event.delta
    else:
        return None
    match content:
        case TextPart(content=text) | TextPartDelta(content_delta=text):
            return ModelDelta(kind="text", text=text)
        case ThinkingPart(content=text) | ThinkingPartDelta(content_delta=text):
            return ModelDelta(kind="reasoning", text=text or "")
        case ToolCallPart():
            text, place = content.args_as_json_str(), len(calls) - 1
            name, call_id = content.tool_name, content.tool_call_id
            return ModelDelta(kind="tool_call", text=text, index=place, name=name, id=call_id)
        case ToolCallPartDelta(args_delta=str(text)) if event.index in calls:
            return ModelDelta(kind="tool_call", text=text, index=calls.index(event.index))
    return None

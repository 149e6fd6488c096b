"""Chat messages of OpenAI's API as messages of toolbus.

The shapes are those of https://platform.openai.com/docs/api-reference/chat/create, with the older
`function_call`, and of fine-tuning files, https://platform.openai.com/docs/guides/fine-tuning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.errors import DecodeError
from toolbus.formats.json_input import call_of, unexpected
from toolbus.formats.media import document_from, foreign_part, image_from
from toolbus.formats.usage import openai_usage, stop_of
from toolbus.messages.immutable import EMPTY
from toolbus.messages.reasoning import ReasoningPart
from toolbus.messages.records import (
    AssistantMessage,
    AudioPart,
    Message,
    Part,
    Resource,
    ResourcePart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)

if TYPE_CHECKING:
    from toolbus.formats.answers import MakeCall
    from toolbus.formats.json_input import ToolNames
    from toolbus.messages.records import JsonObject

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Reasoning fields of compatible servers: DeepSeek and llama.cpp, and newer versions of vLLM."""


def message_of(data: Any, message_id: str, names: ToolNames, path: str) -> Message:
    """Return the message *data*, with the id *message_id*; raises `DecodeError`."""
    match data:
        case {"role": "system" | "developer"}:
            return SystemMessage(id=message_id, content=_text(data, path), metadata=_speaker(data))
        case {"role": "user"}:
            return _user(data, message_id, path)
        case {"role": "assistant"}:
            return answer_of(data, message_id, path)
        case {"role": "tool", "tool_call_id": str(call_id)}:
            name = names.of(call_id) or _name_of(data)
            return _result(data, message_id, call_id, name, path)
        case {"role": "function", "name": str(name)}:
            # The older protocol has no ids: a result belongs to the preceding call.
            return _result(data, message_id, legacy_id(name), name, path)
        case {"role": "tool"}:
            raise unexpected("a tool_call_id", data.get("tool_call_id"), f"{path}.tool_call_id")
        case {"role": role}:
            raise DecodeError(f"unknown role {role!r:.60}", f"{path}.role")
    raise unexpected("a message with a role", data, path)


def completion_of(
    completion: Any, message_id: str, path: str, make_call: MakeCall = call_of
) -> AssistantMessage:
    """Return the first choice of a chat completion; raises `DecodeError`.

    A refusal becomes the content, with the stop reason `refusal`.
    """
    match completion:
        case {"choices": [{"message": dict(data)} as choice, *_]}:
            facts = {**choice, "usage": completion.get("usage")}
        case _:
            raise unexpected("a choice with a message", completion, path)
    data = {**data, "role": "assistant"}
    return answer_of(data, message_id, f"{path}.choices[0].message", facts, make_call)


def answer_of(
    data: Any,
    message_id: str,
    path: str,
    facts: JsonObject = EMPTY,
    make_call: MakeCall = call_of,
) -> AssistantMessage:
    """Return an assistant's message; *facts* are usage and finish reason."""
    refusal = data.get("content") is None and isinstance(data.get("refusal"), str)
    return AssistantMessage(
        id=message_id,
        content=_text(data, path),
        tool_calls=_calls(data, path, make_call),
        reasoning=_reasoning(data),
        usage=openai_usage(facts.get("usage")),
        stop_reason="refusal" if refusal else stop_of(facts.get("finish_reason")),
        metadata=_speaker(data),
    )


def _reasoning(data: Any) -> tuple[ReasoningPart, ...]:
    """Return the reasoning of compatible servers, in either field; OpenAI returns none."""
    for field in REASONING_FIELDS:
        if isinstance(text := data.get(field), str) and text:
            return (ReasoningPart(text, format=field),)
    return ()


def legacy_id(name: str) -> str:
    """Return the id of the open call of the function *name* in the older protocol."""
    return f"function:{name}"


def _user(data: Any, message_id: str, path: str) -> UserMessage:
    content = data.get("content")
    if not isinstance(content, str):
        content = _parts(content, f"{path}.content")
    return UserMessage(id=message_id, content=content, metadata=_speaker(data))


def _result(data: Any, message_id: str, call_id: str, name: str, path: str) -> ToolMessage:
    content = _parts(data.get("content"), f"{path}.content")
    return ToolMessage(
        id=message_id,
        tool_call_id=call_id,
        tool_name=name,
        tool_response=ToolResponse(content=content),
    )


def _speaker(data: Any) -> JsonObject:
    """Return metadata of the speaker: the name, and the role `developer`."""
    facts = {"name": data.get("name")} if _name_of(data) else {}
    return {**facts, "role": "developer"} if data["role"] == "developer" else facts


def _name_of(data: Any) -> str:
    name = data.get("name")
    return name if isinstance(name, str) else ""


def _text(data: Any, path: str) -> str:
    """Return the content of a message as text, or its refusal."""
    content, refusal = data.get("content"), data.get("refusal")
    if content is None and isinstance(refusal, str):
        return refusal
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for part in _parts(content, f"{path}.content"):
        match part:
            case TextPart(text=text) | ResourcePart(resource=Resource(text=str(text))):
                texts.append(text)
            case _:
                raise DecodeError("expected text", f"{path}.content")
    return "\n".join(texts)


def _parts(content: Any, path: str) -> tuple[Part, ...]:
    match content:
        case None:
            return ()
        case str():
            return (TextPart(text=content),)
        case list():
            return tuple([_part(item, f"{path}[{index}]") for index, item in enumerate(content)])
    raise unexpected("text or an array of parts", content, path)


def _part(part: Any, path: str) -> Part:
    match part:
        case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            return TextPart(text=text)
        case {"type": "image_url", "image_url": {"url": str(uri)} | str(uri)}:
            return image_from(uri)
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(kind)}}:
            return AudioPart(data=data, mime_type=f"audio/{kind}")
        case {"type": "file", "file": {"file_data": str(uri), **rest}} if document := document_from(
            uri, rest.get("filename")
        ):
            return document
        case {"type": str(kind)}:
            return foreign_part(kind, part)
    raise unexpected("a content part", part, path)


def _calls(data: Any, path: str, make_call: MakeCall) -> tuple[ToolCall, ...]:
    match data.get("tool_calls"), data.get("function_call"):
        case None | [], None:
            return ()
        case list(calls), None:
            return tuple(
                [
                    _call(item, f"{path}.tool_calls[{index}]", make_call)
                    for index, item in enumerate(calls)
                ]
            )
        case None | [], {"name": str(name), "arguments": text}:
            return (make_call(legacy_id(name), name, text),)
        case calls, None:
            raise unexpected("an array", calls, f"{path}.tool_calls")
        case _, call:
            raise unexpected("a call with name and arguments", call, f"{path}.function_call")


def _call(call: Any, path: str, make_call: MakeCall) -> ToolCall:
    match call:
        case {"id": str(call_id), "function": {"name": str(name), **rest}}:
            return make_call(call_id, name, rest.get("arguments", ""))
        case {"id": str(call_id), "custom": {"name": str(name), "input": str(text)}}:
            return ToolCall(id=call_id, name=name, raw=text)
    raise unexpected("a call with id and function", call, path)

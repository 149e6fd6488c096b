"""OpenAI's chat messages as ours.

The shapes are those of https://platform.openai.com/docs/api-reference/chat/create, with the older
`function_call`, and of fine-tuning files, https://platform.openai.com/docs/guides/fine-tuning.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from toolbus.errors import DecodeError
from toolbus.formats.blocks import foreign_part
from toolbus.formats.parsing import parse, unexpected
from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import (
    AssistantMessage,
    AudioPart,
    ImagePart,
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
    encode,
)

if TYPE_CHECKING:
    from toolbus.formats.names import Names
    from toolbus.messages.records import JsonObject

_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,")


def message_of(said: Any, own: str, names: Names, path: str) -> Message:
    """Return the message *said*, with the id *own*; raises `DecodeError`."""
    match said:
        case {"role": "system" | "developer"}:
            return SystemMessage(id=own, content=_text(said, path), metadata=_who(said))
        case {"role": "user"}:
            return _user(said, own, path)
        case {"role": "assistant"}:
            return answer_of(said, own, path)
        case {"role": "tool", "tool_call_id": str(call_id)}:
            name = names.of(call_id) or _named(said)
            return _result(said, own, call_id, name, path)
        case {"role": "function", "name": str(name)}:
            # The older protocol has no ids: a result belongs to the call before it.
            return _result(said, own, legacy_id(name), name, path)
        case {"role": "tool"}:
            raise unexpected("a tool_call_id", said.get("tool_call_id"), f"{path}.tool_call_id")
        case {"role": role}:
            raise DecodeError(f"unknown role {role!r:.60}", f"{path}.role")
    raise unexpected("a message with a role", said, path)


def answer_of(said: Any, own: str, path: str, facts: JsonObject = EMPTY) -> AssistantMessage:
    """Return an assistant's message; *facts* are usage and stop reason."""
    reasoning = said.get("reasoning_content", said.get("reasoning"))
    usage, stop = facts.get("usage"), facts.get("finish_reason")
    return AssistantMessage(
        id=own,
        content=_text(said, path),
        tool_calls=_calls(said, path),
        reasoning=reasoning if isinstance(reasoning, str) else None,
        usage=usage if isinstance(usage, dict) else EMPTY,
        stop_reason=stop if isinstance(stop, str) else None,
        metadata=_who(said),
    )


def legacy_id(name: str) -> str:
    """Return the id of the open call of the function *name* in the older protocol."""
    return f"function:{name}"


def _user(said: Any, own: str, path: str) -> UserMessage:
    content = said.get("content")
    if not isinstance(content, str):
        content = _parts(content, f"{path}.content")
    return UserMessage(id=own, content=content, metadata=_who(said))


def _result(said: Any, own: str, call_id: str, name: str, path: str) -> ToolMessage:
    content = _parts(said.get("content"), f"{path}.content")
    return ToolMessage(
        id=own, tool_call_id=call_id, tool_name=name, tool_response=ToolResponse(content=content)
    )


def _who(said: Any) -> JsonObject:
    """Return what else is said of the speaker: a name, and a role that has no record here."""
    facts = {"name": said.get("name")} if _named(said) else {}
    return {**facts, "role": "developer"} if said["role"] == "developer" else facts


def _named(said: Any) -> str:
    name = said.get("name")
    return name if isinstance(name, str) else ""


def _text(said: Any, path: str) -> str:
    """Return the text of a message whose record holds text; a refusal is what it says."""
    content, refusal = said.get("content"), said.get("refusal")
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
            return tuple([_part(one, f"{path}[{at}]") for at, one in enumerate(content)])
    raise unexpected("text or an array of parts", content, path)


def _part(part: Any, path: str) -> Part:
    match part:
        case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            return TextPart(text=text)
        case {"type": "image_url", "image_url": {"url": str(uri)} | str(uri)}:
            if found := _DATA_URI.match(uri):
                return ImagePart(data=uri[found.end() :], mime_type=found[1])
            return ResourcePart(resource=Resource(uri=uri))
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(kind)}}:
            return AudioPart(data=data, mime_type=f"audio/{kind}")
        case {"type": str(kind)}:
            return foreign_part(kind, part)
    raise unexpected("a content part", part, path)


def _calls(said: Any, path: str) -> tuple[ToolCall, ...]:
    match said.get("tool_calls"), said.get("function_call"):
        case None | [], None:
            return ()
        case list(calls), None:
            return tuple([_call(one, f"{path}.tool_calls[{at}]") for at, one in enumerate(calls)])
        case None | [], {"name": str(name), "arguments": text}:
            return (_with_arguments(legacy_id(name), name, text),)
        case calls, None:
            raise unexpected("an array", calls, f"{path}.tool_calls")
        case _, call:
            raise unexpected("a call with name and arguments", call, f"{path}.function_call")


def _call(call: Any, path: str) -> ToolCall:
    match call:
        case {"id": str(own), "function": {"name": str(name), **rest}}:
            return _with_arguments(own, name, rest.get("arguments", ""))
        case {"id": str(own), "custom": {"name": str(name), "input": str(text)}}:
            return ToolCall(id=own, name=name, raw=text)
    raise unexpected("a call with id and function", call, path)


def _with_arguments(own: str, name: str, said: Any) -> ToolCall:
    """Return a call; what is no JSON object, or cannot be one of ours, is kept as its text."""
    text = said if isinstance(said, str) else encode(said).decode()
    # Models leave the arguments of a function without parameters out.
    if not text.strip():
        return ToolCall(id=own, name=name)
    try:
        arguments = parse(text) if isinstance(said, str) else said
        if isinstance(arguments, dict):
            return ToolCall(id=own, name=name, arguments=arguments)
    except ValueError:
        pass
    return ToolCall(id=own, name=name, raw=text)

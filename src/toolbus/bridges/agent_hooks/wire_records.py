"""Our records in the wire form of the contract, and back; and the texts in a host's messages."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from toolbus.bridges.agent_hooks.contract import ContractError
from toolbus.events.catalogue import ToolSpec
from toolbus.messages.codec import changed, encode
from toolbus.messages.immutable import thaw
from toolbus.messages.records import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toolbus.messages.records import Message, Part

_EMPTY = ToolResponse()
_RAW_PARTS = {"result", "items", "exception"}
"""The parts of a result of agent-framework that may hold the original text."""


def wire_prompt(prompt: str | tuple[Part, ...]) -> Any:
    """Return *prompt* for `input`: text, or a list of its parts."""
    return prompt if isinstance(prompt, str) else msgspec.to_builtins(prompt)


def read_text(payload: Any) -> str:
    """Return the text of *payload*, a replaced prompt or output; raises `ContractError`."""
    match payload:
        case {"content": str(content)}:
            return content
    raise ContractError("transform_invalid", "expected text")


def wire_tools(specs: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Return *specs* for `pre_model_call`."""
    return [
        {"name": spec.name, "description": spec.description, "schema": thaw(spec.input_schema)}
        for spec in specs
    ]


def read_spec(wire: Mapping[str, Any]) -> ToolSpec:
    """Return the spec of a tool as a host declares it; hosts may leave out its schema."""
    schema = wire.get("schema")
    return ToolSpec(
        name=wire["name"],
        description=wire.get("description") or "",
        input_schema=schema if isinstance(schema, dict) else {"type": "object"},
    )


def wire_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return *messages* for `pre_model_call`."""
    return [_wire_message(message) for message in messages]


def _wire_message(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role, "content": message.text}
    match message:
        case UserMessage():
            wire["content"] = wire_prompt(message.content)
        case ToolMessage():
            wire |= {"tool_call_id": message.tool_call_id, "name": message.tool_name}
        case AssistantMessage(tool_calls=calls) if calls:
            wire["tool_calls"] = [wire_call(call) for call in calls]
    return wire


def read_messages(after: Any, before: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages of *after*, a replaced target; unchanged messages are the same objects.

    Raises `ContractError` for an impossible message.
    """
    if not isinstance(after, list):
        raise ContractError("transform_invalid", "expected a list")
    known: defaultdict[bytes, list[Message]] = defaultdict(list)
    for message in before:
        known[encode(_wire_message(message))].append(message)
    messages: list[Message] = []
    for place, wire in enumerate(after):
        original = before[place] if len(after) == len(before) else None
        same = known[encode(wire)]
        messages.append(same.pop(0) if same else _reworded(original, wire))
    return tuple(messages)


def _reworded(message: Message | None, wire: Any) -> Message:
    """Return *message* with the text of *wire*, or a new message."""
    match wire:
        case {"role": str(role), "content": str(text)}:
            if message is not None and message.role == role:
                return message.with_text(text)
            if role in {"user", "external"}:
                return UserMessage(content=text)
            if role == "system":
                return SystemMessage(content=text)
            if role == "assistant":
                return AssistantMessage(content=text)
    raise ContractError("transform_invalid", "a message that cannot be sent")


def wire_call(call: ToolCall) -> dict[str, Any]:
    """Return *call* with its arguments, as the model wrote them if they are no valid JSON here."""
    arguments: Any = thaw(call.arguments)
    if call.raw is not None:
        # Among them are integers beyond 64 bits, which our records refuse.
        try:
            arguments = json.loads(call.raw)
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            arguments = {"raw_arguments": call.raw}
    return {"id": call.id, "name": call.name, "args": arguments}


def wire_answer(message: AssistantMessage) -> dict[str, Any]:
    """Return *message* for `post_model_call`."""
    calls = [wire_call(call) for call in message.tool_calls]
    default = "tool_calls" if calls else "stop"
    wire = {
        "content": message.content or (None if calls else ""),
        "tool_calls": calls,
        "finish_reason": message.stop_reason or default,
    }
    return wire | ({"reasoning": message.reasoning_text} if message.reasoning else {})


def read_answer(after: Any, message: AssistantMessage) -> AssistantMessage:
    """Return *message* as the replaced target *after* has it; raises `ContractError`."""
    before = wire_answer(message)
    match after:
        case {"content": str() | None as content, "tool_calls": list(calls)}:
            pass
        case _:
            raise ContractError("transform_invalid", "an answer that is none")
    known = {call.id: call for call in message.tool_calls}
    if changed(before["tool_calls"], calls):
        read = tuple([read_call(wire, known.get(id_of(wire))) for wire in calls])
        message = msgspec.structs.replace(message, tool_calls=read)
    return message if content == before["content"] else message.with_text(content or "")


def read_call(wire: Any, call: ToolCall | None = None) -> ToolCall:
    """Return the call in *wire*, which is *call* if nothing differs; raises `ContractError`."""
    match wire:
        case {"name": str(name), "args": dict(arguments)}:
            if call is not None and not changed(wire_call(call), wire):
                return call
            if call is not None and call.name == name:
                return call.with_arguments(arguments)
            call_id = id_of(wire)
            identity = {"id": call_id} if call_id else {}
            return ToolCall(name=name, arguments=arguments, **identity)
    raise ContractError("transform_invalid", "a call without a name or arguments")


def wire_value(response: ToolResponse) -> Any:
    """Return the value of *response* for `post_tool_call`."""
    return response.text if response.structured is None else thaw(response.structured)


def read_value(value: Any, response: ToolResponse = _EMPTY) -> ToolResponse:
    """Return *response* with *value* in place of its own."""
    if isinstance(value, str):
        return response.with_text(value)
    if value is None:
        return response.with_text("")
    parts = response.with_text(encode(value).decode())
    return msgspec.structs.replace(parts, structured=value)


def read_message(wire: Any) -> Message:
    """Return the message in *wire*, of a host's request, for handlers to read."""
    role, text = str(wire["role"]), result_text(wire["content"])
    if role == "tool":
        call_id, _ = next(results_in([wire]), ("", ""))
        return ToolMessage(content=text, tool_call_id=call_id, tool_name=str(wire.get("name", "")))
    if role == "assistant":
        return AssistantMessage(content=text)
    return SystemMessage(content=text) if role == "system" else UserMessage(content=text)


def id_of(wire: Any) -> str:
    """Return the id of the call in *wire*, which may be empty."""
    return str(wire.get("id", "")) if isinstance(wire, dict) else ""


# --- the texts in a host's messages -------------------------------------------------------------


def result_text(value: Any) -> str:
    """Return the text of *value*, any JSON value, as a model would read it."""
    return value if isinstance(value, str) else encode(value).decode()


def results_in(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the results of calls in *value*, messages of a host: the id of the call, the text."""
    match value:
        case list():
            for item in value:
                yield from results_in(item)
        case {"tool_call_id": str(call_id), "content": content}:
            yield call_id, result_text(content)
        case {"type": "function_result", "call_id": str(call_id)}:
            yield call_id, result_text(value.get("result"))
        case {"content": list(content)}:
            yield from results_in(content)


def with_results(value: Any, texts: Mapping[tuple[str, str], str]) -> Any:
    """Return *value*, messages of a host, with *texts* for results by the call's id and text."""
    match value:
        case list():
            return [with_results(item, texts) for item in value]
        case {"tool_call_id": str(call_id), "content": content}:
            text = texts.get((call_id, result_text(content)))
            return value if text is None else {**value, "content": text}
        case {"type": "function_result", "call_id": str(call_id)}:
            text = texts.get((call_id, result_text(value.get("result"))))
            others = {name: part for name, part in value.items() if name not in _RAW_PARTS}
            return value if text is None else {**others, "result": text}
        case {"content": list(content)}:
            return {**value, "content": with_results(content, texts)}
    return value


def text_place(content: Any, role: str) -> tuple[str, str]:
    """Return the path and the text of the last message of *role* in *content*, one or many.

    The path is "" for content in other forms: it can be judged, and not replaced.
    """
    if isinstance(content, str):
        return "$target.content", content
    for place, wire in reversed(list(enumerate(content if isinstance(content, list) else ()))):
        match wire:
            case {"role": str(matched), "content": str(text)} if matched == role:
                return f"$target.content[{place}].content", text
    return "", result_text(content)

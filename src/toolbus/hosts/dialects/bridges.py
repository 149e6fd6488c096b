"""Hosts whose hooks are a program in their process: our bridge there starts the hook command.

The bridge is a file beside this one; the installation writes a copy that names the command. What
it sends for an event is an object with `session_id` and `folder`, of a call or result also
`call_id`, `tool`, `arguments`, `result` (a text or content blocks) and `is_error`, of a prompt or
an answer `text`; `can_ask` tells whether somebody sits at the screen. What it takes is an object:
`{}` lets pass, `block` stops, `arguments`, `result` and `context` are laid over, `ask` is asked.
Anything else, nothing too, stops.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar

from toolbus.errors import DecodeError
from toolbus.hosts.dialects.frames import BLOCKS, are_blocks, parts_in, put_back
from toolbus.hosts.dialects.hook_events import Ability, Delivery, HookAnswer, HookEvent, HookKind
from toolbus.hosts.dialects.host_json import (
    context_text,
    json_answer,
    object_at,
    optional_text,
    refusal,
    replaces,
    text_at,
)
from toolbus.messages.records import ToolCall, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolbus.hosts.dialects.hook_events import HookDecision

SETTINGS_MARK = "const SETTINGS = null"
"""The line of a bridge where the installation writes its settings."""

BRIDGE_LIMIT = 30.0
"""Seconds after which a bridge takes the hook command for dead."""


def bridge_source(file: str, command: Sequence[str], limit: float = BRIDGE_LIMIT) -> str:
    """Return the text of the bridge *file* that starts *command* with an event's name behind it.

    *limit* is in seconds. The command is an argument vector: no shell reads it.
    """
    text = files("toolbus.hosts.install").joinpath(file).read_text("utf-8")
    settings = json.dumps({"command": [*command], "limit_ms": int(limit * 1000)})
    return text.replace(SETTINGS_MARK, f"const SETTINGS = {settings}", 1)


class BridgeDialect:
    """What our bridges say and take, whatever they stand in."""

    name: ClassVar[str]
    title: ClassVar[str]
    abilities: ClassVar[Mapping[Ability, Delivery]]
    kinds: ClassVar[Mapping[str, HookKind]]
    """What each event of the host is about."""

    def decode(self, name: str, payload: Mapping[str, Any]) -> HookEvent:
        """Return the event *name* that *payload* tells of; raises `DecodeError`."""
        kind = self.kinds.get(name, "other")
        return HookEvent(
            host=self.name,
            name=name,
            kind=kind,
            session_id=text_at(payload, "session_id"),
            folder=optional_text(payload, "folder"),
            call=_call(payload) if kind in {"call", "result"} else None,
            response=_response(payload) if kind == "result" else None,
            text=optional_text(payload, "text"),
            payload=payload,
        )

    def encode(self, event: HookEvent, decision: HookDecision) -> HookAnswer:
        """Return how the bridge is told of *decision*."""
        match event.kind:
            case "call":
                return self._call_answer(event, decision)
            case "result":
                return _result_answer(event, decision)
            case "prompt":
                return _prompt_answer(decision)
        return json_answer({}, *_without_context(decision))

    def block(self, name: str, payload: Any, reason: str) -> HookAnswer:  # noqa: ARG002
        """Return what stops the event *name*; the bridge knows the host's form of it."""
        return json_answer({"block": reason})

    def _call_answer(self, event: HookEvent, decision: HookDecision) -> HookAnswer:
        undelivered = _without_context(decision)
        asks = self.abilities["ask"] == "yes" and event.payload.get("can_ask") is True
        question = decision.asked if decision.denied is None else None
        if question is not None and not asks:
            return json_answer({"block": question}, *undelivered, "ask")
        if question is None and (reason := refusal(event, decision)) is not None:
            return json_answer({"block": reason}, *undelivered)
        answer: dict[str, Any] = {}
        if decision.call is not None:
            answer["arguments"] = decision.call.arguments
        if question is not None:
            answer["ask"] = question
        return json_answer(answer, *undelivered)


def _call(payload: Mapping[str, Any]) -> ToolCall:
    return ToolCall(
        id=text_at(payload, "call_id"),
        name=text_at(payload, "tool"),
        arguments=object_at(payload, "arguments"),
    )


def _response(payload: Mapping[str, Any]) -> ToolResponse:
    result = payload.get("result")
    if not isinstance(result, str) and not are_blocks(result):
        raise DecodeError("expected a text or content blocks", "$.result")
    return ToolResponse(content=parts_in(result, BLOCKS), is_error=payload.get("is_error") is True)


def _result_answer(event: HookEvent, decision: HookDecision) -> HookAnswer:
    if decision.denied is not None:
        return json_answer({"block": decision.denied})
    context = context_text(decision)
    changed = replaces(event, decision)
    result = event.payload["result"]
    if event.response is not None and decision.response is not None and changed:
        result = put_back(result, BLOCKS, event.response, decision.response)
    if not (changed or context):
        return json_answer({})
    return json_answer({"result": _with_context(result, context)})


def _with_context(result: Any, context: str) -> Any:
    if not context:
        return result
    if isinstance(result, str):
        return f"{result}\n\n{context}" if result else context
    return [*result, {"type": "text", "text": context}]


def _prompt_answer(decision: HookDecision) -> HookAnswer:
    reason = decision.asked if decision.denied is None else decision.denied
    if reason is not None:
        return json_answer({"block": reason}, *_without_context(decision))
    context = context_text(decision)
    return json_answer({"context": context} if context else {})


def _without_context(decision: HookDecision) -> tuple[Ability, ...]:
    return ("add_context",) if decision.context else ()

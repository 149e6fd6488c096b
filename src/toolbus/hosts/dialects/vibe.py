"""Mistral Vibe: `hooks.toml`, as version 3.0.2 runs it.

Sources: the skill "vibe" and the module `_foreign_hooks` of the harness, both in the wheel
mistral-vibe 3.0.2 and what it depends on, and runs of that version. Only with `strict = true` does
it stop where a hook failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from toolbus.hosts.dialects.frames import ResultFrame, parts_in
from toolbus.hosts.dialects.hook_events import Ability, Delivery, HookAnswer, HookEvent, HookKind
from toolbus.hosts.dialects.host_json import (
    call_shortfall,
    context_text,
    json_answer,
    object_at,
    optional_text,
    refusal,
    replaces,
    text_at,
)
from toolbus.messages.records import TextPart, ToolCall, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import HookDecision
    from toolbus.messages.records import Part

_KINDS: Mapping[str, HookKind] = {
    "pre_tool": "call",
    "post_tool": "result",
    "post_agent": "answer",
}

_MAX_OUTPUT = 1_000_000
"""Bytes of an answer that Vibe reads: of a longer one it reads the beginning, which is no JSON."""

_TOO_LONG = "toolbus withheld this result: with its changes it is too long for Vibe"
_EMPTY = "(toolbus: nothing remains of this result)"
"""For an empty reason Vibe would put words of its own."""


class VibeDialect:
    """How Mistral Vibe says its events and is answered: snake_case, one object, always exit 0.

    A sub-agent's session is told as a part of its parent's.
    """

    name: ClassVar = "vibe"
    title: ClassVar = "Mistral Vibe"
    abilities: ClassVar[Mapping[Ability, Delivery]] = {
        "observe": "yes",
        "rewrite_arguments": "yes",
        "fill_arguments": "yes",
        "deny": "yes",
        "ask": "no",
        "replace_result": "yes",
        "replace_failure": "yes",
        "add_context": "yes",
        "block_prompt": "no",
    }

    def decode(self, name: str, payload: Mapping[str, Any]) -> HookEvent:
        """Return the event *name* that *payload* tells of; raises `DecodeError`."""
        kind = _KINDS.get(name, "other")
        session_id = text_at(payload, "session_id")
        parent = optional_text(payload, "parent_session_id")
        return HookEvent(
            host=self.name,
            name=name,
            kind=kind,
            session_id=parent or session_id,
            folder=optional_text(payload, "cwd"),
            agent=session_id if parent else "",
            call=_call(payload) if kind in {"call", "result"} else None,
            response=_response(payload) if kind == "result" else None,
            payload=payload,
        )

    def encode(self, event: HookEvent, decision: HookDecision) -> HookAnswer:
        """Return how Vibe is told of *decision*."""
        if event.kind == "result":
            return _result_answer(event, decision)
        undelivered = call_shortfall(decision)
        if event.kind != "call":
            return HookAnswer(undelivered=undelivered)
        if (reason := refusal(event, decision)) is not None:
            return json_answer({"decision": "deny", "reason": reason or _EMPTY}, *undelivered)
        if decision.call is None:
            return HookAnswer(undelivered=undelivered)
        output = {"tool_input": decision.call.arguments}
        return json_answer({"hook_specific_output": output}, *undelivered)

    def block(self, name: str, payload: Any, reason: str) -> HookAnswer:  # noqa: ARG002
        """Return what stops the event *name*; an answer that was given cannot be stopped."""
        if name == "post_agent":
            return json_answer({"system_message": reason})
        return json_answer({"decision": "deny", "reason": reason or _EMPTY})


def _call(payload: Mapping[str, Any]) -> ToolCall:
    return ToolCall(
        id=text_at(payload, "tool_call_id"),
        name=text_at(payload, "tool_name"),
        arguments=object_at(payload, "tool_input"),
    )


def _response(payload: Mapping[str, Any]) -> ToolResponse:
    """Return what the model reads, and behind it what only its programs read."""
    text = optional_text(payload, "tool_output_text")
    structured = parts_in(payload.get("tool_output"), ResultFrame())
    hidden = [part for part in structured if not _stands_in(part, text)]
    failed = payload.get("tool_status") != "success"
    return ToolResponse(content=(TextPart(text=text), *hidden), is_error=failed)


def _stands_in(part: Part, text: str) -> bool:
    return isinstance(part, TextPart) and part.text in text


def _result_answer(event: HookEvent, decision: HookDecision) -> HookAnswer:
    answer: dict[str, Any] = {}
    if decision.denied is not None:
        answer = {"decision": "deny", "reason": decision.denied or _EMPTY}
    elif decision.response is not None and replaces(event, decision):
        text = _text_of(event, decision.response)
        answer = {"decision": "deny", "reason": text or _EMPTY}
    if context := context_text(decision):
        answer["hook_specific_output"] = {"additional_context": context}
    if not answer:
        return HookAnswer()
    made = json_answer(answer)
    if len(made.stdout) <= _MAX_OUTPUT:
        return made
    return json_answer({"decision": "deny", "reason": _TOO_LONG})


def _text_of(event: HookEvent, response: ToolResponse) -> str:
    """Return what is to stand in the place of the text, without what only programs read."""
    match response.content:
        case (TextPart(text=text), *rest) if event.response is not None:
            same_number = len(rest) + 1 == len(event.response.content)
            return text if same_number else response.text
    return response.text

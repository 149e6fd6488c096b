"""Gemini CLI: hooks of its settings, as version 0.61.0 runs them.

Sources: its hooks reference (docs/hooks/reference.md) and its scheduler, both in the package
@google/gemini-cli 0.61.0, and runs of that version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from toolbus.errors import DecodeError
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
from toolbus.messages.immutable import mend_text
from toolbus.messages.records import TextPart, ToolCall, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import HookDecision

_KINDS: Mapping[str, HookKind] = {
    "BeforeTool": "call",
    "AfterTool": "result",
    "BeforeAgent": "prompt",
    "AfterAgent": "answer",
    "SessionStart": "session_start",
    "SessionEnd": "session_end",
}

_CLOSED_BY_DENIAL = frozenset(
    {"BeforeTool", "AfterTool", "BeforeAgent", "BeforeModel", "AfterModel"}
)
"""Events that `decision: deny` stops. Not AfterAgent: there it demands another answer."""

_PARTS = ResultFrame(
    names=frozenset(
        {
            *("text", "inlineData", "fileData", "mimeType", "data", "fileUri", "displayName"),
            *("functionResponse", "id", "name", "response", "output", "error", "content", "parts"),
        }
    )
)
"""`llmContent`: a text, or a part of the Gemini API, or a list of both."""

_EMPTY = "(toolbus: nothing remains of this result)"
"""An empty reason would be shown as "No reason provided"."""


class GeminiCliDialect:
    """How Gemini CLI says its events and is answered.

    It gives calls no ids, so those of its events are empty. A question (`decision: ask`) is in its
    code but not in its reference, and without a terminal it waits for ever: it is not used.
    """

    name: ClassVar = "gemini-cli"
    title: ClassVar = "Gemini CLI"
    abilities: ClassVar[Mapping[Ability, Delivery]] = {
        "observe": "yes",
        "rewrite_arguments": "yes",
        "fill_arguments": "no",  # Its model reads them when a session is resumed.
        "deny": "yes",
        "ask": "no",
        "replace_result": "yes",
        "replace_failure": "yes",
        "add_context": "yes",
        "block_prompt": "yes",
    }

    def decode(self, name: str, payload: Mapping[str, Any]) -> HookEvent:
        """Return the event *name* that *payload* tells of; raises `DecodeError`."""
        kind = _KINDS.get(name, "other")
        return HookEvent(
            host=self.name,
            name=name,
            kind=kind,
            session_id=text_at(payload, "session_id"),
            folder=optional_text(payload, "cwd"),
            call=_call(payload) if kind in {"call", "result"} else None,
            response=_response(payload) if kind == "result" else None,
            text=_text(kind, payload),
            payload=payload,
        )

    def encode(self, event: HookEvent, decision: HookDecision) -> HookAnswer:
        """Return how Gemini CLI is told of *decision*."""
        match event.kind:
            case "call":
                return _call_answer(event, decision)
            case "result":
                return _result_answer(event, decision)
            case "prompt" if decision.denied is not None or decision.asked is not None:
                return _denial(decision.denied or decision.asked or "")
            case "prompt" | "session_start":
                return _context_answer(event, decision)
        return HookAnswer(undelivered=("add_context",) if decision.context else ())

    def block(self, name: str, payload: Any, reason: str) -> HookAnswer:  # noqa: ARG002
        """Return what stops the event *name*; an end, a start and a notice cannot be stopped."""
        if name in _CLOSED_BY_DENIAL:
            return _denial(reason)
        return json_answer({"systemMessage": reason})


def _call(payload: Mapping[str, Any]) -> ToolCall:
    arguments = object_at(payload, "tool_input")
    return ToolCall(id="", name=text_at(payload, "tool_name"), arguments=arguments)


def _response(payload: Mapping[str, Any]) -> ToolResponse:
    """Return what the model reads: the message of an error if there is one, else `llmContent`."""
    response = object_at(payload, "tool_response")
    match response.get("error"):
        case None:
            return ToolResponse(content=parts_in(response.get("llmContent"), _PARTS))
        case {"message": str(message), **rest}:
            kind = str(rest.get("type") or "") or None
            parts = (TextPart(text=mend_text(message)),) if message else ()
            return ToolResponse(content=parts, is_error=True, error_type=kind)
    raise DecodeError("expected an error with a message", "$.tool_response.error")


def _text(kind: HookKind, payload: Mapping[str, Any]) -> str:
    match kind:
        case "prompt":
            return optional_text(payload, "prompt")
        case "answer":
            return optional_text(payload, "prompt_response")
    return ""


def _call_answer(event: HookEvent, decision: HookDecision) -> HookAnswer:
    undelivered = call_shortfall(decision)
    if (reason := refusal(event, decision)) is not None:
        return json_answer({"decision": "deny", "reason": reason or _EMPTY}, *undelivered)
    if decision.call is None:
        return HookAnswer(undelivered=undelivered)
    # The reference says that they are merged; the scheduler of 0.61.0 takes them for the whole.
    output = {"hookEventName": event.name, "tool_input": decision.call.arguments}
    return json_answer({"hookSpecificOutput": output}, *undelivered)


def _result_answer(event: HookEvent, decision: HookDecision) -> HookAnswer:
    context = context_text(decision)
    if decision.denied is not None:
        text = decision.denied
    elif decision.response is not None and replaces(event, decision):
        text = decision.response.text
    else:
        return _context_answer(event, decision)
    # The reason becomes the whole result, as `{"error": REASON}`, and context beside it is lost.
    return _denial(f"{text}\n\n{context}" if context else text)


def _context_answer(event: HookEvent, decision: HookDecision) -> HookAnswer:
    answer: dict[str, Any] = {"systemMessage": decision.notice} if decision.notice else {}
    if context := context_text(decision):
        specific = {"hookEventName": event.name, "additionalContext": context}
        answer["hookSpecificOutput"] = specific
    return json_answer(answer) if answer else HookAnswer()


def _denial(reason: str) -> HookAnswer:
    return json_answer({"decision": "deny", "reason": reason if reason.strip() else _EMPTY})

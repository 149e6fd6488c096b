"""Claude Code: command hooks of its settings, as version 2.1.329 runs them.

Sources: the types in the packages @anthropic-ai/claude-code 2.1.329 (sdk-tools.d.ts) and
@anthropic-ai/claude-agent-sdk 0.3.329 (sdk.d.ts), its hooks reference
(code.claude.com/docs/en/hooks), and runs of that version.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from toolbus.errors import DecodeError
from toolbus.hosts.dialects import dialect
from toolbus.hosts.dialects.claude_results import for_any_tool, frame_of, replaced
from toolbus.hosts.dialects.frames import parts_in, put_in_place, whole_text
from toolbus.hosts.dialects.hook_events import Ability, Delivery, HookAnswer, HookEvent, HookKind
from toolbus.hosts.dialects.host_json import (
    SKIPPED,
    context_text,
    json_answer,
    object_at,
    optional_text,
    refusal,
    replaces,
    text_at,
)
from toolbus.messages.immutable import thaw
from toolbus.messages.records import TextPart, ToolCall, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import HookDecision

_KINDS: Mapping[str, HookKind] = {
    "PreToolUse": "call",
    "PostToolUse": "result",
    "PostToolUseFailure": "result",
    "UserPromptSubmit": "prompt",
    "Stop": "answer",
    "SubagentStop": "answer",
    "SessionStart": "session_start",
    "SessionEnd": "session_end",
}

_TAKE_CONTEXT = frozenset(
    {
        *("PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch"),
        *("UserPromptSubmit", "SessionStart", "SubagentStart"),
    }
)
"""Events that take context. Not Stop and SubagentStop: there it makes the model go on."""

_CURSOR_CALLS = "toolbus.hosts.dialects.cursor_calls"
"""Imported when Cursor calls: a hook of Claude Code has no time for it."""

_NO_REASON = "toolbus: no reason was given"


class ClaudeCodeDialect:
    """How Claude Code says its events and is answered.

    What a failed tool said cannot be replaced, and `continue: false` does not stop it there. After
    a tool that succeeded it does: the run ends before the model reads anything.
    """

    name: ClassVar = "claude-code"
    title: ClassVar = "Claude Code"
    abilities: ClassVar[Mapping[Ability, Delivery]] = {
        "observe": "yes",
        "rewrite_arguments": "yes",
        "fill_arguments": "yes",
        "deny": "yes",
        "ask": "yes",
        "replace_result": "yes",
        "replace_failure": "no",
        "add_context": "yes",
        "block_prompt": "yes",
    }

    def decode(self, name: str, payload: Mapping[str, Any]) -> HookEvent:
        """Return the event *name* that *payload* tells of; raises `DecodeError`.

        If Cursor sent it, it is an event of Cursor.
        """
        if _is_from_cursor(payload):
            event: HookEvent = import_module(_CURSOR_CALLS).decode_from_cursor(name, payload)
            return event
        kind = _KINDS.get(name, "other")
        return HookEvent(
            host=self.name,
            name=name,
            kind=kind,
            session_id=text_at(payload, "session_id"),
            folder=optional_text(payload, "cwd"),
            agent=optional_text(payload, "agent_id"),
            call=_call(payload) if kind in {"call", "result"} else None,
            response=_response(name, payload) if kind == "result" else None,
            text=_text(kind, payload),
            payload=payload,
        )

    def encode(self, event: HookEvent, decision: HookDecision) -> HookAnswer:
        """Return how Claude Code is told of *decision*."""
        if event.host != self.name:
            return dialect(event.host).encode(event, decision)
        match event.kind:
            case "call":
                return _call_answer(event, decision)
            case "result" if event.name == "PostToolUse":
                return _result_answer(event, decision)
            case "result":
                return _failure_answer(event, decision)
            case "prompt" if decision.denied is not None or decision.asked is not None:
                reason = decision.denied or decision.asked or _NO_REASON
                undelivered: tuple[Ability, ...] = ("add_context",) if decision.context else ()
                return json_answer({"decision": "block", "reason": reason}, *undelivered)
        return _answer(event, {}, decision)

    def block(self, name: str, payload: Any, reason: str) -> HookAnswer:
        """Return what stops the event *name*; an end, a start and a failure cannot be stopped."""
        if _is_from_cursor(payload):
            block: HookAnswer = import_module(_CURSOR_CALLS).block_for_cursor(name, payload, reason)
            return block
        match _KINDS.get(name, "other"):
            case "call":
                denial = {"permissionDecision": "deny", "permissionDecisionReason": reason}
                return json_answer({"hookSpecificOutput": {"hookEventName": name, **denial}})
            case "result" if name == "PostToolUse":
                tool = payload.get("tool_name") if isinstance(payload, dict) else None
                result = payload.get("tool_response") if isinstance(tool, str) else None
                return _replacement(name, tool if isinstance(tool, str) else None, result, reason)
            case "prompt":
                return json_answer({"decision": "block", "reason": reason})
            case "result":
                return json_answer({"systemMessage": reason}, "replace_failure")
        return json_answer({"systemMessage": reason})


def _is_from_cursor(payload: Any) -> bool:
    """Tell whether Cursor sent *payload*: it also runs hooks for Claude Code."""
    return isinstance(payload, dict) and isinstance(payload.get("cursor_version"), str)


def _call(payload: Mapping[str, Any]) -> ToolCall:
    return ToolCall(
        id=text_at(payload, "tool_use_id"),
        name=text_at(payload, "tool_name"),
        arguments=object_at(payload, "tool_input"),
    )


def _response(name: str, payload: Mapping[str, Any]) -> ToolResponse:
    if name == "PostToolUseFailure":
        error = optional_text(payload, "error")
        return ToolResponse(content=(TextPart(text=error),) if error else (), is_error=True)
    if "tool_response" not in payload:
        raise DecodeError("expected the result of the tool, got nothing", "$.tool_response")
    frame = frame_of(text_at(payload, "tool_name"))
    return ToolResponse(content=parts_in(payload["tool_response"], frame))


def _text(kind: HookKind, payload: Mapping[str, Any]) -> str:
    match kind:
        case "prompt":
            return optional_text(payload, "prompt")
        case "answer":
            return optional_text(payload, "last_assistant_message")
    return ""


def _call_answer(event: HookEvent, decision: HookDecision) -> HookAnswer:
    output: dict[str, Any] = {}
    denied = refusal(event, replace(decision, asked=None))
    if denied is None and decision.call is not None:
        # The whole of them; without a verdict the host's own permissions stay in force.
        output["updatedInput"] = thaw(decision.call.arguments)
    reason = decision.asked if denied is None else denied
    if reason is not None:
        output["permissionDecision"] = "ask" if denied is None else "deny"
        output["permissionDecisionReason"] = reason or _NO_REASON
    elif decision.skips_prompt:
        output["permissionDecision"] = "allow"
        output["permissionDecisionReason"] = SKIPPED
    return _answer(event, output, decision)


def _result_answer(event: HookEvent, decision: HookDecision) -> HookAnswer:
    tool = event.call.name if event.call is not None else None
    result = event.payload.get("tool_response")
    context = context_text(decision)
    if decision.denied is not None:
        return _replacement(event.name, tool, result, decision.denied or _NO_REASON, context)
    if decision.response is None or event.response is None or not replaces(event, decision):
        return _answer(event, {}, decision)
    mapped = put_in_place(result, frame_of(tool or ""), event.response, decision.response)
    if mapped is None:
        text = whole_text(event.response, decision.response)
        return _replacement(event.name, tool, result, text, context)
    return _answer(event, {"updatedToolOutput": mapped}, decision)


def _failure_answer(event: HookEvent, decision: HookDecision) -> HookAnswer:
    answer = _answer(event, {}, decision)
    if decision.denied is None and not replaces(event, decision):
        return answer
    return HookAnswer(stdout=answer.stdout, undelivered=("replace_failure",))


def _replacement(
    name: str, tool: str | None, result: Any, text: str, context: str = ""
) -> HookAnswer:
    """Return the answer that puts *text* in the place of *result*.

    Where it is not sure that the host takes it, the run ends too: later requests of the session
    would have the original, and the next one is what we can stop.
    """
    output, certain = (for_any_tool(text), False) if tool is None else replaced(tool, result, text)
    specific = {"hookEventName": name, "updatedToolOutput": output}
    if context:
        specific["additionalContext"] = context
    end = {} if certain else {"continue": False, "stopReason": text}
    return json_answer({**end, "hookSpecificOutput": specific})


def _answer(event: HookEvent, output: dict[str, Any], decision: HookDecision) -> HookAnswer:
    """Return the answer with *output* for its event and with the decision's context."""
    undelivered: list[Ability] = []
    if event.kind in {"answer", "session_start", "session_end", "other"} and decision.denied:
        undelivered.append("deny")
    if context := context_text(decision):
        if event.name in _TAKE_CONTEXT:
            output["additionalContext"] = context
        else:
            undelivered.append("add_context")
    answer: dict[str, Any] = {"systemMessage": decision.notice} if decision.notice else {}
    if output:
        answer["hookSpecificOutput"] = {"hookEventName": event.name, **output}
    if not answer:
        return HookAnswer(undelivered=tuple(undelivered))
    return json_answer(answer, *undelivered)

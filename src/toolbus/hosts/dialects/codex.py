"""Codex: hooks of its `hooks.json`, as version 0.169.0 runs them.

Sources: the JSON Schemas of the events in the program of the package @openai/codex 0.169.0, and
runs of that version. An answer with any other member is thrown away, and the event goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from toolbus.errors import DecodeError
from toolbus.hosts.dialects.frames import BLOCKS, ResultFrame, parts_in
from toolbus.hosts.dialects.hook_events import Ability, Delivery, HookAnswer, HookEvent, HookKind
from toolbus.hosts.dialects.host_json import (
    context_text,
    json_answer,
    object_at,
    optional_text,
    refusal,
    text_at,
)
from toolbus.messages.immutable import thaw
from toolbus.messages.records import ToolCall, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import HookDecision

_KINDS: Mapping[str, HookKind] = {
    "PreToolUse": "call",
    "PostToolUse": "result",
    "UserPromptSubmit": "prompt",
    "Stop": "answer",
    "SubagentStop": "answer",
    "SessionStart": "session_start",
    "SessionEnd": "session_end",
}

_TAKE_CONTEXT = frozenset(
    {"PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart", "SubagentStart"}
)
_SILENT = frozenset({"SessionEnd"})
"""Events that take no answer at all."""

_IMAGES = ResultFrame(
    names=frozenset({"type", "image_url", "detail"}),
    fixed=frozenset({"type", "image_url", "detail"}),
)
"""What `view_image` returns: items of a request."""

_EMPTY = "(toolbus: nothing remains of this result)"
"""With an empty reason the original would go on to the model."""


class CodexDialect:
    """How Codex says its events and is answered.

    It asks nobody for a hook, and takes other arguments only together with its permission. A result
    is replaced as a whole, by text. A command's is, whatever its exit code; of a tool of an MCP
    server that failed there is no event, and none of what a command wrote that still runs.
    """

    name: ClassVar = "codex"
    title: ClassVar = "Codex"
    abilities: ClassVar[Mapping[Ability, Delivery]] = {
        "observe": "yes",
        "rewrite_arguments": "yes",
        "fill_arguments": "no",  # Only with a permission: its person would not be asked.
        "deny": "yes",
        "ask": "no",
        "replace_result": "yes",
        "replace_failure": "commands",
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
            agent=optional_text(payload, "agent_id"),
            call=_call(payload) if kind in {"call", "result"} else None,
            response=_response(payload) if kind == "result" else None,
            text=_text(kind, payload),
            payload=payload,
        )

    def encode(self, event: HookEvent, decision: HookDecision) -> HookAnswer:
        """Return how Codex is told of *decision*."""
        match event.kind:
            case "call":
                return _call_answer(event, decision)
            case "result" if decision.denied is not None:
                return _answer(event, decision, _block(decision.denied))
            case "result" if decision.response is not None and _replaces(event, decision.response):
                return _answer(event, decision, _block(decision.response.text))
            case "prompt" if decision.denied is not None or decision.asked is not None:
                return _answer(event, decision, _block(decision.denied or decision.asked or ""))
        denied = event.kind not in {"call", "result", "prompt"} and decision.denied is not None
        return _answer(event, decision, {}, *(("deny",) if denied else ()))

    def block(self, name: str, payload: Any, reason: str) -> HookAnswer:  # noqa: ARG002
        """Return what stops the event *name*; an end and a start cannot be stopped."""
        match _KINDS.get(name):
            case "call":
                return json_answer({"hookSpecificOutput": _denial(name, reason)})
            case "result" | "prompt":
                return json_answer(_block(reason))
        return HookAnswer() if name in _SILENT else json_answer({"systemMessage": reason})


def _call(payload: Mapping[str, Any]) -> ToolCall:
    return ToolCall(
        id=text_at(payload, "tool_use_id"),
        name=text_at(payload, "tool_name"),
        arguments=object_at(payload, "tool_input"),
    )


def _response(payload: Mapping[str, Any]) -> ToolResponse:
    if "tool_response" not in payload:
        raise DecodeError("expected the result of the tool, got nothing", "$.tool_response")
    result = payload["tool_response"]
    if text_at(payload, "tool_name") == "view_image":
        return ToolResponse(content=parts_in(result, _IMAGES))
    if not isinstance(result, dict):
        return ToolResponse(content=parts_in(result, BLOCKS))
    # What is structured says the same as the content, which alone is what the model will read.
    structured = result.get("structuredContent")
    content = {key: item for key, item in result.items() if key != "structuredContent"}
    is_error = result.get("isError") is True
    return ToolResponse(content=parts_in(content, BLOCKS), structured=structured, is_error=is_error)


def _replaces(event: HookEvent, after: ToolResponse) -> bool:
    before = event.response
    return before is None or (before.content, before.structured) != (
        after.content,
        after.structured,
    )


def _text(kind: HookKind, payload: Mapping[str, Any]) -> str:
    match kind:
        case "prompt":
            return optional_text(payload, "prompt")
        case "answer":
            return optional_text(payload, "last_assistant_message")
    return ""


def _call_answer(event: HookEvent, decision: HookDecision) -> HookAnswer:
    output: dict[str, Any] = {}
    if (reason := refusal(event, decision)) is not None:
        output = _denial(event.name, reason)
    elif decision.call is not None:
        arguments = thaw(decision.call.arguments)
        output = {"permissionDecision": "allow", "updatedInput": arguments}
    return _answer(event, decision, {"hookSpecificOutput": output} if output else {})


def _denial(name: str, reason: str) -> dict[str, Any]:
    output = {"hookEventName": name, "permissionDecision": "deny"}
    return {**output, "permissionDecisionReason": _worded(reason)}


def _block(reason: str) -> dict[str, Any]:
    return {"decision": "block", "reason": _worded(reason)}


def _worded(reason: str) -> str:
    return reason if reason.strip() else _EMPTY


def _answer(
    event: HookEvent, decision: HookDecision, answer: dict[str, Any], *undelivered: Ability
) -> HookAnswer:
    """Return *answer* with the decision's context."""
    context = context_text(decision)
    specific = answer.get("hookSpecificOutput", {})
    refused = event.kind == "prompt" and "decision" in answer
    if context and event.name in _TAKE_CONTEXT and not refused:
        specific = {**specific, "additionalContext": context}
    elif context:
        undelivered = (*undelivered, "add_context")
    if specific:
        answer = {**answer, "hookSpecificOutput": {"hookEventName": event.name, **specific}}
    if decision.notice:
        answer = {**answer, "systemMessage": decision.notice}
    return json_answer(answer, *undelivered) if answer else HookAnswer(undelivered=undelivered)

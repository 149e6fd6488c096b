"""Cursor: `hooks.json`, from its documentation (https://cursor.com/docs/agent/hooks), not run.

Of tools only those of MCP servers have a result that can be replaced. Cursor also runs the hooks
that a person set up for Claude Code; who calls is told by `cursor_version`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from toolbus.errors import DecodeError
from toolbus.hosts.dialects.frames import BLOCKS, parts_in, put_back
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
from toolbus.messages.immutable import mend
from toolbus.messages.records import TextPart, ToolCall, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import HookDecision

_KINDS: Mapping[str, HookKind] = {
    "preToolUse": "call",
    "postToolUse": "result",
    "postToolUseFailure": "result",
    "beforeSubmitPrompt": "prompt",
    "afterAgentResponse": "answer",
    "sessionStart": "session_start",
    "sessionEnd": "session_end",
}

_PERMISSION_EVENTS = frozenset(
    {
        *("preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile"),
        *("beforeTabFileRead", "subagentStart"),
    }
)
"""Events that `permission: deny` stops."""

_MAX_CONTEXT = 10_000
"""Characters of context; of a longer one Cursor takes nothing."""

_MCP = "MCP:"


class CursorDialect:
    """How Cursor says its events and is answered: snake_case, `tool_output` as a text of JSON."""

    name: ClassVar = "cursor"
    title: ClassVar = "Cursor"
    abilities: ClassVar[Mapping[Ability, Delivery]] = {
        "observe": "yes",
        "rewrite_arguments": "yes",
        "fill_arguments": "no",  # Only with a permission.
        "deny": "yes",
        "ask": "no",
        "replace_result": "mcp",
        "replace_failure": "no",
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
            session_id=optional_text(payload, "conversation_id") or text_at(payload, "session_id"),
            folder=_folder(payload),
            call=_call(payload) if kind in {"call", "result"} else None,
            response=_response(name, payload) if kind == "result" else None,
            text=_text(kind, payload),
            payload=payload,
        )

    def encode(self, event: HookEvent, decision: HookDecision) -> HookAnswer:
        """Return how Cursor is told of *decision*."""
        match event.kind:
            case "call":
                return _call_answer(event, decision)
            case "result":
                return _result_answer(event, decision)
            case "prompt" if decision.denied is not None or decision.asked is not None:
                return _stop_prompt(decision.denied or decision.asked or "")
            case "session_start":
                return _with_context({}, decision)
        return HookAnswer(undelivered=("add_context",) if decision.context else ())

    def block(self, name: str, payload: Any, reason: str) -> HookAnswer:
        """Return what stops the event *name*; of results only that of an MCP tool can be."""
        if name == "beforeSubmitPrompt":
            return _stop_prompt(reason)
        if name in _PERMISSION_EVENTS:
            return _deny(reason)
        if name == "postToolUse" and isinstance(payload, dict) and _is_mcp(payload):
            return json_answer({"updated_mcp_tool_output": _notice(reason)})
        match name:
            case "postToolUse":
                return json_answer({"additional_context": reason}, "replace_result")
            case "postToolUseFailure":
                return HookAnswer(undelivered=("replace_failure",))
        return HookAnswer()


def _folder(payload: Mapping[str, Any]) -> str:
    """Return where the tool works, else the first folder of the workspace."""
    if folder := optional_text(payload, "cwd"):
        return folder
    match payload.get("workspace_roots"):
        case [str(root), *_]:
            return root
    return ""


def _call(payload: Mapping[str, Any]) -> ToolCall:
    return ToolCall(
        id=text_at(payload, "tool_use_id"),
        name=text_at(payload, "tool_name"),
        arguments=object_at(payload, "tool_input"),
    )


def _response(name: str, payload: Mapping[str, Any]) -> ToolResponse:
    if name == "postToolUseFailure":
        message = optional_text(payload, "error_message")
        kind = optional_text(payload, "failure_type") or None
        return ToolResponse(content=(TextPart(text=message),), is_error=True, error_type=kind)
    return ToolResponse(content=parts_in(_output(payload), BLOCKS))


def _output(payload: Mapping[str, Any]) -> Any:
    """Return what the text `tool_output` holds; the text where it is no JSON."""
    output = payload.get("tool_output")
    if not isinstance(output, str):
        raise DecodeError("expected a text of JSON", "$.tool_output")
    try:
        return mend(json.loads(output))
    except RecursionError:
        raise DecodeError("nested too deeply", "$.tool_output") from None
    except ValueError:
        return output


def _text(kind: HookKind, payload: Mapping[str, Any]) -> str:
    match kind:
        case "prompt":
            return optional_text(payload, "prompt")
        case "answer":
            return optional_text(payload, "text")
    return ""


def _call_answer(event: HookEvent, decision: HookDecision) -> HookAnswer:
    undelivered = call_shortfall(decision)
    if (reason := refusal(event, decision)) is not None:
        return _deny(reason, *undelivered)
    if decision.call is None:
        return HookAnswer(undelivered=undelivered)
    answer = {"permission": "allow", "updated_input": decision.call.arguments}
    return json_answer(answer, *undelivered)


def _result_answer(event: HookEvent, decision: HookDecision) -> HookAnswer:
    if decision.denied is None and not replaces(event, decision):
        return _with_context({}, decision)
    if event.name == "postToolUseFailure":
        return HookAnswer(undelivered=("replace_failure",))
    if not _is_mcp(event.payload):
        return _with_context({}, decision, "replace_result")
    before, after = event.response, decision.response
    result = None
    if decision.denied is None and before is not None and after is not None:
        result = put_back(_output(event.payload), BLOCKS, before, after)
        result = result if isinstance(result, dict) else _notice(after.text)
    answer = _notice(decision.denied or "") if result is None else result
    return _with_context({"updated_mcp_tool_output": answer}, decision)


def _with_context(
    answer: dict[str, Any], decision: HookDecision, *undelivered: Ability
) -> HookAnswer:
    context = context_text(decision)
    if len(context) > _MAX_CONTEXT:
        return json_answer(answer, *undelivered, "add_context")
    if context:
        answer["additional_context"] = context
    if not answer:
        return HookAnswer(undelivered=undelivered)
    return json_answer(answer, *undelivered)


def _is_mcp(payload: Mapping[str, Any]) -> bool:
    return str(payload.get("tool_name")).startswith(_MCP)


def _notice(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _deny(reason: str, *undelivered: Ability) -> HookAnswer:
    answer = {"permission": "deny", "user_message": reason, "agent_message": reason}
    return json_answer(answer, *undelivered)


def _stop_prompt(reason: str) -> HookAnswer:
    return json_answer({"continue": False, "user_message": reason})

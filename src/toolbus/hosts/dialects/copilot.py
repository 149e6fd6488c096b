"""GitHub Copilot CLI: hooks with names in camelCase, as version 1.0.102 runs them.

Sources: the types of the package @github/copilot-sdk 1.0.14, and runs of the package
@github/copilot 1.0.102.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

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
    "preToolUse": "call",
    "postToolUse": "result",
    "postToolUseFailure": "result",
    "userPromptSubmitted": "prompt",
    "sessionStart": "session_start",
    "sessionEnd": "session_end",
}
"""Not agentStop: it does not say what the model said."""

_TAKE_CONTEXT = frozenset(
    {"preToolUse", "postToolUse", "postToolUseFailure", "userPromptSubmitted", "sessionStart"}
)
_NO_REASON = "toolbus: no reason was given"


class CopilotDialect:
    """How Copilot CLI says its events and is answered.

    It gives calls no ids, so those of its events are empty. A command's result is replaced whatever
    its exit code; what another tool said that failed cannot be.
    """

    name: ClassVar = "copilot"
    title: ClassVar = "Copilot CLI"
    abilities: ClassVar[Mapping[Ability, Delivery]] = {
        "observe": "yes",
        "rewrite_arguments": "yes",
        "fill_arguments": "no",  # Its model reads them in the next request.
        "deny": "yes",
        "ask": "yes",
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
            session_id=text_at(payload, "sessionId"),
            folder=optional_text(payload, "cwd"),
            call=_call(payload) if kind in {"call", "result"} else None,
            response=_response(name, payload) if kind == "result" else None,
            text=optional_text(payload, "prompt") if kind == "prompt" else "",
            payload=payload,
        )

    def encode(self, event: HookEvent, decision: HookDecision) -> HookAnswer:
        """Return how Copilot CLI is told of *decision*."""
        match event.kind:
            case "call":
                return _answer(event, decision, _verdict(event, decision))
            case "result":
                return _result_answer(event, decision)
            case "prompt" if decision.denied is not None or decision.asked is not None:
                reason = decision.denied or decision.asked or ""
                return _answer(event, decision, _refused(reason))
        denied = event.kind != "prompt" and decision.denied is not None
        return _answer(event, decision, {}, *(("deny",) if denied else ()))

    def block(self, name: str, payload: Any, reason: str) -> HookAnswer:  # noqa: ARG002
        """Return what stops the event *name*; an end, a start and a failure cannot be stopped."""
        match _KINDS.get(name):
            case "call":
                return json_answer(_permission("deny", reason))
            case "result" if name == "postToolUse":
                return json_answer(_replacement("failure", reason))
            case "prompt":
                return json_answer(_refused(reason))
            case "result":
                return HookAnswer(stderr=_line(reason), undelivered=("replace_failure",))
        return HookAnswer(stderr=_line(reason))


def _call(payload: Mapping[str, Any]) -> ToolCall:
    arguments = object_at(payload, "toolArgs")
    return ToolCall(id="", name=text_at(payload, "toolName"), arguments=arguments)


def _response(name: str, payload: Mapping[str, Any]) -> ToolResponse:
    if name == "postToolUseFailure":
        error = optional_text(payload, "error")
        return ToolResponse(content=(TextPart(text=error),) if error else (), is_error=True)
    result = object_at(payload, "toolResult")
    text = optional_text(result, "textResultForLlm")
    kind = optional_text(result, "resultType")
    return ToolResponse(
        content=(TextPart(text=text),) if text else (), is_error=kind not in {"", "success"}
    )


def _verdict(event: HookEvent, decision: HookDecision) -> dict[str, Any]:
    output: dict[str, Any] = {}
    denied = refusal(event, replace(decision, asked=None))
    if denied is not None:
        return _permission("deny", denied)
    if decision.call is not None:
        output["modifiedArgs"] = thaw(decision.call.arguments)
    if decision.asked is not None:
        output |= _permission("ask", decision.asked)
    elif decision.skips_prompt:
        output |= _permission("allow", SKIPPED)
    return output


def _result_answer(event: HookEvent, decision: HookDecision) -> HookAnswer:
    text = decision.denied
    if text is None and decision.response is not None and replaces(event, decision):
        text = decision.response.text
    if text is None:
        return _answer(event, decision, {})
    if event.name == "postToolUseFailure":
        return _answer(event, decision, {}, "replace_failure")
    failed = event.response is not None and event.response.is_error
    return _answer(event, decision, _replacement("failure" if failed else "success", text))


def _permission(verdict: str, reason: str) -> dict[str, Any]:
    return {"permissionDecision": verdict, "permissionDecisionReason": reason or _NO_REASON}


def _replacement(kind: str, text: str) -> dict[str, Any]:
    # Only an object is taken: for a text the original goes on to the model.
    return {"modifiedResult": {"resultType": kind, "textResultForLlm": text}}


def _refused(reason: str) -> dict[str, Any]:
    return {"decision": "block", "reason": reason or _NO_REASON}


def _line(reason: str) -> bytes:
    return f"{reason}\n".encode(errors="replace")


def _answer(
    event: HookEvent, decision: HookDecision, answer: dict[str, Any], *undelivered: Ability
) -> HookAnswer:
    """Return *answer* with the decision's context."""
    context = context_text(decision)
    refused = answer.get("decision") == "block"
    if context and event.name in _TAKE_CONTEXT and not refused:
        answer = {**answer, "additionalContext": context}
    elif context:
        undelivered = (*undelivered, "add_context")
    return json_answer(answer, *undelivered) if answer else HookAnswer(undelivered=undelivered)

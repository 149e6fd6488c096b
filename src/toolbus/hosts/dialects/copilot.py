"""GitHub Copilot CLI: hooks with names in camelCase.

It gives calls no ids. A command's result is replaced whatever its exit code; what another tool said
that failed cannot be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from toolbus.hosts.dialects.hook_events import HookAnswer
from toolbus.hosts.dialects.host_dialect import (
    ALL_ABILITIES,
    BLOCK,
    DialectFacts,
    Forms,
    HostDialect,
    Json,
    Members,
    object_at,
    optional_text,
)
from toolbus.messages.records import TextPart, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import Ability, HookEvent


class CopilotDialect(HostDialect):
    """How Copilot CLI says its events and is answered."""

    facts: ClassVar = DialectFacts(
        name="copilot",
        title="Copilot CLI",
        version="1.0.102",
        sources=("the types of the package @github/copilot-sdk 1.0.14",),
        abilities={
            **ALL_ABILITIES,
            "fill_arguments": "no",  # Its model reads them in the next request.
            "replace_failure": "commands",
        },
        # Not agentStop: it does not say what the model said.
        kinds={
            "preToolUse": "call",
            "postToolUse": "result",
            "postToolUseFailure": "result",
            "userPromptSubmitted": "prompt",
            "sessionStart": "session_start",
            "sessionEnd": "session_end",
        },
        members=Members(session="sessionId", call_id="", tool="toolName", arguments="toolArgs"),
        failures=frozenset({"postToolUseFailure"}),
        takes_context=frozenset(
            {
                *("preToolUse", "postToolUse", "postToolUseFailure"),
                *("userPromptSubmitted", "sessionStart"),
            }
        ),
    )
    forms: ClassVar = Forms(
        denial={"permissionDecision": "deny", "permissionDecisionReason": "{value}"},
        refusal=BLOCK,
        question={"permissionDecision": "ask", "permissionDecisionReason": "{value}"},
        permission={"permissionDecision": "allow", "permissionDecisionReason": "{value}"},
        rewriting={"modifiedArgs": "{value}"},
        context={"additionalContext": "{value}"},
        # Only an object is taken: for a text the original goes on to the model.
        replacement={"modifiedResult": {"resultType": "failure", "textResultForLlm": "{value}"}},
    )

    def read_result(self, payload: Mapping[str, Any]) -> ToolResponse:
        """Return the text for the model, and whether the host calls it a success."""
        result = object_at(payload, "toolResult")
        text = optional_text(result, "textResultForLlm")
        kind = optional_text(result, "resultType")
        return ToolResponse(
            content=(TextPart(text=text),) if text else (), is_error=kind not in {"", "success"}
        )

    def changed_result(self, event: HookEvent, response: ToolResponse) -> Json:
        """Return the text of *response*, a success where the tool's result was one."""
        failed = event.response is not None and event.response.is_error
        kind = "failure" if failed else "success"
        return {"modifiedResult": {"resultType": kind, "textResultForLlm": response.text}}

    def notify(self, reason: str, *undelivered: Ability) -> HookAnswer:
        """Return *reason* on standard error, which Copilot CLI logs."""
        line = f"{reason}\n".encode(errors="replace")
        return HookAnswer(stderr=line, undelivered=undelivered)

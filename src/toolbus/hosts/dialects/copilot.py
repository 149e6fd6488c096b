"""The dialect of GitHub Copilot CLI: hooks with names in camelCase.

Calls have no ids. The result of a command can be replaced even if it failed; the output of any
other failed tool cannot.
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
    """The encoding of Copilot CLI's events and answers."""

    facts: ClassVar = DialectFacts(
        name="copilot",
        title="Copilot CLI",
        version="1.0.102",
        sources=("the types of the package @github/copilot-sdk 1.0.14",),
        abilities={
            **ALL_ABILITIES,
            "fill_arguments": "no",  # The model reads them in the next request.
            "replace_failure": "commands",
        },
        # Not agentStop: it does not contain the model's text.
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
        # Only an object is accepted: with a text the model reads the original.
        replacement={"modifiedResult": {"resultType": "failure", "textResultForLlm": "{value}"}},
    )

    def read_result(self, payload: Mapping[str, Any]) -> ToolResponse:
        """Return the text for the model; it is an error unless the host reports success."""
        result = object_at(payload, "toolResult")
        text = optional_text(result, "textResultForLlm")
        kind = optional_text(result, "resultType")
        return ToolResponse(
            content=(TextPart(text=text),) if text else (), is_error=kind not in {"", "success"}
        )

    def changed_result(self, event: HookEvent, response: ToolResponse) -> Json:
        """Return the answer with the text of *response*, a success if the tool's result was one."""
        failed = event.response is not None and event.response.is_error
        kind = "failure" if failed else "success"
        return {"modifiedResult": {"resultType": kind, "textResultForLlm": response.text}}

    def notify(self, reason: str, *undelivered: Ability) -> HookAnswer:
        """Return the answer with *reason* on standard error, which Copilot CLI logs."""
        line = f"{reason}\n".encode(errors="replace")
        return HookAnswer(stderr=line, undelivered=undelivered)

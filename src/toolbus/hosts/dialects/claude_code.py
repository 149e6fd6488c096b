"""The dialect of Claude Code: command hooks of its settings.

If the host may ignore a replaced result, the answer also ends the run (`continue: false`). The
output of a failed tool cannot be replaced, and `continue: false` has no effect after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from toolbus.errors import DecodeError
from toolbus.hosts.dialects.claude_results import for_any_tool, replaced, template_of
from toolbus.hosts.dialects.host_dialect import (
    ALL_ABILITIES,
    BLOCK,
    MENTIONED,
    DialectFacts,
    Forms,
    HostDialect,
    Json,
    Members,
    filled,
    specific,
    text_at,
)
from toolbus.hosts.dialects.result_templates import parts_in, put_in_place, whole_text
from toolbus.messages.records import ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import HookEvent


class ClaudeCodeDialect(HostDialect):
    """The encoding of Claude Code's events and answers."""

    facts: ClassVar = DialectFacts(
        name="claude-code",
        title="Claude Code",
        version="2.1.329",
        sources=(
            "sdk-tools.d.ts of the package @anthropic-ai/claude-code 2.1.329",
            "sdk.d.ts of the package @anthropic-ai/claude-agent-sdk 0.3.329",
            "https://code.claude.com/docs/en/hooks",
        ),
        abilities={**ALL_ABILITIES, "replace_failure": "no"},
        kinds={
            "PreToolUse": "call",
            "PostToolUse": "result",
            "PostToolUseFailure": "result",
            "UserPromptSubmit": "prompt",
            "Stop": "answer",
            "SubagentStop": "answer",
            "SessionStart": "session_start",
            "SessionEnd": "session_end",
        },
        members=Members(agent="agent_id", answer="last_assistant_message"),
        failures=frozenset({"PostToolUseFailure"}),
        # Not Stop and SubagentStop: context there makes the model go on.
        takes_context=frozenset(
            {
                *("PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch"),
                *("UserPromptSubmit", "SessionStart", "SubagentStart"),
            }
        ),
        notice="systemMessage",
        blind_spots=(MENTIONED,),
    )
    forms: ClassVar = Forms(
        denial=specific(permissionDecision="deny", permissionDecisionReason="{value}"),
        refusal=BLOCK,
        question=specific(permissionDecision="ask", permissionDecisionReason="{value}"),
        permission=specific(permissionDecision="allow", permissionDecisionReason="{value}"),
        # Without a verdict the host's own permissions still apply.
        rewriting=specific(updatedInput="{value}"),
        context=specific(additionalContext="{value}"),
        replacement=specific(updatedToolOutput="{value}"),
    )

    def read_result(self, payload: Mapping[str, Any]) -> ToolResponse:
        """Return the texts of a result, by the template of its tool."""
        if "tool_response" not in payload:
            raise DecodeError("expected the result of the tool, got nothing", "$.tool_response")
        template = template_of(text_at(payload, "tool_name"))
        return ToolResponse(content=parts_in(payload["tool_response"], template))

    def changed_result(self, event: HookEvent, response: ToolResponse) -> Json:
        """Return the answer with changed texts in place, else one text in the tool's shape."""
        assert event.response is not None  # noqa: S101 - an event with a result
        result, template = event.payload["tool_response"], template_of(event.payload["tool_name"])
        mapped = put_in_place(result, template, event.response, response)
        if mapped is None:
            text = whole_text(event.response, response)
            return self.replacement(event.name, event.payload, text)
        return filled(self.forms.replacement, event.name, mapped)

    def replacement(self, name: str, payload: Any, text: str) -> Json:
        """Return the answer with *text* in the shape of the tool's results.

        If the host may ignore it, the answer also ends the run: the session's next request, which
        would contain the original, is the only thing that can still be stopped.
        """
        match payload:
            case {"tool_name": str(tool)}:
                output, is_sure = replaced(tool, payload.get("tool_response"), text)
            case _:
                output, is_sure = for_any_tool(text), False
        answer = filled(self.forms.replacement, name, output)
        return answer if is_sure else {"continue": False, "stopReason": text, **answer}

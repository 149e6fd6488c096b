"""The dialect of Codex: hooks of its `hooks.json`. Codex drops answers with unknown members.

Hooks cannot make it ask its user, and changed arguments need a permission. A result is replaced as
a whole, by text, also that of a failed command. There is no event for a failed tool of an MCP
server, and none for the output of a command that still runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from toolbus.errors import DecodeError
from toolbus.hosts.dialects.host_dialect import (
    ALL_ABILITIES,
    BLOCK,
    DialectFacts,
    Forms,
    HostDialect,
    Members,
    specific,
    text_at,
)
from toolbus.hosts.dialects.result_templates import BLOCKS, ResultTemplate, parts_in
from toolbus.messages.records import ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import HookAnswer

_LASTING = (
    "the output of a command that still runs when Codex stops waiting goes to the model, and hooks "
    "see it only at the command's end: let long commands write to a file that is read afterwards"
)
_IMAGES = ResultTemplate(
    names=frozenset({"type", "image_url", "detail"}),
    fixed=frozenset({"type", "image_url", "detail"}),
)
"""The result of `view_image`: input items of the Responses API."""


class CodexDialect(HostDialect):
    """The encoding of Codex's events and answers."""

    facts: ClassVar = DialectFacts(
        name="codex",
        title="Codex",
        version="0.169.0",
        sources=("the JSON Schemas of the events in the program of @openai/codex 0.169.0",),
        abilities={
            **ALL_ABILITIES,
            "fill_arguments": "no",  # They need a permission, so the user would not be asked.
            "ask": "no",
            "replace_failure": "commands",
        },
        kinds={
            "PreToolUse": "call",
            "PostToolUse": "result",
            "UserPromptSubmit": "prompt",
            "Stop": "answer",
            "SubagentStop": "answer",
            "SessionStart": "session_start",
            "SessionEnd": "session_end",
        },
        members=Members(agent="agent_id", answer="last_assistant_message"),
        takes_context=frozenset(
            {"PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart", "SubagentStart"}
        ),
        notice="systemMessage",
        blind_spots=(_LASTING,),
    )
    forms: ClassVar = Forms(
        denial=specific(permissionDecision="deny", permissionDecisionReason="{value}"),
        refusal=BLOCK,
        rewriting=specific(permissionDecision="allow", updatedInput="{value}"),
        context=specific(additionalContext="{value}"),
        # With an empty reason Codex keeps the original.
        replacement=BLOCK,
    )

    def read_result(self, payload: Mapping[str, Any]) -> ToolResponse:
        """Return the result; the model reads only its content."""
        if "tool_response" not in payload:
            raise DecodeError("expected the result of the tool, got nothing", "$.tool_response")
        result = payload["tool_response"]
        if text_at(payload, "tool_name") == "view_image":
            return ToolResponse(content=parts_in(result, _IMAGES))
        if not isinstance(result, dict):
            return ToolResponse(content=parts_in(result, BLOCKS))
        # The structured content repeats the content.
        content = {key: item for key, item in result.items() if key != "structuredContent"}
        return ToolResponse(
            content=parts_in(content, BLOCKS),
            structured=result.get("structuredContent"),
            is_error=result.get("isError") is True,
        )

    def fail_closed_answer(self, name: str, payload: Any, reason: str) -> HookAnswer:
        """Return the answer that blocks the event *name*; the end of a session takes no answer."""
        return (
            self.write({})
            if name == "SessionEnd"
            else super().fail_closed_answer(name, payload, reason)
        )

"""The dialect of Cursor: `hooks.json`, by its documentation only: it is untested.

Only results of MCP tools can be replaced; `tool_output` is a text of JSON. Cursor also runs the
hooks that a user set up for Claude Code: see `run.event_input`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from toolbus.errors import DecodeError
from toolbus.hosts.dialects.host_dialect import (
    ALL_ABILITIES,
    DialectFacts,
    Forms,
    HostDialect,
    Json,
    Members,
    filled,
    optional_text,
)
from toolbus.hosts.dialects.result_templates import BLOCKS, parts_in, put_back
from toolbus.messages.immutable import replace_surrogates_in
from toolbus.messages.records import ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import HookEvent


class CursorDialect(HostDialect):
    """The encoding of Cursor's events and answers."""

    facts: ClassVar = DialectFacts(
        name="cursor",
        title="Cursor",
        version="",
        sources=("https://cursor.com/docs/agent/hooks",),
        abilities={
            **ALL_ABILITIES,
            "fill_arguments": "no",  # They need a permission.
            "ask": "no",
            "replace_result": "mcp",
            "replace_failure": "no",
        },
        kinds={
            "preToolUse": "call",
            "postToolUse": "result",
            "postToolUseFailure": "result",
            "beforeSubmitPrompt": "prompt",
            "afterAgentResponse": "answer",
            "sessionStart": "session_start",
            "sessionEnd": "session_end",
        },
        members=Members(failure="error_message", answer="text"),
        failures=frozenset({"postToolUseFailure"}),
        takes_context=frozenset({"postToolUse", "postToolUseFailure", "sessionStart"}),
        also_denied=frozenset(
            {
                *("beforeShellExecution", "beforeMCPExecution", "beforeReadFile"),
                *("beforeTabFileRead", "subagentStart"),
            }
        ),
        most_context=10_000,  # A longer context is dropped.
    )
    forms: ClassVar = Forms(
        denial={"permission": "deny", "user_message": "{value}", "agent_message": "{value}"},
        rewriting={"permission": "allow", "updated_input": "{value}"},
        refusal={"continue": False, "user_message": "{value}"},
        context={"additional_context": "{value}"},
        replacement={"updated_mcp_tool_output": "{value}"},
    )

    def decode(self, name: str, payload: Mapping[str, Any]) -> HookEvent:
        """Return the event *name* of *payload*, of its conversation and first workspace root."""
        session = optional_text(payload, "conversation_id")
        event = super().decode(name, {**payload, "session_id": session} if session else payload)
        match payload.get("workspace_roots"):
            case [str(root), *_] if not event.folder:
                return replace(event, folder=root, payload=payload)
        return replace(event, payload=payload)

    def read_result(self, payload: Mapping[str, Any]) -> ToolResponse:
        """Return the result in `tool_output`."""
        return ToolResponse(content=parts_in(_output(payload), BLOCKS))

    def changed_result(self, event: HookEvent, response: ToolResponse) -> Json:
        """Return the answer with the changed texts of an MCP tool's result in their places."""
        answer = self.replacement(event.name, event.payload, response.text)
        if not answer or event.response is None:
            return answer
        result = put_back(_output(event.payload), BLOCKS, event.response, response)
        is_result = isinstance(result, dict)
        return filled(self.forms.replacement, event.name, result) if is_result else answer

    def replacement(self, name: str, payload: Any, text: str) -> Json:
        """Return the answer with *text* as the result of an MCP tool; {} for other tools."""
        match payload:
            case {"tool_name": str(tool)} if tool.startswith("MCP:"):
                result = {"content": [{"type": "text", "text": text}], "isError": True}
                return filled(self.forms.replacement, name, result)
        return {}


def _output(payload: Mapping[str, Any]) -> Any:
    """Return the JSON value in the text `tool_output`; the text itself if it is not JSON."""
    output = payload.get("tool_output")
    if not isinstance(output, str):
        raise DecodeError("expected a text of JSON", "$.tool_output")
    try:
        return replace_surrogates_in(json.loads(output))
    except RecursionError:
        raise DecodeError("nested too deeply", "$.tool_output") from None
    except ValueError:
        return output

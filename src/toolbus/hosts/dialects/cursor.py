"""Cursor: `hooks.json`, from its documentation alone: it was not run.

Of tools only those of MCP servers have a result that can be replaced; `tool_output` is a text of
JSON. Cursor also runs the hooks that a person set up for Claude Code: see `run.reading`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from toolbus.errors import DecodeError
from toolbus.hosts.dialects.frames import BLOCKS, parts_in, put_back
from toolbus.hosts.dialects.host_dialect import (
    ALL_ABILITIES,
    DialectFacts,
    HostDialect,
    Json,
    Members,
    optional_text,
)
from toolbus.messages.immutable import mend
from toolbus.messages.records import ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import HookEvent

_MAX_CONTEXT = 10_000
"""Characters of context; of a longer one Cursor takes nothing."""


class CursorDialect(HostDialect):
    """How Cursor says its events and is answered."""

    facts: ClassVar = DialectFacts(
        name="cursor",
        title="Cursor",
        version="",
        sources=("https://cursor.com/docs/agent/hooks",),
        abilities={
            **ALL_ABILITIES,
            "fill_arguments": "no",  # Only with a permission.
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
    )

    def decode(self, name: str, payload: Mapping[str, Any]) -> HookEvent:
        """Return the event *name* of *payload*: of a conversation, and in its first folder."""
        session = optional_text(payload, "conversation_id")
        event = super().decode(name, {**payload, "session_id": session} if session else payload)
        match payload.get("workspace_roots"):
            case [str(root), *_] if not event.folder:
                return replace(event, folder=root, payload=payload)
        return replace(event, payload=payload)

    def read_result(self, payload: Mapping[str, Any]) -> ToolResponse:
        """Return the texts in `tool_output`."""
        return ToolResponse(content=parts_in(_output(payload), BLOCKS))

    def denial(self, name: str, reason: str) -> Json:  # noqa: ARG002
        """Return Cursor's denial."""
        return {"permission": "deny", "user_message": reason, "agent_message": reason}

    def rewriting(self, name: str, arguments: Mapping[str, Any]) -> Json:  # noqa: ARG002
        """Return *arguments* with the permission that has to stand beside them."""
        return {"permission": "allow", "updated_input": arguments}

    def refusal(self, reason: str) -> Json:
        """Return what keeps a prompt back in Cursor."""
        return {"continue": False, "user_message": reason}

    def with_context(self, event: HookEvent, answer: Json, context: str) -> Json | None:  # noqa: ARG002
        """Return *answer* with *context* beside it."""
        if len(context) > _MAX_CONTEXT:
            return None
        return {**answer, "additional_context": context}

    def changed_result(self, event: HookEvent, response: ToolResponse) -> Json | None:
        """Return the changed texts of an MCP tool's result, each in its place."""
        answer = self.replacement(event.name, event.payload, response.text)
        if answer is None or event.response is None:
            return answer
        result = put_back(_output(event.payload), BLOCKS, event.response, response)
        return {"updated_mcp_tool_output": result} if isinstance(result, dict) else answer

    def replacement(self, name: str, payload: Any, text: str) -> Json | None:  # noqa: ARG002
        """Return *text* as the result of an MCP tool."""
        match payload:
            case {"tool_name": str(tool)} if tool.startswith("MCP:"):
                content = [{"type": "text", "text": text}]
                return {"updated_mcp_tool_output": {"content": content, "isError": True}}
        return None


def _output(payload: Mapping[str, Any]) -> Any:
    """Return the value of the JSON in the text `tool_output`; the text where it is not JSON."""
    output = payload.get("tool_output")
    if not isinstance(output, str):
        raise DecodeError("expected a text of JSON", "$.tool_output")
    try:
        return mend(json.loads(output))
    except RecursionError:
        raise DecodeError("nested too deeply", "$.tool_output") from None
    except ValueError:
        return output

"""The dialect of Gemini CLI: hooks of its settings.

Calls have no ids. Questions (`decision: ask`) are not used: they are undocumented, and without a
terminal they wait for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from toolbus.errors import DecodeError
from toolbus.hosts.dialects.host_dialect import (
    ALL_ABILITIES,
    MENTIONED,
    DialectFacts,
    Forms,
    HostDialect,
    Json,
    Members,
    object_at,
    specific,
)
from toolbus.hosts.dialects.result_templates import ResultTemplate, parts_in
from toolbus.messages.immutable import replace_surrogates
from toolbus.messages.records import TextPart, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import HookEvent

_DENIAL = {"decision": "deny", "reason": "{value}"}
_PARTS = ResultTemplate(
    names=frozenset(
        {
            *("text", "inlineData", "fileData", "mimeType", "data", "fileUri", "displayName"),
            *("functionResponse", "id", "name", "response", "output", "error", "content", "parts"),
        }
    )
)
"""The template of `llmContent`: a text, a part of the Gemini API, or a list of both."""


class GeminiCliDialect(HostDialect):
    """The encoding of Gemini CLI's events and answers."""

    facts: ClassVar = DialectFacts(
        name="gemini-cli",
        title="Gemini CLI",
        version="0.61.0",
        sources=("docs/hooks/reference.md and the scheduler of @google/gemini-cli 0.61.0",),
        abilities={
            **ALL_ABILITIES,
            "fill_arguments": "no",  # The model reads them when a session is resumed.
            "ask": "no",
        },
        kinds={
            "BeforeTool": "call",
            "AfterTool": "result",
            "BeforeAgent": "prompt",
            "AfterAgent": "answer",
            "SessionStart": "session_start",
            "SessionEnd": "session_end",
        },
        members=Members(call_id="", answer="prompt_response"),
        takes_context=frozenset({"AfterTool", "BeforeAgent", "SessionStart"}),
        # Not AfterAgent: a denial there demands another answer of the model.
        also_denied=frozenset({"BeforeModel", "AfterModel"}),
        notice="systemMessage",
        blind_spots=(MENTIONED,),
    )
    forms: ClassVar = Forms(
        denial=_DENIAL,
        refusal=_DENIAL,
        # The text becomes the whole result, as `{"error": TEXT}`.
        replacement=_DENIAL,
        # Not merged as the reference says: the scheduler replaces all arguments.
        rewriting=specific(tool_input="{value}"),
        context=specific(additionalContext="{value}"),
    )

    def read_result(self, payload: Mapping[str, Any]) -> ToolResponse:
        """Return the text for the model: the message of an error, else `llmContent`."""
        response = object_at(payload, "tool_response")
        match response.get("error"):
            case None:
                return ToolResponse(content=parts_in(response.get("llmContent"), _PARTS))
            case {"message": str(message), **rest}:
                kind = str(rest.get("type") or "") or None
                parts = (TextPart(text=replace_surrogates(message)),) if message else ()
                return ToolResponse(content=parts, is_error=True, error_type=kind)
        raise DecodeError("expected an error with a message", "$.tool_response.error")

    def with_context(self, event: HookEvent, answer: Json, context: str) -> Json:
        """Return *answer* with *context*, within the reason of a denial, where it would be lost."""
        if "reason" in answer:
            return {**answer, "reason": f"{answer['reason']}\n\n{context}"}
        return super().with_context(event, answer, context)

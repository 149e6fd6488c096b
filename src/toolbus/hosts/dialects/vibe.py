"""The dialect of Mistral Vibe: `hooks.toml`. A failed hook blocks only with `strict = true`.

An answer is one object in snake_case, always with exit code 0. A sub-agent's session is stored as
a part of its parent's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from toolbus.hosts.dialects.host_dialect import (
    ALL_ABILITIES,
    EMPTY,
    MENTIONED,
    DialectFacts,
    Forms,
    HostDialect,
    Json,
    Members,
    filled,
    optional_text,
)
from toolbus.hosts.dialects.result_templates import ResultTemplate, parts_in
from toolbus.messages.records import TextPart, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.hosts.dialects.hook_events import Ability, HookAnswer, HookEvent
    from toolbus.messages.records import Part

_MAX_OUTPUT = 1_000_000
"""The most bytes of an answer: Vibe cuts a longer one, which leaves invalid JSON."""

_DENIAL = {"decision": "deny", "reason": "{value}"}
_TOO_LONG = "toolbus withheld this result: the changed result is too long for Vibe"


class VibeDialect(HostDialect):
    """The encoding of Mistral Vibe's events and answers."""

    facts: ClassVar = DialectFacts(
        name="vibe",
        title="Mistral Vibe",
        version="3.0.2",
        sources=('the skill "vibe" and the module `_foreign_hooks` in mistral-vibe 3.0.2',),
        abilities={**ALL_ABILITIES, "ask": "no", "block_prompt": "no"},
        kinds={"pre_tool": "call", "post_tool": "result", "post_agent": "answer"},
        members=Members(call_id="tool_call_id"),
        takes_context=frozenset({"post_tool"}),
        notice="system_message",
        blind_spots=(MENTIONED,),
    )
    forms: ClassVar = Forms(
        denial=_DENIAL,
        # Vibe replaces an empty text by one of its own.
        replacement=_DENIAL,
        rewriting={"hook_specific_output": {"tool_input": "{value}"}},
        context={"hook_specific_output": {"additional_context": "{value}"}},
    )

    def decode(self, name: str, payload: Mapping[str, Any]) -> HookEvent:
        """Return the event *name* of *payload*; a sub-agent's belongs to its parent's session."""
        event = super().decode(name, payload)
        parent = optional_text(payload, "parent_session_id")
        return replace(event, session_id=parent, agent=event.session_id) if parent else event

    def read_result(self, payload: Mapping[str, Any]) -> ToolResponse:
        """Return the text that the model reads, followed by texts that only programs read."""
        text = optional_text(payload, "tool_output_text")
        structured = parts_in(payload.get("tool_output"), ResultTemplate())
        hidden = [part for part in structured if not _stands_in(part, text)]
        failed = payload.get("tool_status") != "success"
        return ToolResponse(content=(TextPart(text=text), *hidden), is_error=failed)

    def changed_result(self, event: HookEvent, response: ToolResponse) -> Json:
        """Return the answer with the model's text of *response*, without texts for programs."""
        before, text = event.response, response.text
        match response.content:
            case (TextPart(text=first), *rest) if before and len(rest) + 1 == len(before.content):
                text = first
        return filled(_DENIAL, event.name, text or EMPTY)

    def write(self, answer: Json, *undelivered: Ability) -> HookAnswer:
        """Return *answer*, or a notice in place of an answer that is too long."""
        made = super().write(answer, *undelivered)
        if len(made.stdout) <= _MAX_OUTPUT:
            return made
        return super().write(filled(_DENIAL, "", _TOO_LONG), *undelivered)

    def fail_closed_answer(self, name: str, payload: Any, reason: str) -> HookAnswer:
        """Return the answer that blocks the event *name*; an unknown event gets a denial."""
        if name in self.facts.kinds:
            return super().fail_closed_answer(name, payload, reason)
        return self.write(filled(_DENIAL, name, reason))


def _stands_in(part: Part, text: str) -> bool:
    return isinstance(part, TextPart) and part.text in text

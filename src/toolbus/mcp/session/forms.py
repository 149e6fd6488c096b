"""The form by which a client asks its person, and what is read from it.

See MCP 2025-11-25, client/elicitation, "Form Mode".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.approvals.display import channel_text

if TYPE_CHECKING:
    from toolbus.approvals import Question

ELICIT = "elicitation/create"

MAX_SHOWN = 10_000
"""Characters of a question that a form shows; what is longer is answered elsewhere."""

_SCHEMA = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Allow it", "description": "Run this tool call"}
    },
    "required": ["approve"],
}


def question_form(question: Question) -> dict[str, Any] | None:
    """Return the params of an elicitation that asks *question*; None if they would not show all."""
    text, is_whole = channel_text(question, MAX_SHOWN)
    return {"message": text, "requestedSchema": _SCHEMA} if is_whole else None


def verdict_of(result: Any) -> bool | None:
    """Return what the person said: only a filled-in form that approves is a yes; None: nothing."""
    match result:
        case {"action": "accept", "content": {"approve": True}}:
            return True
        case {"action": str()}:
            return False
    return None


def can_elicit(params: Any) -> bool:
    """Tell whether *params* of `initialize` declare a client that shows forms."""
    match params:
        case {"capabilities": {"elicitation": dict(modes)}}:
            return not modes or "form" in modes
    return False

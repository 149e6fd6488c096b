"""What a guard asks, put to the person in front of the client by the client's elicitation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.events.catalogue import Ask, Deny, Scope
from toolbus.mcp.proxy.frames import read_json
from toolbus.messages.records import ToolCall, encode

if TYPE_CHECKING:
    from toolbus.mcp.proxy.exchanges import Answer

ELICIT = "elicitation/create"

_LONGEST = 2_000
"""How many characters of a call's arguments a person gets to read."""

_SCHEMA = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Allow it", "description": "Run this tool call"}
    },
    "required": ["approve"],
}


def question(ask: Ask, call: ToolCall | None, _scope: Scope) -> dict[str, Any]:
    """Return the params of an elicitation that asks for *call*."""
    text = ask.prompt
    if call is not None:
        arguments = encode(call.arguments).decode()
        cut = arguments if len(arguments) <= _LONGEST else arguments[:_LONGEST] + " … (cut)"
        text = f"{text}\n\n{call.name} {cut}"
    return {"message": text, "requestedSchema": _SCHEMA}


def verdict(answer: Answer) -> bool | Deny:
    """Return what the person said: only a filled-in form that approves is a yes."""
    if answer.frame.failed or answer.frame.result is UNSET:
        return Deny("approval is needed, and the client could not ask")
    match read_json(answer.frame.result):
        case {"action": "accept", "content": {"approve": True}}:
            return True
    return Deny("approval was refused")


def can_elicit(params: Any) -> bool:
    """Tell whether *params* of `initialize` declare a client that shows forms."""
    match params:
        case {"capabilities": {"elicitation": dict(modes)}}:
            return not modes or "form" in modes
    return False

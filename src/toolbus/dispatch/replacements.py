"""What a replacement must keep of the value that it replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage

if TYPE_CHECKING:
    from toolbus.events import TransformEvent


def mismatch(event: TransformEvent[Any, Any], before: Any, after: Any) -> str | None:
    """Return what *after*, a replacement of *before*, must not change and did, or None."""
    if not event.accepts(after):
        return f"returned `{type(after).__name__}`, which the event does not take"
    kept = _identity(before)
    if kept and type(after) is not type(before):
        kept = ("role", *kept)
    for field in kept:
        # An event may take other types than messages as well, and those lack the field.
        old, new = getattr(before, field, None), getattr(after, field, None)
        if new is not old and new != old:
            return f"changed the {field}"
    return None


def _identity(value: object) -> tuple[str, ...]:
    """Return the fields of *value* that no handler may change, besides its role."""
    match value:
        case ToolMessage():
            return "id", "tool_call_id"
        case SystemMessage() | UserMessage() | AssistantMessage() | ToolCall():
            return ("id",)
    return ()

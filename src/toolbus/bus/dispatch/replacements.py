"""What a replacement must keep of the value that it replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.messages.records import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

if TYPE_CHECKING:
    from toolbus.events.catalogue import TransformEvent


def foreign(event: TransformEvent[Any, Any], after: object) -> str | None:
    """Return what *after*, which a handler of *event* gave, is instead of a value, or None."""
    return (
        None if event.accepts(after) else f"returned {kind(after)}, which the event does not take"
    )


def kind(given: object) -> str:
    """Return what *given* is, in words."""
    # A class is returned by whoever forgot to make an object of it.
    return (
        f"the class `{given.__name__}`" if isinstance(given, type) else f"`{type(given).__name__}`"
    )


def mismatch(event: TransformEvent[Any, Any], before: Any, after: Any) -> str | None:
    """Return what *after*, a replacement of *before*, must not change and did, or None."""
    if problem := foreign(event, after):
        return problem
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

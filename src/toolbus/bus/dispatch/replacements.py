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


IDENTITIES: dict[type, tuple[str, ...]] = {
    **dict.fromkeys((SystemMessage, UserMessage, AssistantMessage, ToolCall), ("id",)),
    ToolMessage: ("id", "tool_call_id"),
}
"""The fields of a record that no handler may change, besides its role."""


def foreign(event: TransformEvent[Any, Any], after: object) -> str | None:
    """Return what *after*, which a handler of *event* gave, is instead of a value, or None."""
    return (
        None if event.accepts(after) else f"returned {kind(after)}, which the event does not take"
    )


def kind(result: object) -> str:
    """Return what *result* is, in words."""
    if isinstance(result, type):  # By whoever forgot to make an object of it.
        return f"the class `{result.__name__}`"
    return f"`{type(result).__name__}`"


def mismatch(event: TransformEvent[Any, Any], before: Any, after: Any) -> str | None:
    """Return what *after*, a replacement of *before*, must not change and did, or None."""
    if problem := foreign(event, after):
        return problem
    fields = IDENTITIES.get(type(before), ())
    if fields and type(after) is not type(before):
        fields = ("role", *fields)
    for field in fields:
        # An event may take other types than messages as well, and those lack the field.
        old, new = getattr(before, field, None), getattr(after, field, None)
        if new is not old and new != old:
            return f"changed the {field}"
    return None

"""The walker that rewrites all texts of views: of timelines, histories, messages and calls."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, UnsetType, to_builtins

from toolbus.errors import DecodeError
from toolbus.messages.immutable import freeze
from toolbus.messages.record_walker import rewrite_call, rewrite_message
from toolbus.messages.records import (
    AssistantMessage,
    Message,
    ReasoningPart,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    decode,
    encode,
)
from toolbus.messages.text_walker import updated

if TYPE_CHECKING:
    from toolbus.messages.text_walker import TextVisitor

V = TypeVar("V")
S = TypeVar("S", bound=Struct)

_NAMES = ("id", "name", "tool_name", "tool_call_id", "stop_reason")
"""The fields of messages and calls that are identifiers, which the model chooses as well."""


def rewrite_view(view: V, visitor: TextVisitor) -> V:
    """Return *view* with every text in it rewritten by *visitor*.

    A view is a struct of this package, a message, a call, a text, or a tuple of these. A dict or a
    list in a struct is JSON. Raises `TypeError` for any other object, whose texts would be missed.
    """
    new: Any = view
    match view:
        case str():
            (new,) = visitor.texts((view,))
        case SystemMessage() | UserMessage() | AssistantMessage() | ToolMessage():
            new = _rewrite_message(view, visitor)
        case ToolCall():
            new = _rewrite_names(rewrite_call(view, visitor), visitor)
        case tuple():  # Also a row of a store, which is a named tuple.
            make = getattr(type(view), "_make", tuple)
            new = make([rewrite_view(item, visitor) for item in view])
        case dict() | list():
            new = visitor.json(freeze(view))
        case Struct():
            new = _rewrite_fields(view, visitor)
        case None | int() | float() | UnsetType():
            pass
        case _:
            raise TypeError(f"a view holds a {type(view).__name__}")
    return new  # type: ignore[no-any-return]  # of the type of what was rewritten


def _rewrite_fields(view: S, visitor: TextVisitor) -> S:
    """Return the struct *view* with its fields rewritten; a kept value may be a message."""
    fields = {name: getattr(view, name) for name in view.__struct_fields__}
    new = {name: rewrite_view(value, visitor) for name, value in fields.items() if name != "value"}
    if "value" in fields:
        new["value"] = _rewrite_value(fields["value"], visitor)
    return updated(view, **new)


def _rewrite_message(message: Message, visitor: TextVisitor) -> Message:
    """Return *message* rewritten, also its identifiers, without data for its provider alone."""
    new: Any = _rewrite_names(rewrite_message(message, visitor), visitor)
    if isinstance(new, AssistantMessage):
        calls = tuple([_rewrite_names(call, visitor) for call in new.tool_calls])
        reasoning = tuple([ReasoningPart(part.text) for part in new.reasoning])
        usage = visitor.json(new.usage)
        return updated(new, tool_calls=calls, reasoning=reasoning, usage=usage)
    if isinstance(new, ToolMessage) and new.tool_response is not None:
        return updated(new, tool_response=_rewrite_names(new.tool_response, visitor))
    return new  # type: ignore[no-any-return]  # of the type of what was rewritten


def _rewrite_names(record: S, visitor: TextVisitor) -> S:
    texts = {name: getattr(record, name, None) for name in _NAMES}
    return updated(
        record, **{name: rewrite_view(text, visitor) for name, text in texts.items() if text}
    )


def _rewrite_value(value: Any, visitor: TextVisitor) -> Any:
    """Return the JSON *value* rewritten: as a message, whose parts adjoin, if it is one."""
    if isinstance(value, dict) and "role" in value:
        with suppress(DecodeError):
            return to_builtins(rewrite_view(decode(encode(value)), visitor))
    return rewrite_view(value, visitor)

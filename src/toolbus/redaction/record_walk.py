"""The walk over whatever a report may show: a message, a call or a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from toolbus.messages.records import ToolCall
from toolbus.messages.text_walker import rewrite_call, rewrite_message

if TYPE_CHECKING:
    from toolbus.messages.text_walker import TextVisitor

R = TypeVar("R")


def rewrite_record(record: R, visitor: TextVisitor) -> R:
    """Return *record*, a message, a call or a text, rewritten."""
    new: object
    match record:
        case str():
            (new,) = visitor.texts((record,))
        case ToolCall():
            new = rewrite_call(record, visitor)
        case _:
            new = rewrite_message(record, visitor)  # type: ignore[arg-type]  # no text, no call
    return new  # type: ignore[return-value]  # of the type of what was rewritten

"""Rewriting of records for reports and stores, and the replacement of a withheld record."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from toolbus.messages.record_walker import rewrite_call, rewrite_message
from toolbus.messages.records import TextPart, ToolCall, ToolResponse

if TYPE_CHECKING:
    from toolbus.messages.text_walker import TextVisitor
    from toolbus.redaction.limits import UnexaminedError

R = TypeVar("R")


def rewrite_record(record: R, visitor: TextVisitor) -> R:
    """Return *record*, a message, a call or a text, rewritten by *visitor*."""
    new: object
    match record:
        case str():
            (new,) = visitor.texts((record,))
        case ToolCall():
            new = rewrite_call(record, visitor)
        case _:
            new = rewrite_message(record, visitor)  # type: ignore[arg-type]  # no text, no call
    return new  # type: ignore[return-value]  # of the type of what was rewritten


def stand_in(response: ToolResponse, reason: str) -> ToolResponse:
    """Return a replacement of *response*: facts of the call and *reason*, without its content."""
    return ToolResponse(
        content=(TextPart(text=reason),),
        is_error=True,
        error_type="withheld",
        tool_name=response.tool_name,
        tool_call_id=response.tool_call_id,
        duration_ns=response.duration_ns,
    )


def withheld(error: UnexaminedError, sought: str) -> str:
    """Return the text in place of a record that *error* kept from being scanned for *sought*."""
    return f"withheld because it could not be scanned for {sought}: {error.reason}"

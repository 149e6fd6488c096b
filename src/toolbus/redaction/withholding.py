"""What stands for a record that nobody has looked through: it must not pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.messages.records import TextPart, ToolResponse

if TYPE_CHECKING:
    from toolbus.redaction.limits import UnexaminedError


def stand_in(response: ToolResponse, reason: str) -> ToolResponse:
    """Return what stands for *response*: facts of the call, and nothing that anybody wrote."""
    return ToolResponse(
        content=(TextPart(text=reason),),
        is_error=True,
        error_type="withheld",
        tool_name=response.tool_name,
        tool_call_id=response.tool_call_id,
        duration_ns=response.duration_ns,
    )


def withheld(error: UnexaminedError, sought: str) -> str:
    """Return the reason that stands for what *error* is about, in which *sought* may be."""
    return f"withheld, for it was not examined for {sought}: {error.reason}"

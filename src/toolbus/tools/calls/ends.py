"""What is left of tool calls that have ended: the result as a model reads it, and their errors."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import ToolMessage

if TYPE_CHECKING:
    from toolbus.messages.records import Message, ToolResponse

logger = logging.getLogger("toolbus")


def raise_first(errors: list[BaseException]) -> None:
    """Raise the one of *errors* that its caller must get, and log the others."""
    errors.sort(key=lambda error: isinstance(error, Exception))  # An exit before the others.
    for other in errors[1:]:
        logger.error("one more error of the same tool calls", exc_info=other)
    if errors:
        raise errors[0]


def read_by_model(message: Message, response: ToolResponse) -> ToolResponse:
    """Return *response* as a handler may have replaced it: *message* holds what the model reads."""
    if isinstance(message, ToolMessage) and message.tool_response is not None:
        return message.tool_response
    return replace(response.with_text(message.text), metadata=EMPTY)

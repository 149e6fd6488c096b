"""Asking a model: whole or piece by piece, and what it gives must be an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.errors import ModelError
from toolbus.events.catalogue import ModelDelta
from toolbus.messages.immutable import mend_text
from toolbus.messages.records import AssistantMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.events.catalogue import ModelRequest
    from toolbus.models.protocol import Model


async def ask(
    model: Model, request: ModelRequest, on_delta: Callable[[ModelDelta], None] | None
) -> AssistantMessage:
    """Return the answer of *model*, streamed to *on_delta* if there is one.

    Raises `ModelError` for what is no answer, and whatever the model raises.
    """
    answer: object = None
    if on_delta is None:
        answer = await model.complete(request)
    else:
        answer = await _streamed(model, request, on_delta)
    if not isinstance(answer, AssistantMessage):
        reason = f"it gave `{type(answer).__name__}` instead of an AssistantMessage"
        raise ModelError(model.name, reason)
    return answer


async def _streamed(
    model: Model, request: ModelRequest, on_delta: Callable[[ModelDelta], None]
) -> AssistantMessage | None:
    """Show each delta of the stream; return its last answer."""
    answer = None
    async for item in model.stream(request):
        match item:
            case ModelDelta(text=text):
                sound = mend_text(text)
                on_delta(item if sound is text else replace(item, text=sound))
            case AssistantMessage():
                answer = item
            case other:
                reason = f"its stream gave `{type(other).__name__}`, which is no piece"
                raise ModelError(model.name, reason)
    return answer

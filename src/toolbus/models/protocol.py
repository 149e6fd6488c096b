"""The Model protocol: what an agent needs of a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from toolbus.events.catalogue import ModelDelta, ModelRequest
    from toolbus.messages.records import AssistantMessage


class Model(Protocol):
    """Answers requests; whatever it raises reaches `MODEL_CALL_ERROR`.

    A request with an `output_schema` asks for JSON. Where a server has no parameter for it,
    `toolbus.formats.output_schemas.with_schema_prompt` puts it into the messages.

    `toolbus.models.answers.given_call` makes a call of what a model gave, whatever that is, and
    `toolbus.messages.immutable.replace_surrogates` a text that every reader takes.

    >>> class Parrot:
    ...     name = "parrot"
    ...     async def complete(self, request):
    ...         return AssistantMessage(content=request.messages[-1].text)
    >>> Agent(Parrot()).run_sync("hello").text
    'hello'
    """

    @property
    def name(self) -> str:
        """Its name, for `ModelRequest.model`."""

    async def complete(self, request: ModelRequest) -> AssistantMessage:
        """Return the whole answer."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | AssistantMessage]:
        """Give the answer piece by piece, and at the end the whole of it."""


@runtime_checkable
class ClosableModel(Protocol):
    """A model with connections, which belong to an event loop."""

    async def aclose(self) -> None:
        """Close those of the running loop; a later request opens others."""


async def close_model(model: Model) -> None:
    """Close the connections of *model* in the running loop, if it is one that has any."""
    if isinstance(model, ClosableModel):
        await model.aclose()

"""The Model protocol, the interface of a language model for an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from toolbus.events.catalogue import ModelDelta, ModelRequest
    from toolbus.messages.records import AssistantMessage


class Model(Protocol):
    """Answers requests; its errors reach `MODEL_CALL_ERROR`.

    A request with an `output_schema` asks for JSON. If a server has no parameter for it,
    `toolbus.formats.output_schemas.with_schema_prompt` adds it to the messages.

    For unchecked output of a server, `toolbus.models.answers.given_call` creates a call, and
    `toolbus.messages.immutable.replace_surrogates` makes its text valid.

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
        """Return the complete answer."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | AssistantMessage]:
        """Yield the answer piece by piece, and at the end the complete answer."""


@runtime_checkable
class ClosableModel(Protocol):
    """A model with connections, each of one event loop."""

    async def aclose(self) -> None:
        """Close the connections of the running loop; a later request opens new ones."""


async def close_model(model: Model) -> None:
    """Close the connections of *model* in the running loop, if it has any."""
    if isinstance(model, ClosableModel):
        await model.aclose()

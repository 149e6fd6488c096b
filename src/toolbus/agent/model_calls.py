"""The model calls of a run: what is sent, what is released of an answer, and what if one fails."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from toolbus.agent.call_notes import failure_notes
from toolbus.errors import ModelError
from toolbus.events.catalogue import (
    MODEL_CALL_AFTER,
    MODEL_CALL_DELTA,
    MODEL_CALL_ERROR,
    ModelDelta,
    ModelFailure,
    ModelReply,
    ModelRequest,
    TurnEnd,
)
from toolbus.messages.records import ToolMessage
from toolbus.models.answers import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toolbus.agent.outputs import OutputType
    from toolbus.agent.release import Release
    from toolbus.agent.sessions import AgentSession
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.events.catalogue import Scope, TransformEvent
    from toolbus.messages.records import AssistantMessage
    from toolbus.tools.calls.advertised import AdvertisedTools

V = TypeVar("V")
Piece: TypeAlias = ModelDelta | ToolMessage | TurnEnd
logger = logging.getLogger("toolbus")


class ModelCalls:
    """The model calls of one run; *show* gets what is released of the answers."""

    def __init__(
        self, session: AgentSession, show: Callable[[Piece], None] | None, output: OutputType | None
    ) -> None:
        self._session, self._config, self._bus = session, session.config, session.config.bus
        self._show, self._output = show, output

    def request(self, advertised: AdvertisedTools) -> ModelRequest:
        """Return what is to be sent."""
        return ModelRequest(
            model=self._config.model.name,
            messages=tuple(self._session.transcript.messages),
            tools=tuple(advertised.specs.values()),
            settings=self._config.model_settings,
            output_schema=None if self._output is None else self._output.schema,
        )

    async def call(
        self, request: ModelRequest, release: Release | None, scope: Scope
    ) -> AssistantMessage:
        """Return the model's answer, or that of a handler; raises what the model raised."""
        clock = self._config.clock
        since = clock()
        try:
            on_delta = None if release is None else release.feed
            message = await ask(self._config.model, request, on_delta)
        except Exception as error:
            if release is not None and error is release.refusal:
                raise
            attempts = error.attempts if isinstance(error, ModelError) else 1
            self.note(failure_notes(scope, attempts, release))
            failure = ModelFailure(
                request=request,
                error_type=type(error).__name__,
                error_text=str(error),
                attempts=attempts,
            )
            answer: AssistantMessage | None = await self.answer(MODEL_CALL_ERROR, failure, scope)
            if answer is not None and release is not None and release.has_begun:
                logger.warning("pieces of the answer were shown, so no other one takes its place")
                raise
            if answer is None:
                raise
            return answer
        reply = ModelReply(request=request, message=message, duration_ns=clock() - since)
        self._bus.do(MODEL_CALL_AFTER, reply, scope=scope)
        return message

    def note(self, records: Iterable[DispatchRecord]) -> None:
        """Put *records* into the ledger."""
        for record in records:
            self._session.note(record)

    def release(self, delta: ModelDelta, scope: Scope) -> None:
        """Show a piece of an answer, and tell who observes it."""
        if self._bus.has_listeners(MODEL_CALL_DELTA):
            self._bus.do(MODEL_CALL_DELTA, delta, scope=scope)
        if self._show is not None:
            self._show(delta)

    async def answer(self, event: TransformEvent[V, Any], failure: V, scope: Scope) -> Any:
        """Return what a handler gives in place of *failure*, None if that stands."""
        context = await self._bus.apply(event, failure, scope=scope)
        return None if context.denied is not None else context.answer

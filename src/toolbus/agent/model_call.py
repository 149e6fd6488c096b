"""One model call of a run: its request, its answer, and its notes in the ledger."""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.bus.ledger.records import DispatchRecord
from toolbus.errors import ModelError
from toolbus.events.catalogue import (
    MODEL_CALL_AFTER,
    MODEL_CALL_DELTA,
    MODEL_CALL_ERROR,
    ModelFailure,
    ModelReply,
    ModelRequest,
)
from toolbus.messages.fields import replace_unchecked
from toolbus.models.answers import ask

if TYPE_CHECKING:
    from toolbus.agent.outputs import OutputType
    from toolbus.agent.sessions import AgentSession
    from toolbus.agent.streaming import StreamedAnswer
    from toolbus.bus.bus import EventBus
    from toolbus.events.catalogue import Scope, TransformEvent
    from toolbus.messages.records import AssistantMessage
    from toolbus.tools.calls.advertised import AdvertisedTools

V = TypeVar("V")


def request_of(
    session: AgentSession, advertised: AdvertisedTools, output: OutputType | None
) -> ModelRequest:
    """Return the request for the next answer in *session*."""
    config = session.config
    request = ModelRequest(
        model=config.model.name,
        messages=(),
        tools=tuple(advertised.specs.values()),
        settings=config.model_settings,
        output_schema=None if output is None else output.schema,
    )
    # The messages of a transcript are checked already; a check per model call would be slow.
    return replace_unchecked(request, messages=session.transcript.messages[:])


async def call_model(
    session: AgentSession, request: ModelRequest, scope: Scope, streamed: StreamedAnswer | None
) -> AssistantMessage:
    """Return the model's answer, or that of a handler of `MODEL_CALL_ERROR`.

    Pieces shown before a failure are void. Raises the model's error, and the `refusal` of
    *streamed*, which bypasses the handlers.
    """
    bus, clock = session.config.bus, session.config.clock
    since = clock()
    try:
        on_delta = None if streamed is None else streamed.feed
        message = await ask(session.config.model, request, on_delta)
    except Exception as error:
        if streamed is not None and error is streamed.refusal:
            raise
        attempts = error.attempts if isinstance(error, ModelError) else 1
        note_failure(session, scope, attempts, streamed)
        if streamed is not None:
            streamed.void()
        failure = ModelFailure(
            request=request,
            error_type=type(error).__name__,
            error_text=str(error),
            attempts=attempts,
        )
        answer: AssistantMessage | None = await answer_of(bus, MODEL_CALL_ERROR, failure, scope)
        if answer is None:
            raise
        return answer
    if bus.has_listeners(MODEL_CALL_AFTER):
        reply = ModelReply(request=request, message=message, duration_ns=clock() - since)
        bus.do(MODEL_CALL_AFTER, reply, scope=scope)
    return message


async def answer_of(bus: EventBus, event: TransformEvent[V, Any], failure: V, scope: Scope) -> Any:
    """Return the answer of a handler in place of *failure*, or None."""
    context = await bus.apply(event, failure, scope=scope)
    return None if context.denied is not None else context.answer


def note_answer(
    session: AgentSession, scope: Scope, message: AssistantMessage, streamed: StreamedAnswer | None
) -> None:
    """Record in the ledger the retries and increments of *message*, which is not judged yet."""
    retries = message.metadata.get("retries")
    if type(retries) is int and retries > 0:
        note = _record(MODEL_CALL_AFTER.name, scope, message.id, reason=_repeated(retries))
        session.note(note)
    note_increments(session, scope, streamed, message.id)


def note_failure(
    session: AgentSession, scope: Scope, attempts: int, streamed: StreamedAnswer | None
) -> None:
    """Record in the ledger that the model failed after several *attempts*."""
    if attempts > 1:
        reason = _repeated(attempts - 1)
        session.note(_record(MODEL_CALL_ERROR.name, scope, outcome="raised", reason=reason))
    note_increments(session, scope, streamed)


def note_increments(
    session: AgentSession, scope: Scope, streamed: StreamedAnswer | None, message_id: str = ""
) -> None:
    """Record in the ledger the text that handlers released before the answer was complete."""
    entries = () if streamed is None else streamed.increments.entries()
    if entries:
        reason = "shown before the answer was complete"
        note = _record(MODEL_CALL_DELTA.name, scope, message_id, reason=reason, entries=entries)
        session.note(note)


def _repeated(retries: int) -> str:
    return f"the request was repeated {retries} time{'s'[: retries > 1]}"


def _record(event: str, scope: Scope, subject: str = "", **facts: Any) -> DispatchRecord:
    # No value was dispatched, so there is no digest.
    whole = {"outcome": "observed", "duration_ns": 0, "original": "", **facts}
    return DispatchRecord(event=event, scope=scope, subject=subject, started_ns=time_ns(), **whole)

"""The requests of Pydantic AI to its model on the bus."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models import CompletedStreamedResponse
from pydantic_ai.models.wrapper import WrapperModel

from toolbus import events
from toolbus.bridges.bridged_call import BridgeError
from toolbus.bridges.pydantic_ai.values import (
    message_of,
    records_of,
    spec_of,
    with_answer,
    with_text,
)
from toolbus.bridges.session import PromptDenied

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from pydantic_ai.models import Model, ModelRequestParameters

    from toolbus.bridges.session import BridgeSession
    from toolbus.messages.records import AssistantMessage

    Judge = Callable[[ModelResponse, ModelRequestParameters], Awaitable[ModelResponse]]

_EVENTS = (events.MODEL_CALL_BEFORE, events.MODEL_CALL_AFTER, events.MODEL_CALL_ERROR)


class _SentRequest(NamedTuple):
    """A *request*, sent with *args* of the framework, or the *answer* of a handler to it."""

    args: tuple[Any, ...]
    since: int
    request: events.ModelRequest | None = None
    answer: ModelResponse | None = None


class BridgedModel(WrapperModel):
    """A model whose requests pass the components of *session*, and its answers *judge*.

    A streamed answer is held back until it is complete if handlers may change or replace it.
    """

    def __init__(self, wrapped: Model, session: BridgeSession, judge: Judge) -> None:
        super().__init__(wrapped)
        self._host, self._scope, self._judge = session.host, session.scope, judge

    async def request(self, *args: Any) -> ModelResponse:
        """Return the model's answer as handlers left it."""
        return await self._answer(await self._begin(args), super().request)

    @asynccontextmanager
    async def request_stream(self, *args: Any) -> AsyncGenerator[Any]:
        """Yield the stream of the model's answer."""
        sent = await self._begin(args)
        is_held = self._host.judges("assistant") or self._host.bus.handlers(events.MODEL_CALL_ERROR)
        if sent.answer is None and not is_held:
            async with super().request_stream(*sent.args) as stream:
                yield stream
            self._end(sent, stream.get())
            return
        response = await self._answer(sent, self._complete_stream)
        yield CompletedStreamedResponse(
            response, model_request_parameters=args[2], replay_events=True
        )

    async def _complete_stream(self, *args: Any) -> ModelResponse:
        async with super().request_stream(*args) as stream:
            async for _ in stream:
                pass
        return stream.get()

    async def _answer(
        self, sent: _SentRequest, send: Callable[..., Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """Return the model's answer as handlers left it, or theirs in place of its failure."""
        response = sent.answer
        if response is None:
            try:
                response = await send(*sent.args)
            except Exception as error:  # noqa: BLE001 - raised unless a handler answers
                response = await self._fail(sent, error)
            else:
                self._end(sent, response)
        return await self._judge(response, sent.args[2])

    async def _begin(self, args: tuple[Any, ...]) -> _SentRequest:
        """Put a request with *args* on the bus; raises `PromptDenied`."""
        # Only for handlers: the ledger would make each request translate the whole history.
        if not any(self._host.bus.handlers(event) for event in _EVENTS):
            return _SentRequest(args, 0)
        history, *others = args
        request = events.ModelRequest(
            model=self.model_name,
            messages=tuple([record for each in history for _, record in records_of(each)]),
            tools=tuple([spec_of(tool) for tool in args[2].function_tools]),
        )
        context = await self._apply(events.MODEL_CALL_BEFORE, request)
        if context.denied is not None:
            raise PromptDenied(context.denied.reason)
        answer = None if context.answer is None else _response(context.answer)
        args = (_with_texts(history, request, context.value), *others)
        return _SentRequest(args, perf_counter_ns(), context.value, answer)

    def _end(self, sent: _SentRequest, response: ModelResponse) -> None:
        if sent.request is not None:
            message, duration = message_of(response), perf_counter_ns() - sent.since
            reply = events.ModelReply(request=sent.request, message=message, duration_ns=duration)
            self._host.bus.do(events.MODEL_CALL_AFTER, reply, scope=self._scope)

    async def _fail(self, sent: _SentRequest, error: Exception) -> ModelResponse:
        """Return the answer of a handler in place of *error*, or raise that."""
        if sent.request is None:
            raise error
        failure = events.ModelFailure(
            request=sent.request, error_type=type(error).__name__, error_text=str(error)
        )
        context = await self._apply(events.MODEL_CALL_ERROR, failure)
        if context.denied is not None or context.answer is None:
            raise error
        return _response(context.answer)

    async def _apply(self, event: Any, value: Any) -> Any:
        return await self._host.bus.apply(event, value, scope=self._scope)


def _response(message: AssistantMessage) -> ModelResponse:
    """Return the text of a handler's *message* as the model's response."""
    return ModelResponse(parts=[TextPart(message.text)])


def _with_texts(
    history: list[Any], before: events.ModelRequest, after: events.ModelRequest
) -> list[Any]:
    """Return *history*, which was *before*, with the texts of *after*.

    Raises `BridgeError` if a handler has changed more than texts.
    """
    if after is before:
        return history
    if structs.replace(after, messages=before.messages) != before or [
        each.with_text("") for each in after.messages
    ] != [each.with_text("") for each in before.messages]:
        raise BridgeError("of a request of Pydantic AI handlers can change the texts only")
    changed, texts = [*history], iter(after.messages)
    for number, message in enumerate(history):
        for place, record in records_of(message):
            text = next(texts).text
            if text != record.text:
                changed[number] = _with_text(changed[number], place, text)
    return changed


def _with_text(message: Any, place: int, text: str) -> Any:
    if isinstance(message, ModelResponse):
        return with_answer(message, text)
    part = message.parts[place]
    content = with_text(part.content, text) if part.part_kind == "user-prompt" else text
    parts = [*message.parts[:place], replace(part, content=content), *message.parts[place + 1 :]]
    return replace(message, parts=parts)

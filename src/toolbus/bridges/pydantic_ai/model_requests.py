"""The requests of Pydantic AI to its model on the bus."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from pydantic_ai.models import CompletedStreamedResponse
from pydantic_ai.models.wrapper import WrapperModel

from toolbus import events
from toolbus.bridges.bridged_call import BridgeError
from toolbus.bridges.pydantic_ai.request_messages import (
    changed_history,
    message_of,
    origins_of,
    response_of_message,
)
from toolbus.bridges.pydantic_ai.values import definition_of, spec_of
from toolbus.bridges.session import PromptDenied
from toolbus.messages.immutable import thaw

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters

    from toolbus.bridges.session import BridgeSession

    Judge = Callable[[ModelResponse, ModelRequestParameters], Awaitable[ModelResponse]]
    Arguments = tuple[list[ModelMessage], Any, ModelRequestParameters]

_EVENTS = (events.MODEL_CALL_BEFORE, events.MODEL_CALL_AFTER, events.MODEL_CALL_ERROR)
_PLAIN = (str, int, float, bool, list, dict)


class RequestedAnswer:
    """A request to the model *name*, with the *arguments* of the framework's model."""

    def __init__(self, session: BridgeSession, name: str, arguments: Arguments) -> None:
        self.session, self.arguments = session, arguments
        history, settings, parameters = arguments
        self._since, self._origins = perf_counter_ns(), origins_of(history)
        self._tools = {tool.name: tool for tool in parameters.function_tools}
        self._request = events.ModelRequest(
            model=name,
            messages=tuple([origin.message for origin in self._origins]),
            tools=tuple([spec_of(tool) for tool in parameters.function_tools]),
            settings={
                key: value for key, value in (settings or {}).items() if isinstance(value, _PLAIN)
            },
        )

    async def begin(self) -> ModelResponse | None:
        """Put the request on the bus, and keep it as handlers left it; return their answer.

        Raises `PromptDenied`.
        """
        bus, scope = self.session.host.bus, self.session.scope
        context = await bus.apply(events.MODEL_CALL_BEFORE, self._request, scope=scope)
        if context.denied is not None:
            raise PromptDenied(context.denied.reason)
        if context.answer is not None:
            return response_of_message(context.answer)
        if context.value is not self._request:
            self._change(context.value)
        return None

    def end(self, response: ModelResponse) -> None:
        """Put the model's *response* on the bus."""
        reply = events.ModelReply(
            request=self._request,
            message=message_of(response),
            duration_ns=perf_counter_ns() - self._since,
        )
        self.session.host.bus.do(events.MODEL_CALL_AFTER, reply, scope=self.session.scope)

    async def fail(self, error: Exception) -> ModelResponse:
        """Return the answer of a handler in place of the model's *error*, or raise that."""
        failure = events.ModelFailure(
            request=self._request, error_type=type(error).__name__, error_text=str(error)
        )
        bus, scope = self.session.host.bus, self.session.scope
        context = await bus.apply(events.MODEL_CALL_ERROR, failure, scope=scope)
        if context.denied is not None or context.answer is None:
            raise error
        return response_of_message(context.answer)

    def _change(self, request: events.ModelRequest) -> None:
        history, settings, parameters = self.arguments
        if request.model != self._request.model:
            raise BridgeError("Pydantic AI has chosen the model before its request")
        if request.messages != self._request.messages:
            history = changed_history(history, self._origins, request.messages)
        if request.tools != self._request.tools:
            shown = [
                definition_of(spec, self._tools[spec.name])
                for spec in request.tools
                if spec.name in self._tools
            ]
            parameters = replace(parameters, function_tools=shown)
        if request.settings != self._request.settings:
            unseen = {
                key: value
                for key, value in (settings or {}).items()
                if key not in self._request.settings
            }
            settings = {**unseen, **thaw(request.settings)}
        self._request, self.arguments = request, (history, settings, parameters)


class BridgedModel(WrapperModel):
    """A model whose requests pass the components of *session*, and its answers *judge*.

    A streamed answer is held back until it is complete if handlers may change or replace it.
    """

    def __init__(self, wrapped: Model, session: BridgeSession, judge: Judge) -> None:
        super().__init__(wrapped)
        self._session, self._judge = session, judge

    async def request(self, *args: Any, **options: Any) -> ModelResponse:
        """Return the model's answer as handlers left it."""
        asked = self._asked(args)
        if asked is None:
            response = await super().request(*args, **options)
        elif (answer := await asked.begin()) is not None:
            response = answer
        else:
            try:
                response = await super().request(*asked.arguments, **options)
            except Exception as error:  # noqa: BLE001 - raised unless a handler answers
                response = await asked.fail(error)
            else:
                asked.end(response)
        return await self._judge(response, args[2])

    @asynccontextmanager
    async def request_stream(self, *args: Any, **options: Any) -> AsyncGenerator[Any]:
        """Yield the stream of the model's answer."""
        asked = self._asked(args)
        response = None if asked is None else await asked.begin()
        if response is None and not self._holds_answers:
            sent = args if asked is None else (*asked.arguments, *args[3:])
            async with super().request_stream(*sent, **options) as stream:
                yield stream
            if asked is not None:
                asked.end(stream.get())
            return
        if response is None:
            response = await self._streamed(asked, args, options)
        response = await self._judge(response, args[2])
        yield CompletedStreamedResponse(
            response, model_request_parameters=args[2], replay_events=True
        )

    async def _streamed(
        self, asked: RequestedAnswer | None, args: tuple[Any, ...], options: dict[str, Any]
    ) -> ModelResponse:
        """Return a complete answer of the model's stream, or that of a handler of its failure."""
        sent = args if asked is None else (*asked.arguments, *args[3:])
        try:
            async with super().request_stream(*sent, **options) as stream:
                async for _ in stream:
                    pass
        except Exception as error:
            if asked is None:
                raise
            return await asked.fail(error)
        response = stream.get()
        if asked is not None:
            asked.end(response)
        return response

    @property
    def _holds_answers(self) -> bool:
        host = self._session.host
        return host.judges("assistant") or bool(host.bus.handlers(events.MODEL_CALL_ERROR))

    def _asked(self, args: tuple[Any, ...]) -> RequestedAnswer | None:
        """Return the request, if a handler is there for requests to the model."""
        # Only for handlers: the ledger would make each request translate the whole history.
        if not any(self._session.host.bus.handlers(event) for event in _EVENTS):
            return None
        return RequestedAnswer(self._session, self.model_name, args[:3])

"""Requests to the model and its answers, as handlers leave them."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import ModelResponse
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp

from toolbus.bridges.langchain.messages import message_like, record_of, with_text
from toolbus.bridges.session import PromptDenied
from toolbus.events.catalogue import (
    MODEL_CALL_AFTER,
    MODEL_CALL_BEFORE,
    MODEL_CALL_ERROR,
    ModelFailure,
    ModelReply,
    ModelRequest,
)
from toolbus.messages.immutable import thaw
from toolbus.messages.records import AssistantMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.bridges.langchain.bridge import LangChainBridge
    from toolbus.bridges.session import BridgeSession
    from toolbus.events.catalogue import ToolSpec

_EVENTS = (MODEL_CALL_BEFORE, MODEL_CALL_ERROR, MODEL_CALL_AFTER)


class ModelCall:
    """A *request* of the agent of *session* to its model."""

    def __init__(self, bridge: LangChainBridge, session: BridgeSession, request: Any) -> None:
        self._bridge, self._session, self._request = bridge, session, request
        self._bus, self._scope = bridge.host.bus, session.scope
        self._tools = {each.name: each for each in request.tools if isinstance(each, BaseTool)}

    async def run(self, ask: Callable[[Any], Awaitable[ModelResponse[Any]]]) -> ModelResponse[Any]:
        """Return the response of *ask*, the model, or that of a handler, with the texts it left."""
        shown = await self._bridge.adapt_tools(self._session, self._tools.values())
        # Not made for a ledger alone: the whole history becomes records at each request.
        if any(self._bus.bindings_for(event, self._scope) for event in _EVENTS):
            response = await self._judged(shown, ask)
        else:
            response = await ask(self._request.override(tools=self._offered(shown)))
        return replace(response, result=[await self._answer(each) for each in response.result])

    async def _judged(
        self, shown: tuple[ToolSpec, ...], ask: Callable[[Any], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Take the request through its handlers, the model, and the handlers of its failure.

        Raises `PromptDenied`.
        """
        # Classes of models differ in the attribute of the name.
        model = self._request.model
        asked = ModelRequest(
            model=getattr(model, "model_name", None) or getattr(model, "model", None) or "",
            messages=tuple([record_of(message) for message in self._messages()]),
            tools=shown,
        )
        context = await self._bus.apply(MODEL_CALL_BEFORE, asked, scope=self._scope)
        if context.denied is not None:
            raise PromptDenied(context.denied.reason)
        if isinstance(context.answer, AssistantMessage):
            return ModelResponse(result=[message_like(context.answer)])
        if context.value.tools != shown:
            self._session.offer_only(context.value.tools)
        since = perf_counter_ns()
        try:
            response = await ask(self._changed(asked, context.value))
        except GraphBubbleUp:
            raise
        except Exception as error:  # noqa: BLE001 - raised again unless a handler answers
            return await self._failed(context.value, error)
        message: Any = record_of(response.result[0])
        duration = perf_counter_ns() - since
        reply = ModelReply(request=context.value, message=message, duration_ns=duration)
        self._bus.do(MODEL_CALL_AFTER, reply, scope=self._scope)
        return response

    async def _failed(self, asked: ModelRequest, error: Exception) -> ModelResponse[Any]:
        """Return the response of a handler in place of *error*, or raise *error*."""
        failure = ModelFailure(
            request=asked, error_type=type(error).__name__, error_text=str(error)
        )
        context = await self._bus.apply(MODEL_CALL_ERROR, failure, scope=self._scope)
        if context.denied is not None or not isinstance(context.answer, AssistantMessage):
            raise error
        return ModelResponse(result=[message_like(context.answer)])

    async def _answer(self, message: Any) -> Any:
        if not isinstance(message, AIMessage) or (message.tool_calls and not message.text):
            return message
        text = await self._session.answer(message.text)
        return message if text == message.text else with_text(message, text)

    def _messages(self) -> list[Any]:
        system = self._request.system_message
        return [*([] if system is None else [system]), *self._request.messages]

    def _changed(self, before: ModelRequest, after: ModelRequest) -> Any:
        """Return the request with the tools and messages of *after*; it was *before*."""
        request = self._request.override(tools=self._offered(after.tools))
        if after.messages == before.messages:
            return request
        originals = {
            record.id: (record, message)
            for record, message in zip(before.messages, self._messages(), strict=True)
        }
        messages = []
        for record in after.messages:
            known, original = originals.get(record.id, (None, None))
            messages.append(original if record == known else message_like(record, original))
        has_system = bool(messages) and isinstance(messages[0], SystemMessage)
        system = messages.pop(0) if has_system else None
        return request.override(system_message=system, messages=messages)

    def _offered(self, shown: tuple[ToolSpec, ...]) -> list[Any]:
        """Return *shown* as tools for the model, with the hosted tools, which are dicts."""
        hosted = [tool for tool in self._request.tools if not isinstance(tool, BaseTool)]
        specs = {name: self._bridge.guard_tool(tool).spec for name, tool in self._tools.items()}
        return [
            *[
                self._tools[spec.name] if spec == specs.get(spec.name) else _function(spec)
                for spec in shown
            ],
            *hosted,
        ]


def _function(spec: ToolSpec) -> dict[str, Any]:
    """Return *spec* in the form that `bind_tools` of every model takes."""
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": thaw(spec.input_schema),
    }
    return {"type": "function", "function": function}

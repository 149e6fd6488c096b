"""Requests to the model and its answers, as handlers leave them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import ModelResponse
from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langchain_core.runnables.config import set_config_context
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphBubbleUp

from toolbus.bridges.langchain.model_messages import message_like, record_of, with_text
from toolbus.bridges.langchain.tool_messages import message_of
from toolbus.events.catalogue import (
    MODEL_CALL_AFTER,
    MODEL_CALL_BEFORE,
    MODEL_CALL_ERROR,
    ModelFailure,
    ModelReply,
    ModelRequest,
)
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import thaw
from toolbus.messages.records import AssistantMessage, ToolCall

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from toolbus.bridges.langchain.bridge import LangChainBridge
    from toolbus.bridges.session import BridgeSession
    from toolbus.events.catalogue import ToolSpec
    from toolbus.messages.records import Message

_EVENTS = (MODEL_CALL_BEFORE, MODEL_CALL_ERROR, MODEL_CALL_AFTER)


class ModelCall:
    """A *request* of the agent of *session* to its model, and the end of that."""

    def __init__(self, bridge: LangChainBridge, session: BridgeSession, request: Any) -> None:
        self._bridge, self._session, self.request = bridge, session, request
        self._bus = bridge.host.bus
        self._record: ModelRequest | None = None
        self._since = perf_counter_ns()

    async def begin(self) -> ModelResponse[Any] | None:
        """Return the response in place of the model's, or None for the model to be asked."""
        tools = self._tools()
        shown = await self._show_tools(tools)
        scope = self._session.scope
        # Not made for a ledger alone: the whole history becomes records at each request.
        if not any(self._bus.bindings_for(event, scope) for event in _EVENTS):
            return None
        record = ModelRequest(
            model=_name_of(self.request.model),
            messages=tuple([record_of(message) for message in self._messages()]),
            tools=shown,
        )
        context = await self._bus.apply(MODEL_CALL_BEFORE, record, scope=scope)
        if context.denied is not None:
            self._bridge.deny_run(self._session, context.denied.reason)
            return ModelResponse(result=[AIMessage(context.denied.reason)])
        if isinstance(context.answer, AssistantMessage):
            return await self._judged(ModelResponse(result=[message_like(context.answer)]))
        self._record = context.value
        if context.value.tools != shown:
            self._session.offer_only(context.value.tools)
            self._put_tools(tools, context.value.tools)
        self._change_messages(record.messages, context.value.messages)
        return None

    async def fail(self, error: Exception) -> ModelResponse[Any]:
        """Return the response of a handler in place of *error*, or raise *error*."""
        if self._record is None or isinstance(error, GraphBubbleUp):
            raise error
        failure = ModelFailure(
            request=self._record, error_type=type(error).__name__, error_text=str(error)
        )
        context = await self._bus.apply(MODEL_CALL_ERROR, failure, scope=self._session.scope)
        if context.denied is not None or not isinstance(context.answer, AssistantMessage):
            raise error
        return await self._judged(ModelResponse(result=[message_like(context.answer)]))

    async def end(self, response: ModelResponse[Any]) -> ModelResponse[Any]:
        """Return *response* of the model with the texts that handlers left."""
        message = record_of(response.result[-1])
        if self._record is not None and isinstance(message, AssistantMessage):
            duration = perf_counter_ns() - self._since
            reply = ModelReply(request=self._record, message=message, duration_ns=duration)
            self._bus.do(MODEL_CALL_AFTER, reply, scope=self._session.scope)
        return await self._judged(response)

    async def _judged(self, response: ModelResponse[Any]) -> ModelResponse[Any]:
        messages = []
        for message in response.result:
            messages.append(await _judged(self._session, message))
            if isinstance(message, AIMessage):
                messages += await self._end_malformed(message)
        return replace(response, result=messages)

    async def _end_malformed(self, message: AIMessage) -> list[ToolMessage]:
        """Return the results of calls whose arguments are not JSON, if *message* has other calls.

        langchain 1.5: no tool node sees them, and the run ends if there is no other call.
        """
        tools, results = self._tools(), []
        for malformed in message.invalid_tool_calls:
            name, call_id = malformed["name"] or "unknown", malformed["id"] or new_id()
            call = ToolCall(id=call_id, name=name, raw=malformed["args"] or "")
            tool = tools.get(name)
            spec = None if tool is None else self._bridge.guard_tool(tool).spec
            end = await self._session.call(call, spec, run_nothing)
            results.append(message_of(end.response, call))
        return results if message.tool_calls else []

    # --- the request -----------------------------------------------------------------------------

    def _messages(self) -> list[Any]:
        system = self.request.system_message
        return [*([] if system is None else [system]), *self.request.messages]

    def _change_messages(self, before: Sequence[Message], after: Sequence[Message]) -> None:
        """Put *after*, records of messages that were *before*, into the request."""
        if after == before:
            return
        pairs = [*zip(before, self._messages(), strict=True)]
        unchanged = {id(record): message for record, message in pairs}
        originals = {record.id: message for record, message in pairs}
        messages = [
            unchanged.get(id(record)) or message_like(record, originals.get(record.id))
            for record in after
        ]
        has_system = bool(messages) and isinstance(messages[0], SystemMessage)
        self.request = self.request.override(
            system_message=messages[0] if has_system else None, messages=messages[has_system:]
        )

    def _tools(self) -> dict[str, BaseTool]:
        return {tool.name: tool for tool in self.request.tools if isinstance(tool, BaseTool)}

    async def _show_tools(self, tools: dict[str, BaseTool]) -> tuple[ToolSpec, ...]:
        shown = await self._bridge.adapt_tools(self._session, tools.values())
        if shown != tuple(self._bridge.guard_tool(tool).spec for tool in tools.values()):
            self._put_tools(tools, shown)
        return shown

    def _put_tools(self, tools: dict[str, BaseTool], shown: tuple[ToolSpec, ...]) -> None:
        """Put *shown* into the request; hosted tools, which are dicts, stay."""
        hosted = [tool for tool in self.request.tools if not isinstance(tool, BaseTool)]
        specs = {name: self._bridge.guard_tool(tool).spec for name, tool in tools.items()}
        offered = [
            tools[spec.name] if spec == specs.get(spec.name) else _function(spec) for spec in shown
        ]
        self.request = self.request.override(tools=[*offered, *hosted])


async def run_nothing(_: dict[str, Any]) -> Any:
    """Raise, in place of the tool of a call that has none."""
    raise LookupError("there is no such tool")


def respond(handler: Callable[[Any], Any], request: Any, *, late: bool) -> Any:
    """Return what *handler* returns for *request*.

    langgraph 1.2: the stream "messages" shows a model's tokens at once, unless the request has a
    tag. With *late* it has it, and the stream shows the message that leaves the node.
    """
    if not late:
        return handler(request)
    with set_config_context(_tagged()) as context:
        return context.run(handler, request)


async def respond_async(
    handler: Callable[[Any], Awaitable[Any]], request: Any, *, late: bool
) -> Any:
    """Do as `respond`."""

    async def work() -> Any:
        return await handler(request)

    if not late:
        return await work()
    with set_config_context(_tagged()) as context:
        return await asyncio.create_task(work(), context=context)


def _tagged() -> Any:
    config = get_config()
    return {**config, "tags": [*(config.get("tags") or ()), TAG_NOSTREAM]}


async def _judged(session: BridgeSession, message: Any) -> Any:
    if not isinstance(message, AIMessage) or (message.tool_calls and not message.text):
        return message
    text = await session.answer(message.text)
    return message if text == message.text else with_text(message, text)


def _name_of(model: Any) -> str:
    # Classes of models differ in the attribute of the name.
    return getattr(model, "model_name", None) or getattr(model, "model", None) or ""


def _function(spec: ToolSpec) -> dict[str, Any]:
    """Return *spec* in the form that `bind_tools` of every model takes."""
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": thaw(spec.input_schema),
    }
    return {"type": "function", "function": function}

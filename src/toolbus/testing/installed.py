"""A component while it is checked: installed, and its adapters reached through its handlers."""

from __future__ import annotations

from contextlib import contextmanager
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from toolbus.bus.dispatch.contexts import EventContext
from toolbus.components.adapters import ToolAdapter, with_context
from toolbus.components.components import AgentComponent
from toolbus.components.participants import ComponentHost
from toolbus.errors import DeadlineError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    TOOL_CALL_BEFORE,
    TOOLS_PROVIDE,
    Scope,
    ToolSpec,
)
from toolbus.messages.records import ToolCall, ToolMessage, ToolResponse
from toolbus.testing.limits import Stopwatch, TimeIsUp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.components.adapters import AdapterContext
    from toolbus.events.catalogue import TransformEvent

_SCOPE = Scope(agent_id="checked", session_id="checked")


@contextmanager
def installed(subject: object, limit: float) -> Iterator[Stopwatch]:
    """Give what runs the functions of *subject*, which is installed meanwhile if a component."""
    watch = Stopwatch(limit)
    try:
        if not isinstance(subject, AgentComponent) or subject.host is not None:
            yield watch
            return
        host = ComponentHost(scope=_SCOPE)
        subject.setup(host)
        try:
            watch.run(lambda: subject.install(host))
            try:
                yield watch
            finally:
                watch.run(subject.close)
        finally:
            subject.teardown()
    except TimeIsUp:
        raise DeadlineError(limit) from None
    finally:
        watch.close()


@contextmanager
def alone(component: AgentComponent, adapter: ToolAdapter) -> Iterator[ToolAdapter]:
    """Give *adapter* as its *component* uses it: behind the component's own handlers.

    Those may do more than ours, such as tell their adapters who speaks. The component's other
    adapters are out of the way meanwhile.
    """
    adapters, probe = component.adapters, _Probe(adapter)
    for each in adapters:
        component.unregister_tool_adapter(each)
    component.register_tool_adapter(probe)
    try:
        yield _Reached(component, adapter, probe)
    finally:
        component.unregister_tool_adapter(probe)
        for each in adapters:
            component.register_tool_adapter(each)


class _Probe(ToolAdapter):
    """Stands in a component in place of an adapter, and keeps what that did."""

    def __init__(self, adapter: ToolAdapter) -> None:
        self._adapter = adapter
        self.result: Any = None
        self.error: BaseException | None = None

    async def adapt_signature(self, spec: ToolSpec, ctx: AdapterContext) -> None:
        await self._keep(self._adapter.adapt_signature, spec, ctx=ctx)

    async def adapt_parameters(self, call: ToolCall, ctx: AdapterContext) -> None:
        await self._keep(self._adapter.adapt_parameters, call, ctx=ctx)

    async def adapt_response(
        self, response: ToolResponse, call: ToolCall, ctx: AdapterContext
    ) -> None:
        await self._keep(self._adapter.adapt_response, response, call, ctx=ctx)

    async def _keep(
        self, method: Callable[..., Any], *arguments: object, ctx: AdapterContext
    ) -> None:
        try:
            result = with_context(method)(*arguments, ctx=ctx)
            self.result = await result if isawaitable(result) else result
        except BaseException as error:
            self.error = error
            raise


class _Reached(ToolAdapter):
    """An adapter that is called by way of the handlers of its component."""

    def __init__(self, component: AgentComponent, adapter: ToolAdapter, probe: _Probe) -> None:
        self.name, self.tools = adapter.name, adapter.tools
        self._component, self._adapter, self._probe = component, adapter, probe

    def should_adapt(self, tool_name: str) -> bool:
        # Of a component that was restricted, only its tools arrive there.
        return self._component.is_for(tool_name) and self._adapter.should_adapt(tool_name)

    def adapt_signature(self, spec: ToolSpec) -> Any:
        handler = self._component._on_tools_provide_adapter  # noqa: SLF001 - public in effect
        return self._through(handler, TOOLS_PROVIDE, (spec,))

    def adapt_parameters(self, call: ToolCall) -> Any:
        handler = self._component._on_tool_call_before_adapter  # noqa: SLF001 - as above
        return self._through(handler, TOOL_CALL_BEFORE, call)

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> Any:
        handler = self._component._on_message_append_before_adapter  # noqa: SLF001 - as above
        message = ToolMessage(
            id="m-1", tool_call_id=call.id, tool_name=call.name, tool_response=response
        )
        return self._through(handler, MESSAGE_APPEND_BEFORE, message)

    async def _through(
        self, handler: Callable[..., Any], event: TransformEvent[Any, Any], value: Any
    ) -> Any:
        self._probe.result = self._probe.error = None
        await handler(EventContext(event, value, scope=_SCOPE))
        if self._probe.error is not None:
            raise self._probe.error
        return self._probe.result

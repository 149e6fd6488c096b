"""The handlers by which a component applies its adapters: sync ones if all adapters are sync."""

from __future__ import annotations

from inspect import unwrap
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.bus.dispatch.callables import Composite, is_async
from toolbus.components.adapters import ToolAdapter
from toolbus.errors import DispatchError
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE, TOOLS_PROVIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.components import AgentComponent
    from toolbus.events.catalogue import Event

AdapterMethod: TypeAlias = "Callable[[EventContext[Any]], Coroutine[Any, Any, Any]]"

_AWAITED = {
    TOOLS_PROVIDE: ("adapt_signature",),
    TOOL_CALL_BEFORE: ("adapt_parameters",),
    # The signature tells the schema that an adapted result has to fit.
    MESSAGE_APPEND_BEFORE: ("adapt_response", "adapt_signature"),
}
"""The methods of adapters that are awaited at an event, if they are async."""

_LISTED = {
    TOOLS_PROVIDE: ("adapt_signature",),
    # Filling comes after all handlers; here its adapter is chosen.
    TOOL_CALL_BEFORE: ("adapt_parameters", "fill_parameters"),
    MESSAGE_APPEND_BEFORE: ("adapt_response",),
}
"""The methods by which an adapter takes part in an event."""


class AdapterHandler(Composite):
    """A handler of *event* that applies the adapters of *component* by its async *method*.

    It is sync, for sync adapters: their results need no task and no turn of the event loop.
    """

    __slots__ = ("component", "event", "method")

    def __init__(self, component: AgentComponent, event: Event, method: AdapterMethod) -> None:
        self.component, self.event, self.method = component, event, method

    def __call__(self, ctx: EventContext[Any]) -> Any:
        """Apply the adapters; a sync method that returns an awaitable which waits has failed."""
        running = self.method(ctx)
        try:
            running.send(None)
            reason = "an adapter waits; declare its method with `async def`"
            way_out = "in a test, use `async with` and `bus.apply`"
            # Raised in the adapter, so that its own policy decides, and the ledger names it.
            running.throw(DispatchError(self.event.name, f"{reason}, and {way_out}"))
        except StopIteration as end:
            return end.value
        finally:
            running.close()

    def methods(self) -> list[tuple[ToolAdapter, Callable[..., Any]]]:
        """Return the adapters with methods for the event, in the order in which they run."""
        adapters = self.component.adapters
        # Arguments pass in reverse: each adapter undoes its own rewording, the last one first.
        in_order = adapters[::-1] if self.event is TOOL_CALL_BEFORE else adapters
        return [
            (adapter, getattr(adapter, name))
            for name in _LISTED[self.event]
            for adapter in in_order
            if getattr(type(adapter), name) is not getattr(ToolAdapter, name)
        ]


class AsyncAdapterHandler(AdapterHandler):
    """The same for adapters of which one at least is async, and right for all others."""

    __slots__ = ()

    async def __call__(self, ctx: EventContext[Any]) -> Any:
        """Apply the adapters; await the async ones."""
        return await self.method(ctx)


def adapter_handler(
    component: AgentComponent, event: Event, method: AdapterMethod
) -> AdapterHandler:
    """Return the handler of *event* that suits the present adapters of *component*."""
    waits = any(
        is_async(getattr(adapter, name)) or is_async(unwrap(getattr(adapter, name)))
        for adapter in component.adapters
        for name in _AWAITED[event]
    )
    return (AsyncAdapterHandler if waits else AdapterHandler)(component, event, method)


def owner_of(handler: object) -> object:
    """Return the component of an adapter handler, the object of a method, else None."""
    if isinstance(handler, AdapterHandler):
        return handler.component
    return getattr(handler, "__self__", None)

"""The handlers that apply a component's adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.bus.dispatch.callables import Composite
from toolbus.components.adapters import ADAPTER_METHODS, overrides
from toolbus.errors import DispatchError
from toolbus.events.catalogue import TOOL_CALL_BEFORE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent
    from toolbus.events.catalogue import Event


class AdapterHandler(Composite):
    """A handler of *event* that applies the adapters of *component* by its async *method*.

    It is sync, for sync adapters: their results need no task and no turn of the event loop.
    """

    __slots__ = ("component", "event", "method")

    def __init__(
        self,
        component: AgentComponent,
        event: Event,
        method: Callable[[EventContext[Any]], Coroutine[Any, Any, Any]],
    ) -> None:
        self.component, self.event, self.method = component, event, method

    def __call__(self, ctx: EventContext[Any]) -> Any:
        """Apply the adapters; a sync adapter whose awaitable does not finish at once has failed."""
        if not self.component.adapters:
            return None
        running = self.method(ctx)
        try:
            running.send(None)
            reason = "an adapter waits; declare its method with `async def`"
            # Raised in the adapter, so that its own policy applies, and the ledger names it.
            running.throw(DispatchError(self.event.name, reason))
        except StopIteration as end:
            return end.value
        finally:
            running.close()

    def methods(self) -> list[tuple[ToolAdapter, Callable[..., Any]]]:
        """Return the adapters with methods for the event, in the order in which they run."""
        adapters = self.component.adapters
        # Arguments pass in reverse: each adapter reverts its own spec, the last one first.
        in_order = adapters[::-1] if self.event is TOOL_CALL_BEFORE else adapters
        return [
            (adapter, getattr(adapter, name))
            for name in ADAPTER_METHODS[self.event]
            for adapter in in_order
            if overrides(adapter, name)
        ]


class AsyncAdapterHandler(AdapterHandler):
    """The same for adapters with an async method among them; correct for sync ones too."""

    __slots__ = ()

    async def __call__(self, ctx: EventContext[Any]) -> Any:
        """Apply the adapters; await the async ones."""
        return await self.method(ctx)


def owner_of(handler: object) -> object:
    """Return the component of an adapter handler, the object of a method, else None."""
    if isinstance(handler, AdapterHandler):
        return handler.component
    return getattr(handler, "__self__", None)

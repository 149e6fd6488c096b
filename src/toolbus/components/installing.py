"""A component on a bus of a test: with an event loop, or without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.bus.dispatch.callables import name_of
from toolbus.bus.subscribing import Subscribing
from toolbus.components.adapter_handlers import adapter_methods
from toolbus.components.components import AgentComponent
from toolbus.components.participants import ComponentHost
from toolbus.errors import DispatchError, RegistrationError
from toolbus.events.catalogue import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.bus import EventBus
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.ledger.records import HandlerKind
    from toolbus.bus.subscribing import HandlerOptions
    from toolbus.events.catalogue import Event


class Installation:
    """Installs *component* on *bus* at once; a `with` block ends that, `async with` its resources.

    Its handlers hear everybody there. `bus.apply_sync` runs it, its adapters included as far as
    they are sync, but for `async with`.
    """

    def __init__(self, component: AgentComponent, bus: EventBus) -> None:
        self._component, self._bus = component, bus
        # A test that forgets the block would try a bus without the component, and pass.
        component.setup(_SyncHost(bus, Scope()))

    def __enter__(self) -> AgentComponent:
        kind = type(self._component)
        if kind.install is not AgentComponent.install or kind.close is not AgentComponent.close:
            self._component.teardown()
            reason = "it acquires resources; write `async with`, in an async test"
            raise RegistrationError(f"component {self._component.name!r}", reason)
        return self._component

    def __exit__(self, *_: object) -> None:
        self._component.teardown()

    async def __aenter__(self) -> AgentComponent:
        self._component.teardown()
        host = ComponentHost(self._bus, Scope())
        self._component.setup(host)
        try:
            await self._component.install(host)
        except BaseException:
            self._component.teardown()
            raise
        return self._component

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._component.close()
        finally:
            self._component.teardown()


class _SyncHost(ComponentHost, Subscribing):
    """What a component is installed on where nothing can be awaited."""

    def _subscribe(
        self,
        event: Event,
        handler: Callable[..., Any] | None,
        kind: HandlerKind,
        options: HandlerOptions,
    ) -> Any:
        subscribe: Any = self.bus.guard if kind == "guard" else self.bus.on
        if adapter_methods(handler) is None:
            return subscribe(event, handler, **options)
        return subscribe(event, _run_through(handler), **{"name": name_of(handler), **options})


def _run_through(handler: Any) -> Callable[[EventContext[Any]], Any]:
    """Return *handler*, async only in case an adapter is, as a sync one."""

    def run(ctx: EventContext[Any]) -> Any:
        coroutine = handler(ctx)
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value
        coroutine.close()
        reason = f"an adapter of {name_of(handler)} is async; use `async with` and `bus.apply`"
        raise DispatchError(ctx.event.name, reason)

    return run

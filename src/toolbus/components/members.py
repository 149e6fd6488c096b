"""Membership of a bus: what one scope has there, and how all of it is taken away again."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from toolbus.bus.subscribing import Subscribe, Subscribing, Subscription
from toolbus.components.arguments import check_components
from toolbus.components.callbacks import before_tool
from toolbus.components.components import check_requires
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import TOOL_CALL_BEFORE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toolbus.bus.bus import EventBus
    from toolbus.bus.ledger.records import HandlerKind
    from toolbus.bus.subscribing import HandlerOptions
    from toolbus.components.callbacks import BeforeToolCallback
    from toolbus.components.components import AgentComponent
    from toolbus.events.catalogue import Event, Scope
    from toolbus.tools.toolset import Toolset


class Member(Subscribing):
    """Somebody on a bus, with tools, handlers and components under a scope.

    What it subscribes hears its own scope and those below it. All *components* are set up, or
    none: then it raises `RegistrationError`.
    """

    def __init__(
        self, bus: EventBus, tools: Toolset, scope: Scope, components: Iterable[AgentComponent]
    ) -> None:
        self.bus, self.tools, self.scope = bus, tools, scope
        self._kept: set[Subscription] = set()
        self._callback: Subscription | None = None
        self._components, self._installed = check_components(components), False
        check_requires(self._components)
        try:
            for component in self._components:
                component.setup(self)
        except BaseException:
            self._leave()
            raise

    @property
    def components(self) -> tuple[AgentComponent, ...]:
        """The installed components."""
        return self._components

    async def remove(self, component: AgentComponent) -> None:
        """Take *component* out: its handlers, tools and adapters, then what it holds."""
        rest = tuple([one for one in self._components if one is not component])
        if len(rest) == len(self._components):
            raise RegistrationError(f"component {component.name!r}", "it is not installed here")
        check_requires(rest)
        component.teardown()
        self._components = rest
        if self._installed:
            await component.close()

    def set_before_tool_callback(self, callback: BeforeToolCallback | None) -> None:
        """Let *callback*, sync or async, see each call before its tool; None takes it away.

        It is a handler of `TOOL_CALL_BEFORE` of priority 100 like any other: it sees what adapters
        and handlers of a higher priority, or of the same that were there before, made of the call,
        and guards judge what it makes of it. It gets the tool's name and a copy of the arguments,
        also in sub-agents; a dict that it returns is laid over the arguments. If it raises, that
        is logged and the call goes on. Raises `RegistrationError` for what cannot be called so.
        """
        handler = None if callback is None else before_tool(callback)
        if self._callback is not None:
            self._callback.cancel()
        self._callback = None if handler is None else self.on(TOOL_CALL_BEFORE, handler)

    async def _install(self) -> None:
        """Let each component acquire what it needs, or none: then raise what one raised."""
        async with AsyncExitStack() as undo:
            for component in self._components:
                await component.install(self)
                undo.push_async_callback(component.close)
            undo.pop_all()
        self._installed = True

    async def _release(self) -> None:
        """Close the components, the last one first; each, also if another one raises."""
        async with AsyncExitStack() as last:
            for component in self._components if self._installed else ():
                last.push_async_callback(component.close)

    def _leave(self) -> None:
        """Leave nothing on the bus."""
        for component in self._components:
            if component.host is self:
                component.teardown()
        for subscription in tuple(self._kept):
            subscription.cancel()

    def _subscribe(
        self,
        event: Event,
        handler: Callable[..., Any] | None,
        kind: HandlerKind,
        options: HandlerOptions,
    ) -> Any:
        scoped: HandlerOptions = {"sender": self.scope.agent_id, **options}
        if handler is None:
            subscribe: Any = self.bus.guard if kind == "guard" else self.bus.on
            subscribe(event, **scoped)  # Finds at once what could never work.
            return Subscribe(lambda function: self._subscribe(event, function, kind, options))
        kept = Kept(self.bus.attach(event, handler, kind, scoped), self._kept.discard)
        self._kept.add(kept)
        return kept


class Kept(Subscription):
    """A subscription that tells when it is cancelled, so that nobody keeps its handler."""

    __slots__ = ("_forget", "_kept")

    def __init__(self, kept: Subscription, forget: Callable[[Subscription], object]) -> None:
        self._kept, self._forget = kept, forget

    def cancel(self) -> None:
        """End the subscription; a second time does nothing."""
        self._kept.cancel()
        self._forget(self)

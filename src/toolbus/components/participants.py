"""Participants of a bus: their handlers and components, and the removal of both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from msgspec import Struct

from toolbus.bus.bus import EventBus
from toolbus.bus.dispatch.bindings import reference
from toolbus.bus.dispatch.callables import takes
from toolbus.bus.ledger.records import DispatchRecord, HandlerKind
from toolbus.bus.subscriptions import Decorator, HandlerOptions, Subscribable, Subscription
from toolbus.components.adapter_handlers import AdapterHandler, AsyncAdapterHandler
from toolbus.components.components import (
    PROVIDE_PRIORITY,
    AgentComponent,
    component_of,
    wraps,
)
from toolbus.components.roster import Roster
from toolbus.components.state import StateSource
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Event, Scope
from toolbus.messages.immutable import thaw
from toolbus.tools.toolset import Toolset

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.state import State
    from toolbus.messages.records import Message, ToolCall
    from toolbus.store.protocol import Store

Changed: TypeAlias = Mapping[str, Any] | None
BeforeToolCallback: TypeAlias = Callable[[str, dict[str, Any]], Changed | Awaitable[Changed]]
"""Gets a tool's name and a copy of the arguments; a returned mapping is merged over them."""

Recorded: TypeAlias = "tuple[tuple[Message, ...], tuple[DispatchRecord, ...]]"
_AGENT = Scope(agent_id="agent")
_MAX_HANDLERS = 1 << 40
"""More than the handlers of any event on a bus."""


class ComponentHost:
    """A host of components other than an agent, on *bus* or a bus of its own."""

    def __init__(
        self, bus: EventBus | None = None, scope: Scope = _AGENT, tools: Toolset | None = None
    ) -> None:
        self.bus, self.scope = EventBus() if bus is None else bus, scope
        self.tools, self._states = Toolset() if tools is None else tools, StateSource()

    def state(self, name: str, scope: Scope | None = None, *, shared: bool = False) -> State:
        """Return the state *name* of the session of *scope*, else of its own; see `Host.state`."""
        return self._states.get(self._state_place(), name, scope, shared=shared)

    async def recorded(self, session_id: str) -> Recorded:
        """Return the stored messages and ledger records of a session; raises `StoreError`."""
        store = self._state_place()[0]
        return await store.read(session_id), await store.records(session_id)

    def _state_place(self) -> tuple[Store, str]:
        """Return the store of states, and the session of the host itself, "" without one."""
        return self._states.memory, self.scope.session_id


class SubscriptionArgs(Struct, frozen=True, eq=False):
    """The arguments of a subscription; *resolve* returns the handler, None if it is gone."""

    event: Event
    resolve: Callable[[], Callable[..., Any] | None]
    kind: HandlerKind
    options: HandlerOptions

    def attach_to(self, bus: EventBus, depth: int) -> Callable[[], None]:
        """Subscribe the same handler on *bus*; return a function that cancels it.

        The function does not keep *bus* alive. The handler runs before all present ones of less
        *depth*, so that agents above wrap agents below; handlers of arguments, which pass in
        reverse, run after them.
        """
        event, options = self.event, self.options
        handler, innermost = self.resolve(), depth * _MAX_HANDLERS
        if handler is None:
            return lambda: None
        sign = 1
        if isinstance(handler, AdapterHandler):
            # The async form fits all adapters, including later ones.
            handler = AsyncAdapterHandler(handler.component, event, handler.method)
            if event is TOOL_CALL_BEFORE:
                sign, options = -1, {**options, "priority": PROVIDE_PRIORITY}
        attached = bus.attach(
            event, handler, self.kind, options, lambda number: sign * (number - innermost)
        )
        return attached.cancel


class InstalledComponent(Struct, frozen=True, eq=False):
    """A component after its set-up; *undo* reverts it."""

    component: AgentComponent
    undo: ExitStack


class Participant(ComponentHost, Subscribable):
    """A sender on a bus, with tools, handlers and components under a scope.

    Its handlers apply to its own scope and those below it. Either all *components* are set up, or
    none: then it raises `RegistrationError`.
    """

    def __init__(
        self,
        bus: EventBus,
        tools: Toolset,
        scope: Scope,
        components: Iterable[AgentComponent | ToolAdapter],
    ) -> None:
        super().__init__(bus, scope, tools)
        self._subscriptions: dict[Subscription, SubscriptionArgs] = {}
        # The buses of its callers, with its handlers too, and its depth on each.
        self._joined: WeakKeyDictionary[EventBus, int] = WeakKeyDictionary()
        self._callback: Subscription | None = None
        self._places: tuple[InstalledComponent, ...] = ()
        self._installed = False
        checked = check_components(components)
        check_requires(checked)
        bus.shared(Roster).claim(scope.agent_id, self)
        try:
            for component in checked:
                self._set_up(component)
        except BaseException:
            self._leave()
            raise

    @property
    def components(self) -> tuple[AgentComponent, ...]:
        """The installed components."""
        return tuple([place.component for place in self._places])

    async def add(self, component: AgentComponent | ToolAdapter) -> None:
        """Install *component*, or an adapter, after all others; undo a failed installation."""
        (component,) = check_components([component], self.components)
        check_requires((*self.components, component))
        place = self._set_up(component)
        if not self._installed:
            return  # It is installed with the others, before the first step.
        try:
            await component.install(self)
        except BaseException:
            self._uninstall(place)
            raise
        if place not in self._places:
            await component.close()
            reason = "it was removed before it was installed"
            raise RegistrationError(f"component {component.name!r}", reason)

    def _set_up(self, component: AgentComponent) -> InstalledComponent:
        """Set up *component* after all others; undo a failed set-up."""
        subscriptions, tools = set(self._subscriptions), self._tool_names()
        place = InstalledComponent(component, ExitStack())
        self._places = (*self._places, place)
        with ExitStack() as failed:
            failed.callback(self._uninstall, place)
            try:
                component.setup(self)
            finally:
                # An overriding `setup` may have added more than `teardown` removes.
                for subscription in self._subscriptions.keys() - subscriptions:
                    place.undo.callback(subscription.cancel)
                for name in self._tool_names() - tools:
                    place.undo.callback(self.tools.remove, name)
                if component.host is self:
                    place.undo.callback(component.teardown)
            failed.pop_all()
        return place

    def _tool_names(self) -> set[str]:
        return {tool.spec.name for tool in self.tools}

    def _uninstall(self, place: InstalledComponent) -> None:
        self._places = tuple([other for other in self._places if other is not place])
        place.undo.close()

    async def remove(self, component: AgentComponent | ToolAdapter) -> None:
        """Remove *component*: its handlers, tools and adapters, then its resources."""
        places = [place for place in self._places if wraps(place.component, component)]
        if not places:
            raise RegistrationError(f"component {component.name!r}", "it is not installed here")
        (place,) = places
        check_requires(tuple([each for each in self.components if each is not place.component]))
        self._uninstall(place)
        if self._installed:
            await place.component.close()

    def set_before_tool_callback(self, callback: BeforeToolCallback | None) -> None:
        """Let *callback*, sync or async, see each call before its tool; None removes it.

        It is an ordinary handler of `TOOL_CALL_BEFORE` with priority 100: it gets the call after
        adapters, handlers of a higher priority, and earlier ones of the same; guards judge its
        result. It gets the tool's name and a copy of the arguments, also in sub-agents; a returned
        dict is merged over the arguments. If it raises, that is logged and the call goes on. A
        sync one blocks the event loop while it runs. Raises `RegistrationError` for a *callback*
        that does not take two arguments.
        """
        handler = None if callback is None else before_tool(callback)
        if self._callback is not None:
            self._callback.cancel()
        self._callback = None if handler is None else self.on(TOOL_CALL_BEFORE, handler)

    async def _install(self) -> None:
        """Install all components; if one raises, close the others and raise its error."""
        installed: list[InstalledComponent] = []
        async with AsyncExitStack() as undo:
            # A component may add others while it is installed.
            while waiting := [each for each in self._places if each not in installed]:
                await waiting[0].component.install(self)
                installed.append(waiting[0])
                undo.push_async_callback(waiting[0].component.close)
            undo.pop_all()
        self._installed = True

    async def _release(self) -> None:
        """Close the components, the last one first; each, even if another one raises."""
        async with AsyncExitStack() as closing:
            for component in self.components if self._installed else ():
                closing.push_async_callback(component.close)

    def _leave(self) -> None:
        """Remove all from the bus."""
        for place in self._places:
            place.undo.close()
        for subscription in tuple(self._subscriptions):
            subscription.cancel()
        for bus in (self.bus, *tuple(self._joined)):
            bus.shared(Roster).release(self.scope.agent_id, self)
        self._joined.clear()

    def _join(self, bus: EventBus) -> None:
        """Join *bus*, a caller's, with all present and later subscriptions.

        Neither the bus nor a subscription cancelled here is kept alive. Raises `RegistrationError`
        if another agent has its id there.
        """
        if bus is self.bus or bus in self._joined:
            return
        roster = bus.shared(Roster)
        roster.claim(self.scope.agent_id, self)
        self._joined[bus] = next(roster.depths)
        with ExitStack() as undo:
            undo.callback(roster.release, self.scope.agent_id, self)
            undo.callback(self._joined.pop, bus)
            for subscription, args in tuple(self._subscriptions.items()):
                end = args.attach_to(bus, self._joined[bus])
                undo.callback(end)
                subscription.follow(end)
            undo.pop_all()

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
            subscribe(event, **scoped)  # Refuses invalid options at once.
            return Decorator(lambda function: self._subscribe(event, function, kind, options))
        subscription = self.bus.attach(event, handler, kind, scoped)
        is_weak = scoped.get("weak", False)
        resolve = reference(handler, lambda: None) if is_weak else lambda: handler
        args = self._subscriptions[subscription] = SubscriptionArgs(event, resolve, kind, scoped)
        # The holder of the subscription must not keep its owner alive.
        subscription.follow(partial(self._subscriptions.pop, subscription, None))
        for bus, depth in tuple(self._joined.items()):
            subscription.follow(args.attach_to(bus, depth))
        return subscription


class Installation:
    """Installs *component* on *bus* at once; `with` ends that, `async with` also its resources.

    Its handlers apply to all senders. `bus.apply_sync` runs them, if its adapters are sync.
    """

    def __init__(self, component: AgentComponent, bus: EventBus) -> None:
        self._component, self._host = component, ComponentHost(bus, Scope())
        # At once: a test without the block would otherwise pass without the component.
        component.setup(self._host)

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
        try:
            await self._component.install(self._host)
        except BaseException:
            self._component.teardown()
            raise
        return self._component

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._component.close()
        finally:
            self._component.teardown()


def before_tool(
    callback: BeforeToolCallback,
) -> Callable[[EventContext[ToolCall]], Coroutine[Any, Any, ToolCall | None]]:
    """Return *callback* as a handler of `TOOL_CALL_BEFORE`.

    Raises `RegistrationError` unless it takes a name and arguments.
    """
    if not callable(callback) or isinstance(callback, type) or not takes(callback, 2):
        reason = (
            "it must be callable with the tool's name and the arguments, `callback(name, args)`"
        )
        raise RegistrationError(f"before_tool_callback {callback!r}", reason)

    async def before_tool_callback(ctx: EventContext[ToolCall]) -> ToolCall | None:
        changed = callback(ctx.value.name, thaw(ctx.value.arguments))
        if isawaitable(changed):
            changed = await changed
        return None if changed is None else ctx.value.merge_arguments(changed)

    return before_tool_callback


def check_no_class(kind: str, candidate: Any) -> None:
    """Raise `RegistrationError` for a class in place of an instance of the *kind*."""
    if isinstance(candidate, type):
        reason = f"it is a class; give an instance, `{candidate.__name__}(…)`"
        raise RegistrationError(f"{kind} {candidate.__name__!r}", reason)


def check_components(
    components: Any, installed: tuple[AgentComponent, ...] = ()
) -> tuple[AgentComponent, ...]:
    """Return *components*, with each adapter wrapped in a component of its own.

    Raises `RegistrationError` for other objects, and for components that are repeated or
    *installed* already.
    """
    if not isinstance(components, Iterable) or isinstance(components, str):
        raise RegistrationError("components", f"expected a list of components, not {components!r}")
    checked: tuple[AgentComponent, ...] = ()
    for candidate in components:
        check_no_class("component", candidate)
        component = component_of(candidate)
        if not isinstance(component, AgentComponent):
            reason = "expected an AgentComponent or a ToolAdapter"
            raise RegistrationError(f"component {candidate!r}", reason)
        if any(wraps(each, candidate) for each in (*installed, *checked)):
            reason = "it is installed already; make another one"
            raise RegistrationError(f"component {component.name!r}", reason)
        checked = (*checked, component)
    return checked


def check_requires(components: tuple[AgentComponent, ...]) -> None:
    """Raise `RegistrationError` if one of *components* requires a class that is not among them."""
    for component in components:
        missing = [
            wanted.__name__
            for wanted in component.requires
            if not any(isinstance(other, wanted) for other in components)
        ]
        if missing:
            reason = f"it requires {', '.join(missing)}; install that too"
            raise RegistrationError(f"component {component.name!r}", reason)

"""Somebody on a bus: its handlers and components there, and how all of it is taken away again."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from toolbus.bus.bus import EventBus
from toolbus.bus.subscribing import Subscribe, Subscribing, Subscription
from toolbus.components.callbacks import BeforeToolCallback, before_tool
from toolbus.components.checks import check_components, check_requires
from toolbus.components.lone_adapters import stands_for
from toolbus.components.owned import JoinedBus, OwnedSubscription, Terms
from toolbus.components.state import StateSource
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Scope
from toolbus.tools.toolset import Toolset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from toolbus.bus.ledger.records import HandlerKind
    from toolbus.bus.subscribing import HandlerOptions
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent
    from toolbus.components.state import State
    from toolbus.events.catalogue import Event
    from toolbus.store.protocol import Store

_NOBODY = Scope(agent_id="agent")


class Participant(Subscribing):
    """Somebody on a bus, with tools, handlers and components under a scope.

    What it subscribes hears its own scope and those below it. All *components* are set up, or
    none: then it raises `RegistrationError`.
    """

    def __init__(
        self,
        bus: EventBus,
        tools: Toolset,
        scope: Scope,
        components: Iterable[AgentComponent | ToolAdapter],
    ) -> None:
        self.bus, self.tools, self.scope = bus, tools, scope
        self._subscriptions: dict[OwnedSubscription, None] = {}
        # The buses of its callers, on which it is heard, too.
        self._joined: WeakKeyDictionary[EventBus, JoinedBus] = WeakKeyDictionary()
        self._callback: Subscription | None = None
        self._components, self._installed = check_components(components), False
        check_requires(self._components)
        number_components(self._components)
        self._states = StateSource()
        try:
            for component in self._components:
                component.setup(self)
        except BaseException:
            self._leave()
            raise

    def state(self, name: str, scope: Scope | None = None, *, shared: bool = False) -> State:
        """Return what is kept under *name* for the session of *scope*, else for its own.

        See `Host.state`.
        """
        return self._states.get(self._state_place(), name, scope, shared=shared)

    def _state_place(self) -> tuple[Store, str]:
        """Return where states are kept, and the session that it runs itself, if any."""
        return self._states.memory, self.scope.session_id

    @property
    def components(self) -> tuple[AgentComponent, ...]:
        """The installed components."""
        return self._components

    async def add(self, component: AgentComponent | ToolAdapter) -> None:
        """Install *component*, or an adapter, as the last; what it requires must be there already.

        Its handlers and guards hold at once, its tools and signatures from the next turn on: an
        adapter that renames arguments also meets the calls that the model has made before.
        If it cannot be installed, nothing of it stays. Raises `RegistrationError`, and whatever
        its `install` raises.
        """
        (component,) = check_components([component], self._components)
        check_requires((*self._components, component))
        number_components((*self._components, component))
        undo = self._set_up(component)
        self._components = (*self._components, component)
        if not self._installed:
            return  # It is with the others, before the first step.
        try:
            await component.install(self)
        except BaseException:
            self._components = self._without(component)
            undo()
            raise
        if component not in self._components:
            await component.close()
            reason = "it was removed before it was installed"
            raise RegistrationError(f"component {component.name!r}", reason)

    def _set_up(self, component: AgentComponent) -> Callable[[], None]:
        """Set *component* up, or leave nothing of it; return what takes all that away again."""
        before = frozenset(self._subscriptions), frozenset(tool.spec.name for tool in self.tools)
        try:
            component.setup(self)
        except BaseException:
            self._undo_of(component, *before)()
            raise
        return self._undo_of(component, *before)

    def _undo_of(
        self,
        component: AgentComponent,
        subscriptions: frozenset[OwnedSubscription],
        tools: frozenset[str],
    ) -> Callable[[], None]:
        """Return what takes *component* away, and what was not among those before its set-up."""
        # A set-up of its own may have made some that `teardown` knows nothing of.
        new_subscriptions = self._subscriptions.keys() - subscriptions
        new_tools = {tool.spec.name for tool in self.tools} - tools

        def undo() -> None:
            if component.host is self:
                component.teardown()
            for subscription in new_subscriptions:
                subscription.cancel()
            for name in new_tools:
                self.tools.remove(name)

        return undo

    def _without(self, component: AgentComponent) -> tuple[AgentComponent, ...]:
        return tuple([other for other in self._components if other is not component])

    async def remove(self, component: AgentComponent | ToolAdapter) -> None:
        """Take *component* out: its handlers, tools and adapters, then what it holds."""
        installed = [each for each in self._components if stands_for(each, component)]
        if not installed:
            raise RegistrationError(f"component {component.name!r}", "it is not installed here")
        (component,) = installed
        others = self._without(component)
        check_requires(others)
        component.teardown()
        self._components = others
        if self._installed:
            await component.close()

    def set_before_tool_callback(self, callback: BeforeToolCallback | None) -> None:
        """Let *callback*, sync or async, see each call before its tool; None takes it away.

        It is a handler of `TOOL_CALL_BEFORE` of priority 100 like any other: it sees what adapters
        and handlers of a higher priority, or of the same that were there before, made of the call,
        and guards judge what it makes of it. It gets the tool's name and a copy of the arguments,
        also in sub-agents; a dict that it returns is laid over the arguments. If it raises, that
        is logged and the call goes on. A sync one holds up the event loop while it runs. Raises
        `RegistrationError` for what cannot be called so.
        """
        handler = None if callback is None else before_tool(callback)
        if self._callback is not None:
            self._callback.cancel()
        self._callback = None if handler is None else self.on(TOOL_CALL_BEFORE, handler)

    async def _install(self) -> None:
        """Let each component acquire what it needs, or none: then raise what one raised."""
        installed: list[AgentComponent] = []
        async with AsyncExitStack() as undo:
            # One may add others while it is installed.
            while waiting := [each for each in self._components if each not in installed]:
                await waiting[0].install(self)
                installed.append(waiting[0])
                undo.push_async_callback(waiting[0].close)
            undo.pop_all()
        self._installed = True

    async def _release(self) -> None:
        """Close the components, the last one first; each, also if another one raises."""
        async with AsyncExitStack() as closing:
            for component in self._components if self._installed else ():
                closing.push_async_callback(component.close)

    def _leave(self) -> None:
        """Leave nothing on the bus."""
        for component in self._components:
            if component.host is self:
                component.teardown()
        for subscription in tuple(self._subscriptions):
            subscription.cancel()
        for bus in (self.bus, *tuple(self._joined)):
            bus.agent_ids.release(self.scope.agent_id, self)
        self._joined.clear()

    def _join(self, bus: EventBus) -> None:
        """Be heard on *bus* as well, that of a caller, with all that is subscribed, now and later.

        It keeps neither the bus nor, there, what is cancelled here. Raises `RegistrationError` if
        another agent of its id is there.
        """
        if bus is self.bus or bus in self._joined:
            return
        bus.agent_ids.claim(self.scope.agent_id, self)
        joined = self._joined[bus] = JoinedBus(next(bus.depths), {})
        try:
            for subscription in tuple(self._subscriptions):
                joined.attach(bus, subscription)
        except BaseException:
            del self._joined[bus]
            bus.agent_ids.release(self.scope.agent_id, self)
            for end in joined.ends.values():
                end()
            raise

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
        attached = self.bus.attach(event, handler, kind, scoped)
        terms = Terms.of(event, handler, kind, scoped)
        # Who keeps the subscription shall not keep its owner.
        forget = partial(_forget, self._subscriptions, self._joined)
        subscription = OwnedSubscription(attached, terms, forget)
        self._subscriptions[subscription] = None
        for bus, joined in tuple(self._joined.items()):
            joined.attach(bus, subscription)
        return subscription


def _forget(
    subscriptions: dict[OwnedSubscription, None],
    joined: WeakKeyDictionary[EventBus, JoinedBus],
    subscription: OwnedSubscription,
) -> None:
    """Take *subscription* out of all that its owner has, and end it on the buses of callers."""
    subscriptions.pop(subscription, None)
    for other in tuple(joined.values()):
        if (end := other.ends.pop(subscription, None)) is not None:
            end()


class ComponentHost:
    """What components are installed on in place of an agent, on a *bus* of its own unless given."""

    def __init__(self, bus: EventBus | None = None, scope: Scope = _NOBODY) -> None:
        self.bus, self.tools, self.scope = EventBus() if bus is None else bus, Toolset(), scope
        self._states = StateSource()

    def state(self, name: str, scope: Scope | None = None, *, shared: bool = False) -> State:
        """Return what is kept, in memory, under *name*; see `Host.state`."""
        place = self._states.memory, self.scope.session_id
        return self._states.get(place, name, scope, shared=shared)


def number_components(components: Sequence[AgentComponent]) -> None:
    """Tell the *components* of one host apart that have the same name."""
    taken = {(each.name, each.number) for each in components if each.host is not None}
    for component in components:
        if component.host is None:
            numbers = (number for number in count(1) if (component.name, number) not in taken)
            component.number = next(numbers)
            taken.add((component.name, component.number))

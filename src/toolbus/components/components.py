"""Components: tools, handlers and adapters that are installed on an agent as one."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol, Self

from toolbus.bus.dispatch.callables import name_of
from toolbus.bus.subscriptions import HandlerOptions, Subscribing
from toolbus.components.adapter_handlers import AdapterHandler, AsyncAdapterHandler
from toolbus.components.adapters import ToolAdapter, adapter_problem
from toolbus.components.marks import Mark, marked, tools_of
from toolbus.components.roster import Roster
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    TOOL_CALL_BEFORE,
    TOOLS_PROVIDE,
    Deny,
    Scope,
    ToolSpec,
)
from toolbus.events.subjects import ToolSelector
from toolbus.messages.records import Message, ToolCall, ToolMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from toolbus.bus.bus import EventBus
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.subscriptions import Subscription
    from toolbus.components.chains import AdapterChain
    from toolbus.components.participants import Installation
    from toolbus.components.state import State
    from toolbus.events.catalogue import Event
    from toolbus.tools.toolset import Toolset

_EVERY_TOOL = ToolSelector()
PROVIDE_PRIORITY, APPEND_PRIORITY = 200, 50
LATE = -1_000_000
"""Added to the priorities of a late component, so that its handlers run after all others.

A handler that must run after late ones as well, such as a redaction of the stored copy, asks for
twice that.
"""
_REACH = 100_000
"""Priorities of late components count up to this, so that none leaves the range around `LATE`."""


class Host(Protocol):
    """What a component is installed on: an agent, or another object with these four members."""

    @property
    def bus(self) -> EventBus:
        """The bus of the component's handlers."""

    @property
    def tools(self) -> Toolset:
        """The toolset of the component's tools."""

    @property
    def scope(self) -> Scope:
        """The scope that handlers hear, sub-agents included; without an agent id: every scope."""

    def state(self, name: str, scope: Scope | None = None, *, shared: bool = False) -> State:
        """Return the state *name* of the session of *scope*, a sub-agent's its own.

        With *shared* it is that of the outermost agent above, one for all below it. Without a
        *scope* it is that of the host itself; raises `RegistrationError` if it has many, as the
        proxy. Names are shared by all components of a host: `AgentComponent.state` gives its own.
        """
        ...


class AgentComponent:
    """Tools, handlers and adapters, installed together; a subclass marks its methods.

    `@on(EVENT)` and `@guard(EVENT)` make a method a handler, `@tool` makes it a tool; a method
    that overrides it stays one. *requires* names component classes that must be there too.
    *enabled* may be switched at any time.

    >>> class Careful(AgentComponent):
    ...     @guard(events.TOOL_CALL_BEFORE, tools="delete")
    ...     def never(self, ctx):
    ...         return Deny("nothing is deleted here")
    """

    requires: tuple[type[AgentComponent], ...] = ()
    enabled: bool = True

    # Swapped whole and never changed in place, so a subclass need not call our `__init__`.
    _chain: AdapterChain | None = None
    _applying: tuple[tuple[Subscription, AdapterHandler], ...] = ()
    _undo: ExitStack
    _host: Host | None = None
    _state_name: str = ""
    _selector: ToolSelector = _EVERY_TOOL
    _priority: int | None = None
    _is_late: bool = False

    def __init__(self, *, enabled: bool | None = None) -> None:
        if enabled is not None:
            self.enabled = enabled

    @property
    def name(self) -> str:
        """The name in errors and logs."""
        return type(self).__name__

    @property
    def host(self) -> Host | None:
        """The host of the component, None before its installation."""
        return self._host

    @property
    def selector(self) -> ToolSelector:
        """The tools that the component was restricted to, all by default."""
        return self._selector

    @property
    def adapters(self) -> tuple[ToolAdapter, ...]:
        """The adapters in the order in which they see signatures and responses."""
        return () if self._chain is None else self._chain.adapters

    def state(self, scope: Scope | None = None, *, shared: bool = False) -> State:
        """Return the component's state for the session of *scope*; see `Host.state`.

        It is kept under the component's name, for the second one of that name on a host under
        `NAME-2`: so the order of components is part of what a session resumes. Raises
        `RegistrationError` if the component is not installed.
        """
        if self._host is None:
            raise self._refusal("it is not installed, and its state belongs to its host")
        return self._host.state(self._state_name, scope, shared=shared)

    def register_tool_adapter(self, adapter: ToolAdapter) -> None:
        """Add *adapter*; also after installation."""
        problem: str | None = "expected an object of a subclass of ToolAdapter"
        if any(known is adapter for known in self.adapters):
            problem = f"{self.name} has it already"
        elif isinstance(adapter, ToolAdapter):
            problem = adapter_problem(adapter)
        if problem:
            raise RegistrationError(f"adapter {getattr(adapter, 'name', adapter)!r}", problem)
        from toolbus.components.chains import AdapterChain, BoundAdapter  # noqa: PLC0415 - for few

        bound = () if self._chain is None else self._chain.bound
        self._chain = AdapterChain((*bound, BoundAdapter(adapter)))
        self._choose_handlers()

    def unregister_tool_adapter(self, adapter: ToolAdapter) -> None:
        """Take *adapter* out; one that is not there is ignored."""
        if self._chain is not None:
            others = [bound for bound in self._chain.bound if bound.adapter is not adapter]
            self._chain = type(self._chain)(others) if others else None
            self._choose_handlers()

    def restrict(
        self,
        *,
        tools: Iterable[str] | str = ("*",),
        priority: int | None = None,
        late: bool = False,
    ) -> Self:
        """Narrow the component to some tools, give its handlers one *priority*; return it.

        *tools* are glob patterns: its adapters leave other tools alone, and its handlers do not
        see calls, failures, outcomes and messages of these; they see every value that belongs to
        no single tool. *late* puts its handlers behind those of all other components, see `LATE`;
        arguments still pass its adapters first. Among its own handlers the order stays. Raises
        `RegistrationError` when the component is installed, or overrides `setup`: the limits do
        not reach the handlers that such a `setup` subscribes.
        """
        if self._host is not None:
            raise self._refusal("it is installed already; restrict it before that")
        selector = ToolSelector(tools)
        if problem := selector.problem:
            raise self._refusal(problem)
        if priority is not None and type(priority) is not int:
            raise self._refusal(f"priority must be an integer, not {priority!r}")
        if type(self).setup is not AgentComponent.setup:
            unreached = "which tools and priority do not reach; give them to the component itself"
            if late:
                unreached = "which could come before your own components"
            raise self._refusal(f"it has a `setup` of its own, {unreached}")
        self._selector, self._priority, self._is_late = selector, priority, late
        return self

    def setup(self, agent: Host) -> None:
        """Subscribe the handlers and add the tools; called when the agent is made."""
        if self._host is not None:
            raise self._refusal("it is installed already; make another one")
        self._host, self._undo = agent, ExitStack()
        try:
            self._subscribe_adapters(agent)
            self.subscribe(agent)
            marks = list(marked(type(self)))
            if self._priority is not None:
                # The order of their own priorities stays.
                marks.sort(key=lambda named: -named[1].options.get("priority", 100))
            for name, mark in marks:
                self.add_handler(mark, getattr(self, name))
            for tool in tools_of(self):
                agent.tools.add(tool, offered=lambda: self.enabled)
                self._undo.callback(agent.tools.remove, tool.spec.name)
        except BaseException:
            self.teardown()
            raise

    def subscribe(self, host: Host) -> None:
        """Subscribe handlers that no mark can describe, by `add_handler`; called by `setup`."""

    def add_handler(
        self, mark: Mark, handler: Callable[..., Any], *, restricted: bool = True
    ) -> None:
        """Subscribe *handler* as *mark* says until `teardown`; it runs while `enabled`.

        Unless *restricted*, the limits of `restrict` do not hold for it, but that it may be late.
        """
        options, wanted = mark.options.copy(), mark.options.get("when")
        if restricted:
            wanted = self._when(wanted)
            if self._priority is not None:
                options["priority"] = self._priority
        options["when"] = lambda ctx: self.enabled and (wanted is None or wanted(ctx))
        if self._is_late:
            options["priority"] = _late(options.get("priority", 100))
        self._subscribe(mark, handler, options)

    def teardown(self) -> None:
        """Undo `setup`: nothing of the component stays behind."""
        if self._host is not None:
            self._undo.close()
        self._applying, self._host = (), None

    def installed(self, bus: EventBus) -> Installation:
        """Install it on *bus*, for a test; see `Installation`."""
        from toolbus.components.participants import Installation  # noqa: PLC0415 - stands above

        return Installation(self, bus)

    def install(self, agent: Host) -> Awaitable[None]:
        """Acquire what needs a running loop; called before the agent's first step.

        Overridden by an async method. Raises `RegistrationError`, at once and not when awaited,
        unless it was set up on *agent*.
        """
        if self._host is not agent:
            reason = "it is not set up there; to try it write `with component.installed(bus):`"
            raise self._refusal(reason)
        return _nothing()

    async def close(self) -> None:
        """Release what `install` acquired."""

    async def _on_tools_provide_adapter(
        self, ctx: EventContext[tuple[ToolSpec, ...]]
    ) -> tuple[ToolSpec, ...] | None:
        """Let each adapter reword the specs of its tools; one that fails hides only its tool."""
        if not self.enabled or self._chain is None:
            return None
        specs = await self._chain.adapt_specs(ctx, self._selector)
        return None if specs is ctx.value else specs

    async def _on_tool_call_before_adapter(
        self, ctx: EventContext[ToolCall]
    ) -> ToolCall | Deny | None:
        """Let each adapter turn the arguments into those of the signature that it was given."""
        if not self.enabled or self._chain is None:
            return None
        call = await self._chain.adapt_call(ctx)
        return None if call is ctx.value else call

    async def _on_message_append_before_adapter(
        self, ctx: EventContext[Message]
    ) -> ToolMessage | None:
        """Let each adapter change the response of a tool message, and nothing else."""
        message = ctx.value
        if not self.enabled or self._chain is None or not isinstance(message, ToolMessage):
            return None
        if message.tool_response is None:
            return None
        adapted = await self._chain.adapt_message(ctx, message, message.tool_response)
        if adapted is message:
            return None
        ctx.output = adapted
        return adapted

    def _refusal(self, reason: str) -> RegistrationError:
        return RegistrationError(f"component {self.name!r}", reason)

    def _subscribe_adapters(self, agent: Host) -> None:
        roster = agent.bus.shared(Roster)
        same, release = roster.number((id(agent), self.name), self, lowest=True)
        self._undo.callback(release)
        self._state_name = self.name if same == 1 else f"{self.name}-{same}"
        # One above the last on this bus, so that parameters pass the components in reverse.
        number, release = roster.number("components", self)
        self._undo.callback(release)
        on_provide = _late(PROVIDE_PRIORITY) if self._is_late else PROVIDE_PRIORITY
        on_append = _late(APPEND_PRIORITY) if self._is_late else APPEND_PRIORITY
        events: Any = {
            TOOLS_PROVIDE: (self._on_tools_provide_adapter, on_provide),
            TOOL_CALL_BEFORE: (self._on_tool_call_before_adapter, PROVIDE_PRIORITY + number),
            MESSAGE_APPEND_BEFORE: (self._on_message_append_before_adapter, on_append),
        }
        for event, (method, priority) in events.items():
            options: HandlerOptions = {"priority": priority, "on_error": "closed"}
            options["when"] = self._when(None)
            # A subclass that overrides the method has a handler like any other.
            if getattr(AgentComponent, method.__name__) is not method.__func__:
                self._subscribe(Mark(event, "on", options), method, options)
                continue
            options["name"] = name_of(method)
            handler = self._handler_of(event)(self, event, method)
            subscription = self._subscribe(Mark(event, "on", options), handler, options)
            self._applying += ((subscription, handler),)

    def _choose_handlers(self) -> None:
        """Have sync handlers for the present adapters if these are sync, else async ones."""
        chosen = []
        for subscription, present in self._applying:
            handler, kind = present, self._handler_of(present.event)
            if type(present) is not kind:
                handler = kind(self, present.event, present.method)
                subscription.replace(handler)
            chosen.append((subscription, handler))
        self._applying = tuple(chosen)

    def _handler_of(self, event: Event) -> type[AdapterHandler]:
        """Return the class of the handler of *event* that suits the present adapters."""
        waits = self._chain is not None and self._chain.waits(event)
        return AsyncAdapterHandler if waits else AdapterHandler

    def _subscribe(
        self, mark: Mark, handler: Callable[..., Any], options: HandlerOptions
    ) -> Subscription:
        agent: Any = self._host
        # A host that subscribes itself forgets what it subscribed when it leaves its bus.
        subscriber: Any = agent if isinstance(agent, Subscribing) else agent.bus
        subscribe = subscriber.guard if mark.kind == "guard" else subscriber.on
        options.setdefault("sender", agent.scope.agent_id or None)
        subscription: Subscription = subscribe(mark.event, handler, **options)
        self._undo.callback(subscription.cancel)
        return subscription

    def _when(
        self, wanted: Callable[[EventContext[Any]], bool] | None
    ) -> Callable[[EventContext[Any]], bool] | None:
        """Return the predicate *wanted*, for values about the component's tools alone."""
        if self._selector.is_everything:
            return wanted
        admits = self._selector.admits
        return lambda ctx: admits(ctx.value) and (wanted is None or wanted(ctx))


class AdapterComponent(AgentComponent):
    """The component of one *adapter*, with its name."""

    def __init__(self, adapter: ToolAdapter) -> None:
        self.register_tool_adapter(adapter)

    @property
    def name(self) -> str:
        """The adapter's name."""
        return self.adapters[0].name


def component_of(candidate: Any) -> Any:
    """Return *candidate*, in a component of its own if it is an adapter."""
    return AdapterComponent(candidate) if isinstance(candidate, ToolAdapter) else candidate


def wraps(component: AgentComponent, candidate: object) -> bool:
    """Return whether *component* is *candidate*, or the component of the adapter *candidate*."""
    if isinstance(component, AdapterComponent) and component.adapters[0] is candidate:
        return True
    return component is candidate


def _late(priority: int) -> int:
    return LATE + max(-_REACH, min(priority, _REACH))


async def _nothing() -> None:
    """Do nothing."""

"""Components: tools, handlers and adapters, installed on an agent together."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol, Self

from toolbus.bus.dispatch.callables import name_of
from toolbus.bus.subscriptions import HandlerOptions, Subscribable
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

A handler that must run even later, such as a redaction of the stored copy, subtracts it twice.
"""
_REACH = 100_000
"""The maximum priority of late components, so that all stay near `LATE`."""


class Host(Protocol):
    """The host of a component: an agent, or another object with these four members."""

    @property
    def bus(self) -> EventBus:
        """The bus of the component's handlers."""

    @property
    def tools(self) -> Toolset:
        """The toolset of the component's tools."""

    @property
    def scope(self) -> Scope:
        """The scope of the handlers, including sub-agents; without an agent id: every scope."""

    def state(self, name: str, scope: Scope | None = None, *, shared: bool = False) -> State:
        """Return the state *name* of the session of *scope*; sub-agents have their own.

        With *shared* it belongs to the outermost agent above, for all agents below it. Without a
        *scope* it belongs to the host's session; raises `RegistrationError` for a host with many,
        such as the proxy. All components of a host share the names: `AgentComponent.state` is
        separate.
        """
        ...


class AgentComponent:
    """Tools, handlers and adapters, installed together; a subclass marks its methods.

    `@on(EVENT)` and `@guard(EVENT)` make a method a handler, `@tool` makes it a tool; an overriding
    method stays one. *requires* has component classes that must be installed too. *enabled* may be
    switched at any time.

    >>> class Careful(AgentComponent):
    ...     @guard(events.TOOL_CALL_BEFORE, tools="delete")
    ...     def never(self, ctx):
    ...         return Deny("nothing is deleted here")
    """

    requires: tuple[type[AgentComponent], ...] = ()
    enabled: bool = True

    # Replaced as a whole and never mutated, so a subclass need not call our `__init__`.
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
        """The adapters in the order in which they get signatures and responses."""
        return () if self._chain is None else self._chain.adapters

    def state(self, scope: Scope | None = None, *, shared: bool = False) -> State:
        """Return the component's state for the session of *scope*; see `Host.state`.

        Its name is the component's, for the second component of that name on a host `NAME-2`: so a
        resumed session relies on the order of components. Raises `RegistrationError` if the
        component is not installed.
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
        """Remove *adapter*; an absent one is ignored."""
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
        """Limit the component to some tools, give its handlers one *priority*; return it.

        *tools* are glob patterns: its adapters leave other tools alone, and its handlers do not
        get calls, failures, outcomes and messages of these; they get every value without a single
        tool. *late* runs its handlers after those of all other components, see `LATE`; arguments
        still pass its adapters first. The order of its own handlers stays. Raises
        `RegistrationError` if the component is installed, or overrides `setup`, whose handlers
        would ignore the limits.
        """
        if self._host is not None:
            raise self._refusal("it is installed already; restrict it before that")
        selector = ToolSelector(tools)
        if problem := selector.problem:
            raise self._refusal(problem)
        if priority is not None and type(priority) is not int:
            raise self._refusal(f"priority must be an integer, not {priority!r}")
        if type(self).setup is not AgentComponent.setup:
            unreached = "which ignores tools and priority; give them to the component itself"
            if late:
                unreached = "whose handlers could run before your own components"
            raise self._refusal(f"it overrides `setup`, {unreached}")
        self._selector, self._priority, self._is_late = selector, priority, late
        return self

    def setup(self, agent: Host) -> None:
        """Subscribe the handlers and add the tools; called when the agent is created."""
        if self._host is not None:
            raise self._refusal("it is installed already; make another one")
        if hasattr(self, "concealed"):
            # Under its name of 0.4 no report would call it, and secrets would be shown.
            raise self._refusal("`concealed` is `for_display` since 0.5; rename it")
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
        """Subscribe *handler* by *mark* until `teardown`; it runs while `enabled`.

        Unless *restricted*, the limits of `restrict` do not apply, except that it may be late.
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
        """Undo `setup` completely."""
        if self._host is not None:
            self._undo.close()
        self._applying, self._host = (), None

    def installed(self, bus: EventBus) -> Installation:
        """Install it on *bus*, for a test; see `Installation`."""
        from toolbus.components.participants import Installation  # noqa: PLC0415 - stands above

        return Installation(self, bus)

    def install(self, agent: Host) -> Awaitable[None]:
        """Acquire resources in the running loop; called before the agent's first step.

        Override it with an async method. Raises `RegistrationError`, at the call and not when
        awaited, unless the component was set up on *agent*.
        """
        if self._host is not agent:
            reason = "it is not set up there; to try it write `with component.installed(bus):`"
            raise self._refusal(reason)
        return _nothing()

    async def close(self) -> None:
        """Release the resources of `install`."""

    async def _on_tools_provide_adapter(
        self, ctx: EventContext[tuple[ToolSpec, ...]]
    ) -> tuple[ToolSpec, ...] | None:
        """Let each adapter change the specs of its tools; a failed one hides only its tool."""
        if not self.enabled or self._chain is None:
            return None
        specs = await self._chain.adapt_specs(ctx, self._selector)
        return None if specs is ctx.value else specs

    async def _on_tool_call_before_adapter(
        self, ctx: EventContext[ToolCall]
    ) -> ToolCall | Deny | None:
        """Let each adapter convert the arguments from its own spec back to the spec it received."""
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
        # One above the last on this bus, so that arguments pass the components in reverse.
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
            # An overriding method of a subclass is an ordinary handler.
            if getattr(AgentComponent, method.__name__) is not method.__func__:
                self._subscribe(Mark(event, "on", options), method, options)
                continue
            options["name"] = name_of(method)
            handler = self._handler_of(event)(self, event, method)
            subscription = self._subscribe(Mark(event, "on", options), handler, options)
            self._applying += ((subscription, handler),)

    def _choose_handlers(self) -> None:
        """Use sync handlers if the present adapters are sync, else async ones."""
        chosen = []
        for subscription, present in self._applying:
            handler, kind = present, self._handler_of(present.event)
            if type(present) is not kind:
                handler = kind(self, present.event, present.method)
                subscription.replace(handler)
            chosen.append((subscription, handler))
        self._applying = tuple(chosen)

    def _handler_of(self, event: Event) -> type[AdapterHandler]:
        """Return the class of handler of *event* for the present adapters."""
        waits = self._chain is not None and self._chain.waits(event)
        return AsyncAdapterHandler if waits else AdapterHandler

    def _subscribe(
        self, mark: Mark, handler: Callable[..., Any], options: HandlerOptions
    ) -> Subscription:
        agent: Any = self._host
        # A host with `on` and `guard` also ends its subscriptions when it leaves its bus.
        subscriber: Any = agent if isinstance(agent, Subscribable) else agent.bus
        subscribe = subscriber.guard if mark.kind == "guard" else subscriber.on
        options.setdefault("sender", agent.scope.agent_id or None)
        subscription: Subscription = subscribe(mark.event, handler, **options)
        self._undo.callback(subscription.cancel)
        return subscription

    def _when(
        self, wanted: Callable[[EventContext[Any]], bool] | None
    ) -> Callable[[EventContext[Any]], bool] | None:
        """Return the predicate *wanted*, limited to values of the component's tools."""
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
    """Return *candidate*, an adapter wrapped in a component of its own."""
    return AdapterComponent(candidate) if isinstance(candidate, ToolAdapter) else candidate


def wraps(component: AgentComponent, candidate: object) -> bool:
    """Return whether *component* is *candidate*, or wraps the adapter *candidate*."""
    is_wrapped = isinstance(component, AdapterComponent) and component.adapters[0] is candidate
    return is_wrapped or component is candidate


def _late(priority: int) -> int:
    return LATE + max(-_REACH, min(priority, _REACH))


async def _nothing() -> None:
    """Do nothing."""

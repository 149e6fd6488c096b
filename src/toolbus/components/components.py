"""Components: tools, handlers and adapters that are installed on an agent as one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, Unpack

from toolbus.bus.subscribing import HandlerOptions, Subscribing
from toolbus.components.adapters import ToolAdapter, adapter_problem
from toolbus.components.bound_adapters import BoundAdapter
from toolbus.components.chains import adapt_call, adapt_message, adapt_specs
from toolbus.components.marks import Mark, marked, tools_of
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
    from toolbus.components.host import Host
    from toolbus.components.installing import Installation
    from toolbus.components.state import State
    from toolbus.events.catalogue import Event

_EVERY_TOOL = ToolSelector()
PROVIDE_PRIORITY, APPEND_PRIORITY = 200, 50
LATE = -1_000_000
"""Added to the priorities of a late component, so that its handlers run after all others.

A handler that must run after late ones as well, such as a redaction of the stored copy, asks for
twice that.
"""
_REACH = 100_000
"""Priorities of late components count up to this, so that none leaves the range around `LATE`."""

Predicate: TypeAlias = "Callable[[EventContext[Any]], bool] | None"


class AgentComponent:
    """Tools, handlers and adapters, installed together; a subclass marks its methods.

    `@on(EVENT)` and `@guard(EVENT)` make a method a handler, `@tool` makes it a tool; a method
    that overrides it stays one. *requires* names component classes that must be there too.
    *enabled* may be switched at any time; its host gives it a *number* among those of its name.

    >>> class Careful(AgentComponent):
    ...     @guard(events.TOOL_CALL_BEFORE, tools="delete")
    ...     def never(self, ctx):
    ...         return Deny("nothing is deleted here")
    """

    requires: tuple[type[AgentComponent], ...] = ()
    enabled: bool = True
    number: int = 1

    # Swapped whole and never changed in place, so a subclass need not call our `__init__`.
    _adapters: tuple[BoundAdapter, ...] = ()
    _undo: tuple[Callable[[], object], ...] = ()
    _host: Host | None = None
    _selector: ToolSelector = _EVERY_TOOL
    _priority: int | None = None
    _is_late: bool = False

    def __init__(self, *, enabled: bool | None = None) -> None:
        if enabled is not None:
            self.enabled = enabled

    @property
    def name(self) -> str:
        """Its name in errors and logs."""
        return type(self).__name__

    @property
    def host(self) -> Host | None:
        """What it is installed on, or None."""
        return self._host

    def state(self, scope: Scope | None = None, *, shared: bool = False) -> State:
        """Return what it keeps for the session of *scope*; see `Host.state`.

        It is kept under its name, of the second one of that name on a host under `NAME-2`: so the
        order of components is part of what a session resumes. Raises `RegistrationError` if it is
        not installed.
        """
        if self._host is None:
            reason = "it is not installed, and what it keeps belongs to what it is installed on"
            raise RegistrationError(f"component {self.name!r}", reason)
        name = self.name if self.number == 1 else f"{self.name}-{self.number}"
        return self._host.state(name, scope, shared=shared)

    @property
    def adapters(self) -> tuple[ToolAdapter, ...]:
        """Its adapters in the order in which they see signatures and responses."""
        return tuple([bound.adapter for bound in self._adapters])

    def register_tool_adapter(self, adapter: ToolAdapter) -> None:
        """Add *adapter*; also after installation."""
        if problem := self._problem(adapter):
            raise RegistrationError(f"adapter {getattr(adapter, 'name', adapter)!r}", problem)
        # Sorting is stable, so equal priorities stay in order of registration.
        adapters = (*self._adapters, BoundAdapter(adapter))
        self._adapters = tuple(sorted(adapters, key=lambda bound: -bound.adapter.priority))

    def unregister_tool_adapter(self, adapter: ToolAdapter) -> None:
        """Take *adapter* out; one that is not there is ignored."""
        self._adapters = tuple([bound for bound in self._adapters if bound.adapter is not adapter])

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
        what = f"component {self.name!r}"
        if self._host is not None:
            raise RegistrationError(what, "it is installed already; restrict it before that")
        selector = ToolSelector(tools)
        if problem := selector.problem:
            raise RegistrationError(what, problem)
        if priority is not None and type(priority) is not int:
            raise RegistrationError(what, f"priority must be an integer, not {priority!r}")
        if type(self).setup is not AgentComponent.setup:
            unreached = "which tools and priority do not reach; give them to the component itself"
            if late:
                unreached = "which could come before your own components"
            raise RegistrationError(what, f"it has a `setup` of its own, {unreached}")
        self._selector, self._priority, self._is_late = selector, priority, late
        return self

    @property
    def selector(self) -> ToolSelector:
        """The tools that the component was restricted to, all by default."""
        return self._selector

    def setup(self, agent: Host) -> None:
        """Subscribe the handlers and add the tools; called when the agent is made."""
        if self._host is not None:
            reason = "it is installed already; make another one"
            raise RegistrationError(f"component {self.name!r}", reason)
        self._host = agent
        try:
            self._subscribe_adapters(agent)
            marks: Iterable[tuple[str, Mark]] = marked(type(self))
            if self._priority is not None:
                # The order of their own priorities stays.
                marks = sorted(marks, key=lambda named: -named[1].options.get("priority", 100))
            for name, mark in marks:
                self._subscribe_marked(agent, mark, getattr(self, name))
            for tool in tools_of(self):
                agent.tools.add(tool, offered=lambda: self.enabled)
                self._undo += (partial(agent.tools.remove, tool.spec.name),)
        except BaseException:
            self.teardown()
            raise

    def is_for_parameters(self, handler: Callable[..., Any]) -> bool:
        """Tell whether *handler* is its own for parameters, which pass components in reverse."""
        return handler == self._on_tool_call_before_adapter

    def teardown(self) -> None:
        """Undo `setup`: nothing of the component stays behind."""
        for undo in self._undo:
            undo()
        self._undo, self._host = (), None

    def installed(self, bus: EventBus) -> Installation:
        """Install it on *bus*, for a test; see `Installation`."""
        from toolbus.components.installing import Installation  # noqa: PLC0415 - stands above

        return Installation(self, bus)

    def install(self, agent: Host) -> Awaitable[None]:
        """Acquire what needs a running loop; called before the agent's first step.

        Overridden by an async method. Raises `RegistrationError`, at once and not when awaited,
        unless it was set up on *agent*.
        """
        if self._host is not agent:
            reason = "it is not set up there; to try it write `with component.installed(bus):`"
            raise RegistrationError(f"component {self.name!r}", reason)
        return _nothing()

    async def close(self) -> None:
        """Release what `install` acquired."""

    async def _on_tools_provide_adapter(
        self, ctx: EventContext[tuple[ToolSpec, ...]]
    ) -> tuple[ToolSpec, ...] | None:
        """Let each adapter reword the specs of its tools; one that fails hides only its tool."""
        if not self.enabled or not self._adapters:
            return None
        specs = await adapt_specs(ctx, self._adapters, self._selector)
        return None if specs is ctx.value else specs

    async def _on_tool_call_before_adapter(
        self, ctx: EventContext[ToolCall]
    ) -> ToolCall | Deny | None:
        """Let each adapter turn the arguments into those of the signature that it was given."""
        if not self.enabled or not self._adapters:
            return None
        call = await adapt_call(ctx, self._adapters)
        return None if call is ctx.value else call

    async def _on_message_append_before_adapter(
        self, ctx: EventContext[Message]
    ) -> ToolMessage | None:
        """Let each adapter change the response of a tool message, and nothing else."""
        message = ctx.value
        if not self.enabled or not self._adapters or not isinstance(message, ToolMessage):
            return None
        if message.tool_response is None:
            return None
        adapted = await adapt_message(ctx, self._adapters, message, message.tool_response)
        if adapted is message:
            return None
        ctx.output = adapted
        return adapted

    def _problem(self, adapter: Any) -> str | None:
        """Return why *adapter* cannot be one of this component's, or None."""
        if not isinstance(adapter, ToolAdapter):
            return "expected an object of a subclass of ToolAdapter"
        if any(bound.adapter is adapter for bound in self._adapters):
            return f"{self.name} has it already"
        return adapter_problem(adapter)

    def _subscribe_adapters(self, agent: Host) -> None:
        # One above the last on this bus, so that parameters pass the components in reverse.
        number, give_back = agent.bus.numbers.take(self)
        self._undo += (give_back,)
        options: HandlerOptions = {"on_error": "closed", "when": self._when(None)}
        for event, handler, priority in (
            (TOOLS_PROVIDE, self._on_tools_provide_adapter, PROVIDE_PRIORITY),
            (TOOL_CALL_BEFORE, self._on_tool_call_before_adapter, PROVIDE_PRIORITY + number),
            (MESSAGE_APPEND_BEFORE, self._on_message_append_before_adapter, APPEND_PRIORITY),
        ):
            self._subscribe(agent, event, "on", handler, **options | {"priority": priority})

    def _subscribe_marked(self, agent: Host, mark: Mark, handler: Callable[..., Any]) -> None:
        """Subscribe a marked method for the time that the component is enabled."""
        options = mark.options.copy()
        when = self._when(options.get("when"))
        options["when"] = lambda ctx: self.enabled and (when is None or when(ctx))
        if self._priority is not None:
            options["priority"] = self._priority
        self._subscribe(agent, mark.event, mark.kind, handler, **options)

    def _subscribe(
        self,
        agent: Host,
        event: Event,
        kind: Literal["on", "guard"],
        handler: Callable[..., Any],
        **options: Unpack[HandlerOptions],
    ) -> None:
        # A host that subscribes itself forgets what it subscribed when it leaves its bus.
        subscriber = agent if isinstance(agent, Subscribing) else agent.bus
        if self._is_late and handler != self._on_tool_call_before_adapter:
            options["priority"] = LATE + max(-_REACH, min(options.get("priority", 100), _REACH))
        subscribe: Any = subscriber.guard if kind == "guard" else subscriber.on
        options.setdefault("sender", agent.scope.agent_id or None)
        self._undo += (subscribe(event, handler, **options).cancel,)

    def _when(self, wanted: Predicate) -> Predicate:
        """Return the predicate *wanted*, for values about the component's tools alone."""
        if self._selector.is_everything:
            return wanted
        admits = self._selector.admits
        return lambda ctx: admits(ctx.value) and (wanted is None or wanted(ctx))


async def _nothing() -> None:
    """Do nothing."""

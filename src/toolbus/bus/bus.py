"""The bus: subscriptions in their order, and the verbs that dispatch to them."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import convert

from toolbus.bus.channels import Channel, Plans
from toolbus.bus.dispatch.bindings import Binding
from toolbus.bus.dispatch.callables import is_async
from toolbus.bus.dispatch.contexts import NO_SCOPE
from toolbus.bus.dispatch.details import Details
from toolbus.bus.dispatch.loop import Dispatch, DispatchServices
from toolbus.bus.subscriptions import (
    HandlerInfo,
    HandlerOptions,
    Subscribe,
    Subscribing,
    Subscription,
    SubscriptionOptions,
    WeakHandler,
    check_handler,
    settings_of,
)
from toolbus.errors import DispatchError, RegistrationError
from toolbus.events.catalogue import check_event

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

    from blinker import Signal

    from toolbus.bus.dispatch.contexts import Check, EventContext, Signatures
    from toolbus.bus.dispatch.loop import Verb
    from toolbus.bus.ledger.records import DispatchRecord, HandlerKind
    from toolbus.bus.ledger.taps import Tap, Taps
    from toolbus.bus.queues import Queues
    from toolbus.events.catalogue import Event, ObserveEvent, Scope, ToolSpec, TransformEvent

T = TypeVar("T")
V = TypeVar("V")


class EventBus(Subscribing):
    """Handlers in one order, and the verbs that dispatch: `do`, `observe`, `apply`, `apply_sync`.

    Args:
        dry_run: verdicts are only recorded: nothing is denied and nobody asked; rewrites apply.
        max_pending: how long an observer's queue may grow before `catch_up` waits for it.

    >>> bus = EventBus()
    >>> _ = bus.on(events.TOOL_CALL_BEFORE, lambda ctx: ctx.value.merge_arguments({"path": "b"}))
    >>> ctx = bus.apply_sync(events.TOOL_CALL_BEFORE, ToolCall(name="read"))
    >>> dict(ctx.value.arguments)
    {'path': 'b'}
    """

    def __init__(self, *, dry_run: bool = False, max_pending: int = 10_000) -> None:
        self.dry_run, self.max_pending = dry_run, max_pending
        self._channels: dict[Event, Channel] = {}
        self._plans: dict[Event, Plans] = {}
        self._taps: Taps | None = None
        self._tapped: dict[str, tuple[Tap, ...]] = {}  # The sessions with taps of their own.
        self._shared: dict[Any, Any] = {}
        self._queues: Queues | None = None
        # The work of timed-out handlers' threads that still run.
        self._abandoned: set[Future[Any]] = set()
        # For objects that are made once: channels, queues. A dispatch does not take it.
        self._create_lock = threading.RLock()

    async def __aenter__(self) -> Self:
        self._used_queues().open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def do(self, event: ObserveEvent[V], value: V, scope: Scope = NO_SCOPE) -> None:
        """Show *value* to the observers of *event*; async ones see it later, in order.

        Raises before any handler ran: `NoLoopError` (async observers, and no loop for them),
        `ClosedError` (async observers, and the bus is closed), `DispatchDepthError`.
        """
        try:
            plan = self._plans[event].do
        except (AttributeError, KeyError, TypeError):
            plan = self._channel(event).plan("do")
        plan(value, scope)

    def observe(
        self, event: ObserveEvent[V], value: V, scope: Scope = NO_SCOPE
    ) -> Coroutine[Any, Any, None]:
        """Show *value* to the observers of *event*, one after another; await it."""
        coroutine: Coroutine[Any, Any, None] = self._channel(event).plan("observe")(value, scope)
        return coroutine

    def apply(  # noqa: PLR0917 - a keyword-only default costs a dispatch a tenth
        self,
        event: TransformEvent[V, Any],
        value: V,
        scope: Scope = NO_SCOPE,
        tool: ToolSpec | None = None,
        check: Check | None = None,
        signatures: Signatures | None = None,
    ) -> Coroutine[Any, Any, EventContext[V]]:
        """Let the handlers of *event* change or refuse *value*; awaited, tell how it ended.

        Raises `HandlerError` if a handler with the policy "raise" fails.

        Args:
            event: what happens.
            value: what it happens to.
            scope: who speaks.
            tool: the spec of the tool in question, for `EventContext.tool`.
            check: judges each replacement: gets the turn's context and the new value, returns
                why it is refused. That ends the dispatch, see `EventContext.rejected`.
            signatures: tells the spec that an adapter was given, for `EventContext.step`.
        """
        try:
            plan = self._plans[event].apply
        except (AttributeError, KeyError, TypeError):
            plan = self._channel(event).plan("apply")
        if tool is None and check is None and signatures is None:
            return plan(value, scope)
        return plan(value, scope, Details(tool, check, signatures))

    def apply_sync(  # noqa: PLR0917 - as `apply`
        self,
        event: TransformEvent[V, Any],
        value: V,
        scope: Scope = NO_SCOPE,
        tool: ToolSpec | None = None,
        check: Check | None = None,
        signatures: Signatures | None = None,
    ) -> EventContext[V]:
        """Do as `apply` does, if all handlers are sync; else raise before any of them ran."""
        try:
            plan = self._plans[event].apply_sync
        except (AttributeError, KeyError, TypeError):
            plan = self._channel(event).plan("apply_sync")
        if tool is None and check is None and signatures is None:
            return plan(value, scope)
        return plan(value, scope, Details(tool, check, signatures))

    def has_listeners(self, event: Event) -> bool:
        """Return whether a dispatch of *event* reaches any handler, receiver or tap.

        A handler counts whatever its sender and predicate; a dispatch without listeners may be
        left out.
        """
        try:
            answer = self._plans[event].has_listeners
        except (AttributeError, KeyError, TypeError):
            channel = self._channel(event)
            answer = channel.cached("has_listeners", partial(self._has_listeners, channel))
        return answer

    def awaits(self, event: Event) -> bool:
        """Return whether a dispatch of *event* may have to wait: whether a handler is async."""
        try:
            answer = self._plans[event].has_async
        except (AttributeError, KeyError, TypeError):
            channel = self._channel(event)
            answer = channel.cached("has_async", channel.has_async)
        return answer

    @property
    def pending(self) -> int:
        """How many events wait in the queues of async observers, in all loops."""
        return 0 if self._queues is None else self._queues.pending

    @property
    def lost(self) -> int:
        """How many events async observers missed because their loop was closed; each is logged."""
        return 0 if self._queues is None else self._queues.lost

    async def drain(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - ends quietly
        """Wait until the async observers have seen all that is queued now in the running loop.

        Raises `DispatchError` inside an async observer, which would wait for itself.

        Args:
            timeout: seconds; when they are over it returns, and the log says how much still waits.
        """
        if self._queues is not None:
            await self._queues.drain(timeout)

    async def catch_up(self) -> None:
        """Wait until no async observer here is more than `max_pending` events behind."""
        if self._queues is not None:
            await self._queues.below(self.max_pending)

    async def aclose(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as `drain`
        """Drain, at most *timeout* seconds, and refuse events for async observers from then on."""
        await self._used_queues().close(timeout)

    @property
    def stuck(self) -> int:
        """How many threads of timed-out handlers still run."""
        return len(self._abandoned)

    def shared(self, kind: Callable[[], T]) -> T:
        """Return the one object of *kind*, a class, that all components on this bus share."""
        with self._create_lock:
            if kind not in self._shared:
                self._shared[kind] = kind()
            shared: T = self._shared[kind]
            return shared

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that somebody has handled, dispatched or asked about on this bus."""
        return tuple(self._channels)

    def handlers(self, event: Event) -> tuple[HandlerInfo, ...]:
        """Return who handles *event*, in the order in which they will run."""
        bindings = self._channel(event).bindings
        return tuple([convert(each, HandlerInfo, from_attributes=True) for each in bindings])

    def functions(self, event: Event) -> tuple[Callable[..., Any] | None, ...]:
        """Return what was subscribed to *event*, as `handlers` lists it; None if it is gone."""
        return tuple([binding.handler for binding in self._channel(event).bindings])

    def addressed(self, event: Event, scope: Scope) -> tuple[Binding, ...]:
        """Return who hears *event* under *scope*, in order."""
        return self._channel(event).listeners(scope).bindings

    def version(self, event: Event) -> object:
        """Return an object that is replaced at each change of the listeners to *event*."""
        self._channel(event)
        return self._plans[event]

    def signal(self, event: Event) -> Signal:
        """Return blinker's own signal; its receivers get `(agent_id, ctx=…)` after all handlers.

        A receiver sees every dispatch of *event* and changes none; its failure is logged.
        """
        return self._channel(event).signal

    def tap(
        self,
        sink: Callable[[DispatchRecord], object],
        *,
        values: bool = False,
        idle: bool = True,
        without: tuple[Event, ...] = (),
        digests: bool = True,
        session_id: str | None = None,
    ) -> Callable[[], None]:
        """Give *sink* a record of every dispatch; return a function that ends it.

        It is called in the thread of the dispatch, at its end. One that raises is logged and stays.

        Args:
            sink: a plain function.
            values: put the values into the records, not only their digests.
            idle: also record dispatches that have no handler.
            without: events to leave out.
            digests: False spares them, unless another tap wants them; they are "" then.
            session_id: record the dispatches of this session only; others do not pay for it.
        """
        if not callable(sink) or is_async(sink):
            raise RegistrationError(f"sink {sink!r}", "a sink is a plain function of the record")
        from toolbus.bus.ledger.taps import Tap, TapFilter, Taps  # noqa: PLC0415 - few need it

        with self._create_lock:
            self._taps = self._taps or Taps(self._tapped, self._invalidate)
        which = TapFilter(idle, tuple(without))
        return self._taps.add(
            Tap(sink, which, values=values, digests=digests, session_id=session_id)
        )

    def attach(
        self,
        event: Event,
        handler: Callable[..., Any],
        kind: HandlerKind,
        options: HandlerOptions,
        order: Callable[[int], int] = int,
    ) -> Subscription:
        """Subscribe *handler* for as long as its subscription is kept.

        So an agent's handlers go with the agent, also without a close: the bus keeps neither the
        handler nor, through it, the agent. Among handlers of one priority it has the place that
        *order* makes of its number.
        """
        settings = settings_of(event, kind, options)
        return self._bind(event, kind, settings, handler, attached=True, order=order)

    def _subscribe(
        self,
        event: Event,
        handler: Callable[..., Any] | None,
        kind: HandlerKind,
        options: HandlerOptions,
    ) -> Any:
        settings = settings_of(event, kind, options)
        self._channel(event)
        if handler is None:
            return Subscribe(partial(self._bind, event, kind, settings))
        return self._bind(event, kind, settings, handler)

    def _bind(
        self,
        event: Event,
        kind: HandlerKind,
        settings: SubscriptionOptions,
        handler: Callable[..., Any],
        *,
        attached: bool = False,
        order: Callable[[int], int] = int,
    ) -> Subscription:
        channel = self._channel(event)
        check_handler(event, handler, settings)
        held = WeakHandler(handler, settings.when) if attached and not settings.weak else None
        binding = Binding(
            event, handler, kind, settings, on_left=self._watch, held=held, on_end=channel.end
        )
        channel.add(binding, order)
        return Subscription(channel, binding, held)

    def _channel(self, event: Event) -> Channel:
        try:
            return self._channels[event]
        except (KeyError, TypeError):
            check_event(event)
        with self._create_lock:
            for other in self._channels:
                if other.name == event.name and other is not event:
                    what, reason = f"event {event.name!r}", "this bus has another of that name"
                    raise RegistrationError(what, reason)
            if event not in self._channels:
                made = Channel(event, self._plans, self._plan, self._tapped)
                self._channels[event] = made
            return self._channels[event]

    def _plan(
        self, channel: Channel, verb: Verb, bindings: tuple[Binding, ...], *, tapped: bool
    ) -> Callable[..., Any]:
        if verb == "apply_sync" and any(binding.needs_loop for binding in bindings):
            return partial(self._refuse, channel, bindings)
        queues, recorder = None, None
        if verb == "do" and any(binding.is_async for binding in bindings):
            queues = self._used_queues()
        if self._taps is not None:
            recorder = self._taps.recorder(channel.event, bindings, tapped=tapped)
        notify = channel.notify if channel.has_receivers else None
        services = DispatchServices(channel, recorder, notify, queues)
        dispatch = Dispatch(verb, bindings, services, dry_run=self.dry_run)
        return dispatch.run if verb in {"apply", "observe"} else dispatch.run_sync

    def _has_listeners(self, channel: Channel) -> bool:
        if channel.handled or channel.has_receivers:
            return True
        return self._taps is not None and self._taps.wants(
            channel.event, handled=False, tapped=True
        )

    def _refuse(
        self, channel: Channel, bindings: tuple[Binding, ...], *arguments: Any
    ) -> EventContext[Any]:
        """Raise for the handler that cannot run without a loop, if it still lives."""
        for binding in bindings:
            if binding.needs_loop and binding.alive:
                reason = f"handler {binding.name!r} is async; use `await bus.apply(…)`"
                raise DispatchError(channel.event.name, reason)
        channel.invalidate()
        context: EventContext[Any] = channel.plan("apply_sync")(*arguments)
        return context

    def _used_queues(self) -> Queues:
        if self._queues is None:
            from toolbus.bus.queues import Queues  # noqa: PLC0415 - loads asyncio

            with self._create_lock:
                self._queues = self._queues or Queues()
        return self._queues

    def _invalidate(self) -> None:
        for channel in tuple(self._channels.values()):
            channel.invalidate()

    def _watch(self, work: Future[Any]) -> None:
        self._abandoned.add(work)
        work.add_done_callback(self._abandoned.discard)

"""The event bus: ordered subscriptions, and the verbs that dispatch to them."""

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
from toolbus.bus.dispatch.loop import Dispatch
from toolbus.bus.subscriptions import (
    Decorator,
    HandlerInfo,
    HandlerOptions,
    Subscribable,
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


class EventBus(Subscribable):
    """A bus of ordered handlers, with the verbs `do`, `observe`, `apply` and `apply_sync`.

    Args:
        dry_run: only record verdicts: no denial or question takes effect, rewrites apply.
        max_pending: the length of an observer's queue above which `catch_up` waits for it.

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
        self._tapped: dict[str, tuple[Tap, ...]] = {}  # By session, for taps of one session.
        self._shared: dict[Any, Any] = {}
        self._queues: Queues | None = None
        # The threads of timed-out handlers that are still running.
        self._abandoned: set[Future[Any]] = set()
        # For objects that are created once: channels, queues. A dispatch does not take it.
        self._create_lock = threading.RLock()

    async def __aenter__(self) -> Self:
        self._used_queues().open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def do(self, event: ObserveEvent[V], value: V, scope: Scope = NO_SCOPE) -> None:
        """Show *value* to the observers of *event*; async observers are queued, in order.

        Raises before any handler runs: `NoLoopError` (async observers without an event loop),
        `ClosedError` (async observers on a closed bus), `DispatchDepthError`.
        """
        try:
            plan = self._plans[event].do
        except (AttributeError, KeyError, TypeError):
            plan = self._channel(event).plan("do")
        plan(value, scope)

    def observe(
        self, event: ObserveEvent[V], value: V, scope: Scope = NO_SCOPE
    ) -> Coroutine[Any, Any, None]:
        """Show *value* to the observers of *event*, one after another; a coroutine."""
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
        """Let the handlers of *event* change or deny *value*; await the context with the result.

        Raises `HandlerError` if a handler with the policy "raise" fails.

        Args:
            event: the event to dispatch.
            value: its value.
            scope: the agent, session, run and turn of the dispatch.
            tool: the spec of the tool in question, for `EventContext.tool`.
            check: a judge of each replacement: gets the turn's context and the new value, returns
                a reason to refuse it. That ends the dispatch, see `EventContext.rejected`.
            signatures: a lookup of the spec that an adapter received, for `EventContext.step`.
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
        """Apply without a loop, like `apply`; raises before any handler runs if one is async."""
        try:
            plan = self._plans[event].apply_sync
        except (AttributeError, KeyError, TypeError):
            plan = self._channel(event).plan("apply_sync")
        if tool is None and check is None and signatures is None:
            return plan(value, scope)
        return plan(value, scope, Details(tool, check, signatures))

    def has_listeners(self, event: Event) -> bool:
        """Return whether a dispatch of *event* reaches any handler, receiver or tap.

        A handler counts regardless of its sender and predicate. A dispatch without listeners may
        be left out.
        """
        try:
            answer = self._plans[event].has_listeners
        except (AttributeError, KeyError, TypeError):
            channel = self._channel(event)
            answer = channel.cached("has_listeners", partial(self._has_listeners, channel))
        return answer

    def awaits(self, event: Event) -> bool:
        """Return whether a dispatch of *event* may have to wait, because a handler is async."""
        try:
            answer = self._plans[event].has_async
        except (AttributeError, KeyError, TypeError):
            channel = self._channel(event)
            answer = channel.cached("has_async", channel.has_async)
        return answer

    @property
    def pending(self) -> int:
        """The number of events in the queues of async observers, in all loops."""
        return 0 if self._queues is None else self._queues.pending

    @property
    def lost(self) -> int:
        """The number of events lost to async observers by a closed loop; each is logged."""
        return 0 if self._queues is None else self._queues.lost

    async def drain(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - ends quietly
        """Wait until the async observers have seen all events now queued in the running loop.

        Raises `DispatchError` inside an async observer, which would wait for itself.

        Args:
            timeout: seconds, after which it returns, and the log has the number of waiting events.
        """
        if self._queues is not None:
            await self._queues.drain(timeout)

    async def catch_up(self) -> None:
        """Wait until no async observer here is more than `max_pending` events behind."""
        if self._queues is not None:
            await self._queues.below(self.max_pending)

    async def aclose(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as `drain`
        """Drain, at most *timeout* seconds, and refuse later events for async observers."""
        await self._used_queues().close(timeout)

    @property
    def stuck(self) -> int:
        """The number of threads of timed-out handlers that are still running."""
        return len(self._abandoned)

    def shared(self, kind: Callable[[], T]) -> T:
        """Return the single instance of the class *kind* for all components on this bus."""
        with self._create_lock:
            if kind not in self._shared:
                self._shared[kind] = kind()
            shared: T = self._shared[kind]
            return shared

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that were handled, dispatched or queried on this bus."""
        return tuple(self._channels)

    def handlers(self, event: Event) -> tuple[HandlerInfo, ...]:
        """Return the handlers of *event*, in the order in which they run."""
        bindings = self._channel(event).bindings
        return tuple([convert(each, HandlerInfo, from_attributes=True) for each in bindings])

    def functions(self, event: Event) -> tuple[Callable[..., Any] | None, ...]:
        """Return the functions of `handlers(event)`; None for a collected weak handler."""
        return tuple([binding.handler for binding in self._channel(event).bindings])

    def bindings_for(self, event: Event, scope: Scope) -> tuple[Binding, ...]:
        """Return the handlers of *event* for dispatches under *scope*, in order."""
        return self._channel(event).listeners(scope).bindings

    def version(self, event: Event) -> object:
        """Return an object that is replaced with each change of the listeners to *event*."""
        self._channel(event)
        return self._plans[event]

    def signal(self, event: Event) -> Signal:
        """Return the blinker signal; its receivers get `(agent_id, ctx=…)` after all handlers.

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
        """Send a record of every dispatch to *sink*; return a function that ends this.

        The sink runs at the end of the dispatch, in its thread. Its errors are logged; it stays.

        Args:
            sink: a plain function.
            values: include the values in the records, not only their digests.
            idle: also record dispatches without a handler.
            without: events to leave out.
            digests: False saves their computation: they are "", unless another tap wants them.
            session_id: record the dispatches of this session only, at no cost for others.
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

        So an agent's handlers end with the agent, even without a close: the bus keeps neither the
        handler nor, through it, the agent. *order* maps the subscription's number to its position
        among the handlers of one priority.
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
            return Decorator(partial(self._bind, event, kind, settings))
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
                    what, reason = (
                        f"event {event.name!r}",
                        "this bus has another event of that name",
                    )
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
        dispatch = Dispatch(
            verb,
            bindings,
            channel,
            recorder=recorder,
            notify=channel.notify if channel.has_receivers else None,
            queues=queues,
            dry_run=self.dry_run,
        )
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
        """Raise for the live handler that needs a loop; without one, dispatch after all."""
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

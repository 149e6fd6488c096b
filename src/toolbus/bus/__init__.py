"""The bus: who handles which event, in which order, and the verbs that dispatch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from blinker import Namespace

from toolbus.bus.registry import Registry
from toolbus.bus.taps import Tap, Taps
from toolbus.dispatch.bindings import is_async
from toolbus.dispatch.chain import Transform, observe, run_now, tell
from toolbus.dispatch.contexts import EventContext
from toolbus.errors import DispatchError, RegistrationError
from toolbus.events import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.channels import Channel
    from toolbus.bus.queues import Queues
    from toolbus.dispatch.bindings import Binding
    from toolbus.dispatch.contexts import Check, Signatures
    from toolbus.events import Event, ObserveEvent, ToolSpec, TransformEvent
    from toolbus.ledger import DispatchRecord, Outcome

V = TypeVar("V")
_NO_SCOPE = Scope()


class EventBus(Registry):
    """Handlers in one order, and the verbs that dispatch: `do`, `observe`, `apply`, `apply_sync`.

    Args:
        dry_run: verdicts are only recorded: nothing is denied and nobody asked; rewrites apply.
        max_pending: how long an observer's queue may grow before `catch_up` waits for it.
    """

    def __init__(self, *, dry_run: bool = False, max_pending: int = 10_000) -> None:
        self.dry_run, self.max_pending = dry_run, max_pending
        super().__init__(Namespace().signal)
        self._taps = Taps()
        self._queues: Queues | None = None

    async def __aenter__(self) -> Self:
        self._queue_room().open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def tap(
        self,
        sink: Callable[[DispatchRecord], object],
        *,
        values: bool = False,
        idle: bool = True,
        without: tuple[Event, ...] = (),
        digests: bool = True,
    ) -> Callable[[], None]:
        """Give *sink* a record of every dispatch; return a function that ends it.

        It is called in the thread of the dispatch, at its end. One that raises is logged and stays.

        Args:
            sink: a plain function.
            values: put the values into the records, not only their digests.
            idle: also record dispatches that have no handler.
            without: events to leave out.
            digests: False spares them, unless another tap wants them; they are "" then.
        """
        if not callable(sink) or is_async(sink):
            raise RegistrationError(f"sink {sink!r}", "a sink is a plain function of the record")
        return self._taps.add(Tap(sink, values, idle, tuple(without), digests))

    def do(self, event: ObserveEvent[V], value: V, *, scope: Scope = _NO_SCOPE) -> None:
        """Show *value* to the observers of *event*; async ones see it later, in order.

        Raises before any handler ran: `NoLoopError` (async observers, and no loop for them),
        `ClosedError` (async observers, and the bus is closed), `DispatchDepthError`.
        """
        channel = self._channel(event, "do")
        bindings = channel.bindings
        enqueue = None
        for binding in bindings:
            if binding.is_async and binding.alive:
                queues = self._queue_room()
                queues.ready(event.name)
                enqueue = queues.put
                break
        run_now(self._observe(channel, bindings, value, scope, enqueue))

    async def observe(self, event: ObserveEvent[V], value: V, *, scope: Scope = _NO_SCOPE) -> None:
        """Show *value* to the observers of *event*, one after another, and wait for them."""
        channel = self._channel(event, "observe")
        await self._observe(channel, channel.bindings, value, scope, None)

    async def apply(
        self,
        event: TransformEvent[V, Any],
        value: V,
        *,
        scope: Scope = _NO_SCOPE,
        tool: ToolSpec | None = None,
        check: Check | None = None,
        signatures: Signatures | None = None,
    ) -> EventContext[V]:
        """Let the handlers of *event* change or refuse *value*; return how it ended.

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
        channel = self._channel(event, "apply")
        context = EventContext(
            event, value, scope=scope, tool=tool, check=check, signatures=signatures
        )
        await self._transform(channel, event, channel.bindings, context, blocking=False)
        return context

    def apply_sync(
        self,
        event: TransformEvent[V, Any],
        value: V,
        *,
        scope: Scope = _NO_SCOPE,
        tool: ToolSpec | None = None,
        check: Check | None = None,
        signatures: Signatures | None = None,
    ) -> EventContext[V]:
        """Do as `apply` does, if all handlers are sync; else raise before any of them ran."""
        channel = self._channel(event, "apply_sync")
        bindings = channel.bindings
        for binding in bindings:
            if binding.blocking is None and binding.alive:
                reason = f"handler {binding.name!r} is async; use `await bus.apply(…)`"
                raise DispatchError(event.name, reason)
        context = EventContext(
            event, value, scope=scope, tool=tool, check=check, signatures=signatures
        )
        run_now(self._transform(channel, event, bindings, context, blocking=True))
        return context

    @property
    def pending(self) -> int:
        """How many events wait in the queues of async observers."""
        return 0 if self._queues is None else self._queues.pending

    async def drain(self) -> None:
        """Wait until the async observers have seen all that is queued now.

        Raises `DispatchError` inside an async observer, which would wait for itself.
        """
        if self._queues is not None:
            await self._queues.drain()

    async def catch_up(self) -> None:
        """Wait until no async observer is more than `max_pending` events behind."""
        if self._queues is not None:
            await self._queues.below(self.max_pending)

    async def aclose(self) -> None:
        """Drain, and refuse events for async observers from then on."""
        await self._queue_room().close()

    def _queue_room(self) -> Queues:
        if self._queues is None:
            from toolbus.bus.queues import Queues  # noqa: PLC0415 - loads asyncio

            with self._making:
                self._queues = self._queues or Queues()
        return self._queues

    async def _observe(
        self,
        channel: Channel,
        bindings: tuple[Binding, ...],
        value: object,
        scope: Scope,
        enqueue: Callable[[Binding, EventContext[Any]], None] | None,
    ) -> None:
        with channel.deeper():
            context = EventContext(channel.event, value, scope=scope)
            trace = self._taps.trace(context, bindings)
            outcome: Outcome = "raised"
            try:
                await observe(bindings, context, trace=trace, enqueue=enqueue)
                tell(channel.strangers(scope.agent_id), context)
                outcome = "observed"
            finally:
                if trace is not None:
                    self._taps.record(trace, context, bindings, outcome)

    async def _transform(
        self,
        channel: Channel,
        event: TransformEvent[Any, Any],
        bindings: tuple[Binding, ...],
        context: EventContext[Any],
        *,
        blocking: bool,
    ) -> None:
        with channel.deeper():
            trace = self._taps.trace(context, bindings)
            transform = Transform(
                event, context, trace=trace, dry_run=self.dry_run, blocking=blocking
            )
            try:
                await transform.run(bindings)
                tell(channel.strangers(context.scope.agent_id), context)
            finally:
                if trace is not None:
                    self._taps.record(trace, context, bindings, *transform.outcome)

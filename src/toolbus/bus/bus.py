"""The bus: who handles which event, in which order, and the verbs that dispatch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from blinker import Namespace

from toolbus.bus.dispatch.callables import is_async
from toolbus.bus.dispatch.details import Details
from toolbus.bus.dispatch.loop import DispatchServices
from toolbus.bus.dispatch.plans import make_plan
from toolbus.bus.ledger.taps import Tap, TapFilter
from toolbus.bus.registry import Registry
from toolbus.errors import DispatchError, RegistrationError
from toolbus.events.catalogue import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from toolbus.bus.channels import Channel
    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.bus.dispatch.contexts import Check, EventContext, Signatures
    from toolbus.bus.dispatch.plans import Verb
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.bus.queues import Queues
    from toolbus.events.catalogue import Event, ObserveEvent, ToolSpec, TransformEvent

V = TypeVar("V")
_NO_SCOPE = Scope()


class EventBus(Registry):
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
        super().__init__(Namespace().signal)
        self._queues: Queues | None = None

    async def __aenter__(self) -> Self:
        self._used_queues().open()
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
        which = TapFilter(idle, tuple(without))
        return self._taps.add(
            Tap(sink, which, values=values, digests=digests, session_id=session_id)
        )

    def do(self, event: ObserveEvent[V], value: V, scope: Scope = _NO_SCOPE) -> None:
        """Show *value* to the observers of *event*; async ones see it later, in order.

        Raises before any handler ran: `NoLoopError` (async observers, and no loop for them),
        `ClosedError` (async observers, and the bus is closed), `DispatchDepthError`.
        """
        try:
            channel = self._channels[event]
        except (KeyError, TypeError):
            channel = self._new_channel(event)
        plan = channel.do  # Not in one with the call: an attribute that is no method loads faster.
        plan(value, scope)

    def observe(
        self, event: ObserveEvent[V], value: V, scope: Scope = _NO_SCOPE
    ) -> Coroutine[Any, Any, None]:
        """Show *value* to the observers of *event*, one after another; await it."""
        return self._channel(event).observe(value, scope)

    def apply(  # noqa: PLR0917 - a keyword-only default costs a dispatch a tenth
        self,
        event: TransformEvent[V, Any],
        value: V,
        scope: Scope = _NO_SCOPE,
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
            channel = self._channels[event]
        except (KeyError, TypeError):
            channel = self._new_channel(event)
        plan = channel.apply
        if not (tool or check or signatures):
            return plan(value, scope, None)
        return plan(value, scope, Details(tool, check, signatures))

    def apply_sync(  # noqa: PLR0917 - as `apply`
        self,
        event: TransformEvent[V, Any],
        value: V,
        scope: Scope = _NO_SCOPE,
        tool: ToolSpec | None = None,
        check: Check | None = None,
        signatures: Signatures | None = None,
    ) -> EventContext[V]:
        """Do as `apply` does, if all handlers are sync; else raise before any of them ran."""
        try:
            channel = self._channels[event]
        except (KeyError, TypeError):
            channel = self._new_channel(event)
        plan = channel.apply_sync
        if not (tool or check or signatures):
            return plan(value, scope, None)
        return plan(value, scope, Details(tool, check, signatures))

    def hears(self, event: Event) -> bool:
        """Tell whether anybody has to do with a dispatch of *event*: if not, it may be left out.

        That is: a handler, of whatever sender and predicate, a plain blinker receiver, or a tap
        that wants a record of it.
        """
        channel = self._channel(event)
        heard = channel.heard
        return channel.keep_heard(self._is_heard) if heard is None else heard

    def awaits(self, event: Event) -> bool:
        """Return whether a dispatch of *event* may have to wait: whether a handler is async."""
        channel = self._channel(event)
        return channel.keep_awaited() if channel.awaited is None else channel.awaited

    @property
    def pending(self) -> int:
        """How many events wait in the queues of async observers, in all loops."""
        return 0 if self._queues is None else self._queues.pending

    @property
    def lost(self) -> int:
        """How many events async observers missed by the end of their loop; each loss is logged.

        A loop that was closed is found when the bus is asked or used next.
        """
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

    def _used_queues(self) -> Queues:
        if self._queues is None:
            from toolbus.bus.queues import Queues  # noqa: PLC0415 - loads asyncio

            with self._making:
                self._queues = self._queues or Queues()
        return self._queues

    def _plan(
        self, channel: Channel, verb: Verb, bindings: tuple[Binding, ...], *, tapped: bool
    ) -> Callable[..., Any]:
        if not _can(verb, bindings):
            return partial(self._refuse, channel, bindings)
        event, queues, recorder = channel.event, None, None
        if verb == "do" and any(binding.is_async for binding in bindings):
            queues = self._used_queues()
        if self._taps.wants(event, handled=bool(bindings), tapped=tapped):
            recorder = self._taps.recorder(event, bindings)
        notify = channel.notify if channel.has_plain_receivers else None
        services = DispatchServices(channel.permits, recorder, notify, queues)
        return make_plan(verb, event, bindings, services, dry_run=self.dry_run)

    def _is_heard(self, channel: Channel) -> bool:
        handled = channel.handled
        wanted = self._taps.wants(channel.event, handled=handled, tapped=True)
        return handled or wanted or channel.has_plain_receivers

    def _refuse(
        self, channel: Channel, bindings: tuple[Binding, ...], *arguments: Any
    ) -> EventContext[Any]:
        """Raise for the handler that cannot run without a loop, if it still lives."""
        for binding in bindings:
            if binding.needs_loop and binding.alive:
                reason = f"handler {binding.name!r} is async; use `await bus.apply(…)`"
                raise DispatchError(channel.event.name, reason)
        channel.outdate()
        return channel.apply_sync(*arguments)


def _can(verb: Verb, bindings: tuple[Binding, ...]) -> bool:
    """Tell whether *verb* can run *bindings*: there is no loop in a sync transform."""
    return verb != "apply_sync" or not any(binding.needs_loop for binding in bindings)

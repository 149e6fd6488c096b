"""A handler bound to an event, ready to run."""

from __future__ import annotations

import inspect
import weakref
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.bus.dispatch.callables import Composite, is_async, name_of, place_of
from toolbus.bus.dispatch.contexts import SKIPPED, private_context
from toolbus.bus.dispatch.failures import PredicateError, passes
from toolbus.bus.subscriptions import (
    Policy,
    SubscriptionOptions,
    WeakHandler,
    as_tuple,
    selections,
    sender_id,
)
from toolbus.events.catalogue import ObserveEvent

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.dispatch.loop import Verb
    from toolbus.bus.ledger.records import HandlerKind
    from toolbus.bus.queues import Queues
    from toolbus.events.catalogue import Event

OBSERVER_TIMEOUT = 30.0
"""The default timeout of a queued observer for one event, in seconds."""

DEFAULT_POLICIES: dict[HandlerKind, Policy] = {
    "observer": "open",
    "transformer": "open",
    "guard": "closed",
}


class Binding:
    """A handler bound to an event, ready to run; made once, at the subscription.

    With *is_async* the *function* is awaited or queued, with *needs_loop* a sync verb cannot run
    it. A handler with an *owner* is referenced weakly: the owner is the handler itself, or a
    `WeakHandler`. *on_end* gets the binding once it will never run again, perhaps from the garbage
    collector. *on_left* gets the work of a thread that is left behind.
    """

    def __init__(
        self,
        event: Event,
        handler: Callable[..., Any],
        kind: HandlerKind,
        options: SubscriptionOptions,
        *,
        on_left: Callable[[Future[Any]], object] | None = None,
        held: WeakHandler | None = None,
        on_end: Callable[[Binding], object] = lambda _: None,
    ) -> None:
        self.event, self.kind, self.priority = event, kind, options.priority
        self.name, self.where = options.name or name_of(handler), place_of(handler)
        self.policy: Policy = options.on_error or DEFAULT_POLICIES[kind]
        self.sender = sender_id(options.sender)
        self.tools, self.roles = as_tuple(options.tools), as_tuple(options.roles)
        self.incremental, self.composite = options.incremental, isinstance(handler, Composite)
        # The predicate of a held handler is kept by the holder of the subscription, too.
        self._options = options if held is None else replace(options, when=None)
        # The rank: guards last, higher priority first, then in the order of subscription.
        self.rank = (kind == "guard", -options.priority, 0)
        self.warned = self.cancelled = False
        self._rows: dict[tuple[Verb, bool], tuple[Any, ...]] = {}
        self.needs_loop, self.in_thread = is_async(handler), options.thread
        self.is_async, self._is_queued = self.needs_loop or self.in_thread, _queues(event)
        self.timeout = _timeout(event, options)
        self._on_end, self._on_left, self._is_held = on_end, on_left, held is not None
        self._handler: Callable[..., Any] | None = None
        self._owner: weakref.ref[Any] | None = None
        if options.weak or held is not None:
            self._owner = reference(held or handler, partial(on_end, self))
            self._call = self._call_weak
        else:
            self._call = self._handler = handler
        self._when = None if held is not None else options.when
        self._selectors = tuple(selections(self.tools, self.roles))
        self._remaining_runs = [True] if options.once else None
        self.is_conditional = any((self._selectors, options.when, options.once, options.weak))
        self.function = self._function()

    def with_handler(self, handler: Callable[..., Any], held: WeakHandler | None) -> Binding:
        """Return a binding like this one for *handler*."""
        options = self._options if held is None else replace(self._options, when=held.when)
        return Binding(
            self.event,
            handler,
            self.kind,
            options,
            on_left=self._on_left,
            held=held,
            on_end=self._on_end,
        )

    @property
    def alive(self) -> bool:
        """Whether it can ever run again: a weak owner lives, a `once` has not run."""
        return (self._owner is None or self._owner() is not None) and self._remaining_runs != []

    @property
    def handler(self) -> Callable[..., Any] | None:
        """The subscribed handler, None for a collected weak one."""
        owner = self._handler if self._owner is None else self._owner()
        return owner.handler if isinstance(owner, WeakHandler) else owner

    @property
    def ended(self) -> bool:
        """Whether it has lost its place on the bus."""
        return self.cancelled or not self.alive

    def hold(self) -> object:
        """Return an object that keeps a held handler alive for as long as it is kept."""
        return self._owner() if self._is_held and self._owner is not None else None

    def row(self, verb: Verb, queues: Queues | None, *, traced: bool = False) -> tuple[Any, ...]:
        """Return this binding and the function that runs it with *verb*, for the loop.

        For the awaiting verbs a third item says whether the function is async. *traced*: the
        context has a trace, which records a turn without a result. The row is cached, so that a
        new plan of many handlers costs little after one subscription changed.
        """
        key = verb, traced
        if key not in self._rows:
            self._rows[key] = self._made_row(verb, queues, traced=traced)
        return self._rows[key]

    def _made_row(self, verb: Verb, queues: Queues | None, *, traced: bool) -> tuple[Any, ...]:
        function = self.function
        if queues is not None and self.is_async:
            function = partial(queues.put, self)
        elif verb == "apply_sync" and self.in_thread:
            function = self._run_in_thread_now
        awaiting = verb in {"apply", "observe"}
        run_if, run_traced = self._run_if, self._run_traced
        if awaited := awaiting and self.is_async:
            run_if, run_traced = self._begin_if, self._await_traced
        if self.is_conditional:
            function = partial(run_if, function)
        if traced:
            function = partial(run_traced, function)
        return (self, function, awaited) if awaiting else (self, function)

    def runs_for(self, context: EventContext[Any]) -> bool:
        """Return whether the handler applies to *context*; raises `PredicateError`."""
        try:
            return self._is_chosen(context) and (
                self._remaining_runs is None or self._use_run(self._remaining_runs)
            )
        except Exception as error:
            if passes(error):
                raise
            raise PredicateError from error

    def _is_chosen(self, context: EventContext[Any]) -> bool:
        for selects in self._selectors:
            if not selects(context._value):
                return False
        when = self._when
        if self._owner is not None:
            owner = self._owner()
            if owner is None:
                return False
            when = owner.when if self._is_held else when
        result = when is None or when(context)
        if isinstance(result, CoroutineType):
            result.close()
            message = "a predicate must be sync, and this one returned a coroutine"
            raise TypeError(message)
        return bool(result)

    def _use_run(self, tickets: list[bool]) -> bool:
        # `pop` is atomic, so of two threads only one gets the run.
        try:
            tickets.pop()
        except IndexError:
            return False
        self._on_end(self)
        return True

    def _function(self) -> Callable[..., Any]:
        """Return the function that a dispatch calls."""
        if self.in_thread:
            return self._run_in_thread
        if self.needs_loop and self.timeout is not None and not self._is_queued:
            return self._run_in_time
        return self._call

    def _call_weak(self, context: EventContext[Any]) -> Any:
        handler = None if self._owner is None else self._owner()
        if self._is_held and handler is not None:
            handler = handler.handler
        if handler is None:
            return _resolved(None) if self.needs_loop else None
        return handler(context)

    async def _run_in_time(self, context: EventContext[Any]) -> Any:
        from toolbus.bus.dispatch.deadlines import within  # noqa: PLC0415 - loads asyncio

        with private_context(context) as alone:
            return await within(self.timeout, self._call(alone))

    async def _run_in_thread(self, context: EventContext[Any]) -> Any:
        from toolbus.bus.dispatch.deadlines import in_thread  # noqa: PLC0415 - loads asyncio

        with private_context(context) as alone:
            return await in_thread(self._call, alone, seconds=self.timeout, on_left=self._on_left)

    def _run_in_thread_now(self, context: EventContext[Any]) -> Any:
        from toolbus.bus.dispatch.deadlines import in_thread_now  # noqa: PLC0415 - loads asyncio

        with private_context(context) as alone:
            return in_thread_now(self._call, alone, seconds=self.timeout, on_left=self._on_left)

    def _run_if(self, function: Callable[..., Any], context: EventContext[Any]) -> Any:
        return function(context) if self.runs_for(context) else SKIPPED

    def _begin_if(self, function: Callable[..., Any], context: EventContext[Any]) -> Any:
        return function(context) if self.runs_for(context) else _resolved(SKIPPED)

    def _run_traced(self, function: Callable[..., Any], context: EventContext[Any]) -> Any:
        result = function(context)
        if result is context._assigned and context._details is not None:
            context._details.trace.add(self, "ran")
        return result

    async def _await_traced(self, function: Callable[..., Any], context: EventContext[Any]) -> Any:
        result = await function(context)
        if result is context._assigned and context._details is not None:
            context._details.trace.add(self, "ran")
        return result


async def _resolved(result: object) -> object:
    """Return *result*, awaitable like an async handler that did not run."""
    return result


def _queues(event: Event) -> bool:
    """Return whether a dispatch of *event* queues its async handlers."""
    return isinstance(event, ObserveEvent) and not event.awaited


def _timeout(event: Event, options: SubscriptionOptions) -> float | None:
    return OBSERVER_TIMEOUT if options.timeout is None and _queues(event) else options.timeout


def reference(handler: Any, on_end: Callable[[], object]) -> weakref.ref[Any]:
    """Return a weak reference to *handler*; *on_end* is called when it is dead."""
    kind = weakref.WeakMethod if inspect.ismethod(handler) else weakref.ref
    return kind(handler, lambda _: on_end())

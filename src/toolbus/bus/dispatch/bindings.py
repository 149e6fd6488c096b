"""A handler bound to an event, ready to run."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

from toolbus.bus.dispatch.callables import is_async, name_of, place_of
from toolbus.bus.dispatch.failures import PredicateError, passes
from toolbus.bus.dispatch.holding import Held, asking, calling, reference
from toolbus.bus.dispatch.nesting import in_turn
from toolbus.bus.dispatch.options import Policy, Predicate, SubscriptionOptions, sender_id
from toolbus.bus.dispatch.selection import as_tuple, selections
from toolbus.events.catalogue import ObserveEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.dispatch.deadlines import AbandonedThreads
    from toolbus.bus.ledger.records import HandlerKind
    from toolbus.events.catalogue import Event

OBSERVER_TIMEOUT = 30.0
"""Seconds that an async observer has for an event, unless its subscription says otherwise."""


class Binding:
    """A handler bound to an event, ready to run; made once, when somebody subscribes.

    *function* is what a dispatch calls, *is_async* says that it must be awaited, *blocking* is
    the same for the sync verbs (None: there is none), *predicate* decides whether it runs at all.
    Of what is *held* by others it has a weak reference only. *on_end* gets the binding when that
    will never run again; it may be called by the garbage collector.
    """

    def __init__(
        self,
        event: Event,
        handler: Callable[..., Any],
        kind: HandlerKind,
        options: SubscriptionOptions,
        *,
        abandoned: AbandonedThreads | None = None,
        held: Held | None = None,
        on_end: Callable[[Binding], object] = lambda _: None,
    ) -> None:
        self.event, self.kind, self.priority = event, kind, options.priority
        self.name, self.where = options.name or name_of(handler), place_of(handler)
        self.policy: Policy = options.on_error or ("closed" if kind == "guard" else "open")
        self.sender = sender_id(options.sender)
        self.tools, self.roles = as_tuple(options.tools), as_tuple(options.roles)
        self.incremental = options.incremental
        self.order, self.warned, self.cancelled = 0, False, False
        end = partial(on_end, self)
        owner = handler if options.weak else held
        self._owner = None if owner is None else reference(owner, end)
        self._handler = handler if owner is None else None
        self._is_held = held is not None
        self._tickets = [True] if options.once else None
        self.is_async = is_async(handler)
        call, when = handler, options.when
        if self._owner is not None:
            call = calling(self._owner, is_async=self.is_async)
            when = asking(self._owner, when)
        self.function, self.blocking = _prepared(call, self, options, abandoned)
        self.is_async = self.is_async or options.thread
        self.predicate = _all_of(tuple(self._conditions(options, when, end)))

    def __call__(self, *_: object, **__: object) -> None:
        """Do nothing: a plain `send` on blinker's signal, which holds us, is no dispatch."""

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Its place in the order: guards last, higher priority first, then as subscribed."""
        return self.kind == "guard", -self.priority, self.order

    @property
    def alive(self) -> bool:
        """Whether it can ever run again: a weak one's owner lives, a `once` has not run."""
        return (self._owner is None or self._owner() is not None) and self._tickets != []

    @property
    def handler(self) -> Callable[..., Any] | None:
        """What was subscribed, None if it was held weakly and is gone."""
        owner = self._handler if self._owner is None else self._owner()
        return owner.handler if isinstance(owner, Held) else owner

    def hold(self) -> object:
        """Return what keeps a handler that others hold, as long as the result is kept."""
        return self._owner() if self._is_held and self._owner is not None else None

    @property
    def ended(self) -> bool:
        """Whether it has no place on the bus any more."""
        return self.cancelled or not self.alive

    def _conditions(
        self,
        options: SubscriptionOptions,
        when: Callable[[EventContext[Any]], object] | None,
        end: Callable[[], object],
    ) -> Iterator[Callable[[EventContext[Any]], object]]:
        if options.weak:
            yield lambda _: self.alive
        for selects in selections(self.tools, self.roles):
            yield partial(_of_value, selects)
        if when is not None:
            yield partial(_holds, when)
        if self._tickets is not None:
            yield partial(_take_ticket, self._tickets, end)


def _prepared(
    call: Callable[..., Any],
    binding: Binding,
    options: SubscriptionOptions,
    abandoned: AbandonedThreads | None,
) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """Return the function for the async verbs and the one for the sync verbs."""
    timeout, event = options.timeout, binding.event
    queued = isinstance(event, ObserveEvent) and not event.awaited
    if timeout is None and queued:
        timeout = OBSERVER_TIMEOUT
    if not options.thread and (timeout is None or not binding.is_async):
        return call, None if binding.is_async else call
    from toolbus.bus.dispatch import deadlines  # noqa: PLC0415 - loads asyncio, which few buses need

    if abandoned is None:
        awaited = (in_turn, call) if queued else (call,)
        return partial(deadlines.timed, timeout, *awaited), None
    return (
        partial(deadlines.in_thread, call, seconds=timeout, watcher=abandoned),
        partial(deadlines.in_thread_now, call, seconds=timeout, watcher=abandoned),
    )


def _all_of(conditions: tuple[Callable[[EventContext[Any]], object], ...]) -> Predicate | None:
    """Return what asks *conditions* in their order, None if there are none."""
    return partial(_judge, conditions) if conditions else None


def _judge(
    conditions: tuple[Callable[[EventContext[Any]], object], ...], context: EventContext[Any]
) -> bool:
    try:
        return all(condition(context) for condition in conditions)
    except Exception as error:
        if passes(error):
            raise
        raise PredicateError from error


def _of_value(selects: Callable[[object], bool], context: EventContext[Any]) -> bool:
    return selects(context.value)


def _holds(when: Callable[[EventContext[Any]], object], context: EventContext[Any]) -> object:
    result = when(context)
    if inspect.iscoroutine(result):
        result.close()
        message = "a predicate must be sync, and this one returned a coroutine"
        raise TypeError(message)
    return result


def _take_ticket(tickets: list[bool], on_end: Callable[[], object], _: EventContext[Any]) -> bool:
    # Taking from a list is atomic, so of two threads only one gets the ticket.
    try:
        ticket = tickets.pop()
    except IndexError:
        return False
    on_end()
    return ticket

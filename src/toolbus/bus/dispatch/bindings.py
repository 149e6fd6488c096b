"""A handler bound to an event; what can be wrong with it is found here, before it ever runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from msgspec import Struct

from toolbus.bus.dispatch.callables import is_async, is_generator, name_of, place_of, takes_one
from toolbus.bus.dispatch.contexts import EventContext
from toolbus.bus.dispatch.failures import PredicateError, passes
from toolbus.bus.dispatch.holding import Held, asking, calling, can_be_weak, reference
from toolbus.bus.dispatch.nesting import in_turn
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import ObserveEvent, Scope, TransformEvent

if TYPE_CHECKING:
    from toolbus.bus.dispatch.deadlines import AbandonedThreads
    from toolbus.bus.ledger.records import HandlerKind
    from toolbus.events.catalogue import Event

Policy = Literal["open", "closed", "raise"]
Gate: TypeAlias = Callable[[EventContext[Any]], bool]
OBSERVER_TIMEOUT = 30.0


@runtime_checkable
class Speaker(Protocol):
    """Anything that speaks under a scope of its own, an agent above all."""

    @property
    def scope(self) -> Scope:
        """Who it is."""


class SubscriptionOptions(Struct, frozen=True, kw_only=True):
    """How to subscribe; see `EventBus.on`."""

    priority: int = 100
    when: Callable[[EventContext[Any]], bool] | None = None
    sender: Speaker | str | None = None
    on_error: Policy | None = None
    timeout: float | None = None
    thread: bool = False
    once: bool = False
    weak: bool = False
    name: str | None = None


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
        self.sender = _sender_id(options.sender)
        self.order, self.warned, self.cancelled = 0, False, False
        end = partial(on_end, self)
        owned = handler if options.weak else held
        self._is_held = held is not None
        self._target = None if owned is None else reference(owned, end)
        self._tickets = [True] if options.once else None
        self.is_async = is_async(handler)
        call = handler if self._target is None else calling(self._target, is_async=self.is_async)
        self.function, self.blocking = _prepared(call, self, options, abandoned)
        self.is_async = self.is_async or options.thread
        when = options.when
        if when is not None and held is not None and self._target is not None:
            when = asking(self._target)
        self.predicate = _all_of(tuple(self._asked_first(options, when, end)))

    def __call__(self, *_: object, **__: object) -> None:
        """Do nothing: a plain `send` on blinker's signal, which holds us, is no dispatch."""

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Its place in the order: guards last, higher priority first, then as subscribed."""
        return self.kind == "guard", -self.priority, self.order

    @property
    def alive(self) -> bool:
        """Whether it can ever run again: a weak one's owner lives, a `once` has not run."""
        return (self._target is None or self._target() is not None) and self._tickets != []

    def hold(self) -> object:
        """Return what keeps a handler that others hold, as long as the result is kept."""
        return self._target() if self._is_held and self._target is not None else None

    @property
    def ended(self) -> bool:
        """Whether it has no place on the bus any more."""
        return self.cancelled or not self.alive

    def _asked_first(
        self,
        options: SubscriptionOptions,
        when: Callable[[EventContext[Any]], object] | None,
        end: Callable[[], object],
    ) -> Iterator[Callable[[EventContext[Any]], object]]:
        if options.weak:
            yield lambda _: self.alive
        if when is not None:
            yield partial(_holds, when)
        if self._tickets is not None:
            yield partial(_take_ticket, self._tickets, end)


def check_options(event: Event, kind: HandlerKind, options: SubscriptionOptions) -> None:
    """Raise `RegistrationError` for what could never work, whatever the handler is."""
    if not isinstance(event, TransformEvent | ObserveEvent):
        raise RegistrationError(f"event {event!r}", "expected a TransformEvent or an ObserveEvent")
    for problem in _problems(event, kind, options):
        raise RegistrationError(f"handler of {event.name!r}", problem)


def check_handler(event: Event, handler: Callable[..., Any], options: SubscriptionOptions) -> None:
    """Raise `RegistrationError` for a handler that could never work."""
    for problem in _handler_problems(handler, options):
        raise RegistrationError(f"handler {handler!r} of {event.name!r}", problem)


def _problems(event: Event, kind: HandlerKind, options: SubscriptionOptions) -> Iterator[str]:
    observed = isinstance(event, ObserveEvent)
    if kind == "guard" and observed:
        yield "a guard judges, and this event is only observed; use `on`"
    if not isinstance(options.priority, int) or isinstance(options.priority, bool):
        yield f"priority must be an integer, not {options.priority!r}"
    if options.on_error not in (None, *get_args(Policy)):
        yield f"on_error must be one of open, closed, raise, not {options.on_error!r}"
    if observed and options.on_error not in (None, "open"):
        yield "an observer cannot deny or raise; leave out on_error"
    seconds = options.timeout
    if seconds is not None and not (type(seconds) in {int, float} and 0 < seconds < inf):
        yield f"timeout must be a positive number of seconds, not {seconds!r}"
    if (sender := _sender_id(options.sender)) is not None and not isinstance(sender, str):
        yield f"sender must be an agent or an agent's id, not {options.sender!r}"
    if sender == "":
        yield "sender has no id, so it cannot be told from others"
    if options.when is not None and not takes_one(options.when):
        yield "when must take one argument, the context"
    elif options.when is not None and is_async(options.when):
        yield "when must be sync"


def _handler_problems(handler: Callable[..., Any], options: SubscriptionOptions) -> Iterator[str]:
    if not callable(handler):
        yield "a handler must be callable, with one argument, the context"
    elif not takes_one(handler):
        yield "a handler must take one argument, the context"
    elif is_generator(handler):
        yield "a generator gives no single answer; return one"
    elif options.thread and is_async(handler):
        yield "an async handler needs no thread; leave out thread=True"
    elif options.timeout is not None and not options.thread and not is_async(handler):
        yield "a sync handler cannot be timed out; add thread=True"
    elif options.weak and not can_be_weak(handler):
        yield "it cannot be held weakly; leave out weak=True"


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


def _all_of(conditions: tuple[Callable[[EventContext[Any]], object], ...]) -> Gate | None:
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


def _sender_id(sender: Any) -> Any:
    known = isinstance(sender, Speaker) and isinstance(sender.scope, Scope)
    return sender.scope.agent_id if known else sender

"""A handler bound to an event; what can be wrong with it is found here, before it ever runs."""

from __future__ import annotations

import inspect
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, runtime_checkable

from msgspec import Struct

from toolbus.errors import RegistrationError
from toolbus.events import ObserveEvent, Scope, TransformEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.dispatch.contexts import EventContext
    from toolbus.dispatch.deadlines import Stuck
    from toolbus.events import Event
    from toolbus.ledger import HandlerKind

Policy = Literal["open", "closed", "raise"]
OBSERVER_TIMEOUT = 30.0


@runtime_checkable
class Speaker(Protocol):
    """Anything that speaks under a scope of its own, an agent above all."""

    @property
    def scope(self) -> Scope: ...


class Options(Struct, frozen=True, kw_only=True):
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
    the same for the sync verbs (None: there is none), *gate* decides whether it runs at all.
    """

    __slots__ = (
        "blocking",
        "event",
        "function",
        "gate",
        "is_async",
        "kind",
        "name",
        "order",
        "policy",
        "priority",
        "sender",
        "target",
        "told",
        "where",
    )

    def __init__(
        self,
        event: Event,
        handler: Callable[..., Any],
        kind: HandlerKind,
        options: Options,
        stuck: Stuck | None,
    ) -> None:
        self.event, self.kind, self.priority = event, kind, options.priority
        self.name = options.name or _name_of(handler)
        self.where = _where(handler)
        self.policy: Policy = options.on_error or ("closed" if kind == "guard" else "open")
        self.sender = _sender_id(options.sender)
        self.order, self.told = 0, False
        self.target = _reference(handler) if options.weak else None
        self.is_async = is_async(handler)
        call = handler
        if self.target is not None:
            call = partial(_await_weak if self.is_async else _call_weak, self.target)
        self.function, self.blocking = _prepared(call, self, options, stuck)
        self.is_async = self.is_async or options.thread
        self.gate = _gate(self, options)

    def __call__(self, *_: object, **__: object) -> None:
        """Do nothing: a plain `send` on blinker's signal, which holds us, is no dispatch."""

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Its place in the order: guards last, higher priority first, then as subscribed."""
        return self.kind == "guard", -self.priority, self.order

    @property
    def alive(self) -> bool:
        """Whether the owner of a weakly held handler still lives."""
        return self.target is None or self.target() is not None


def check_handler(
    event: Event, handler: Callable[..., Any], kind: HandlerKind, options: Options
) -> None:
    """Raise `RegistrationError` for what could never work."""
    if not isinstance(event, TransformEvent | ObserveEvent):
        raise RegistrationError(f"event {event!r}", "expected a TransformEvent or an ObserveEvent")
    what = f"handler {handler!r} of {event.name!r}"
    problems = {
        "a handler must be callable": not callable(handler),
        "a guard judges, and this event is only observed": (
            kind == "guard" and isinstance(event, ObserveEvent)
        ),
        "priority must be an integer": type(options.priority) is not int,
        f"on_error must be one of {', '.join(get_args(Policy))}": (
            options.on_error not in (None, *get_args(Policy))
        ),
        "observers cannot deny or raise; leave out on_error": (
            isinstance(event, ObserveEvent) and options.on_error in {"closed", "raise"}
        ),
        "timeout must be a positive number of seconds": (
            options.timeout is not None and not options.timeout > 0
        ),
        "a sender is an agent or an agent's id": (
            options.sender is not None and not isinstance(options.sender, str | Speaker)
        ),
        "a sender's id must not be empty": options.sender == "",
        "when must be a sync callable that takes the context": (
            options.when is not None and (not callable(options.when) or is_async(options.when))
        ),
    }
    for problem, found in problems.items():
        if found:
            raise RegistrationError(what, problem)
    _check_function(what, handler, options)


def is_async(handler: Callable[..., Any]) -> bool:
    """Tell whether calling *handler* gives a coroutine; objects and partials are looked into."""
    while isinstance(handler, partial):
        handler = handler.func
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        type(handler).__call__
    )


def _check_function(what: str, handler: Callable[..., Any], options: Options) -> None:
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise RegistrationError(what, "a generator gives no single answer; return one")
    try:
        inspect.signature(handler).bind(None)
    except TypeError:
        raise RegistrationError(what, "a handler must take one argument, the context") from None
    except ValueError:
        pass  # A builtin without a signature may well take it.
    if options.thread and is_async(handler):
        raise RegistrationError(what, "an async handler needs no thread; leave out thread=True")
    if options.timeout is not None and not options.thread and not is_async(handler):
        raise RegistrationError(what, "a sync handler cannot be timed out; add thread=True")


def _prepared(
    call: Callable[..., Any], binding: Binding, options: Options, stuck: Stuck | None
) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
    """Return the function for the async verbs and the one for the sync verbs."""
    timeout, event = options.timeout, binding.event
    queued = isinstance(event, ObserveEvent) and not event.awaited
    if timeout is None and queued and (binding.is_async or options.thread):
        timeout = OBSERVER_TIMEOUT
    if options.thread:
        from toolbus.dispatch.deadlines import in_thread, in_thread_now  # noqa: PLC0415 - loads asyncio

        assert stuck is not None  # noqa: S101 - for mypy: the bus gives it with thread=True
        return (
            partial(in_thread, call, seconds=timeout, stuck=stuck),
            partial(in_thread_now, call, seconds=timeout, stuck=stuck),
        )
    if not binding.is_async:
        return call, call
    if timeout is None:
        return call, None
    return partial(_timed, timeout, call), None


async def _timed(seconds: float, call: Callable[..., Any], context: EventContext[Any]) -> Any:
    from toolbus.dispatch.deadlines import within  # noqa: PLC0415 - loads asyncio, which few buses need

    return await within(seconds, call(context))


def _gate(binding: Binding, options: Options) -> Callable[[EventContext[Any]], bool] | None:
    """Return what decides whether the handler runs, or None if it always does."""
    conditions: list[Callable[[EventContext[Any]], Any]] = []
    if binding.target is not None:
        conditions.append(lambda _: binding.alive)
    if binding.sender is not None:
        conditions.append(partial(_hears, binding.sender))
    if options.when is not None:
        conditions.append(options.when)
    if options.once:
        # Taking from a list is atomic, so of two threads only one gets the ticket.
        conditions.append(partial(_take_ticket, [True]))
    if not conditions:
        return None
    return lambda context: all(condition(context) for condition in conditions)


def _hears(sender: str, context: EventContext[Any]) -> bool:
    scope = context.scope
    return sender == scope.agent_id or sender in scope.lineage


def _take_ticket(tickets: list[bool], _: EventContext[Any]) -> bool:
    try:
        return tickets.pop()
    except IndexError:
        return False


def _reference(handler: Any) -> weakref.ref[Any]:
    return weakref.WeakMethod(handler) if inspect.ismethod(handler) else weakref.ref(handler)


def _call_weak(target: weakref.ref[Any], context: EventContext[Any]) -> Any:
    handler = target()
    return None if handler is None else handler(context)


async def _await_weak(target: weakref.ref[Any], context: EventContext[Any]) -> Any:
    handler = target()
    return None if handler is None else await handler(context)


def _sender_id(sender: Speaker | str | None) -> str | None:
    return sender.scope.agent_id if isinstance(sender, Speaker) else sender


def _name_of(handler: Any) -> str:
    while isinstance(handler, partial):
        handler = handler.func
    if inspect.ismethod(handler):
        owner = handler.__self__
        owner = owner if inspect.isclass(owner) else type(owner)
        return f"{owner.__name__}.{handler.__name__}"
    return handler.__name__ if inspect.isroutine(handler) else type(handler).__name__


def _where(handler: Any) -> str:
    """Return file and line of the handler's definition, or "" if it has none in Python."""
    while isinstance(handler, partial):
        handler = handler.func
    if not inspect.isroutine(handler):
        handler = type(handler).__call__
    code = getattr(inspect.unwrap(handler), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"

"""The two ways to subscribe, `on` and `guard`, their options and the subscription they return.

Invalid subscriptions are refused here, before a handler ever runs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Coroutine, Iterator
from math import inf
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    overload,
)

from msgspec import Struct

from toolbus.bus.dispatch.callables import is_async, is_generator, is_local, takes
from toolbus.bus.dispatch.contexts import EventContext
from toolbus.bus.ledger.records import HandlerKind
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    Ask,
    Deny,
    ObserveEvent,
    Scope,
    TransformEvent,
    check_event,
)
from toolbus.events.subjects import Role, RoleSelector, ToolSelector, has_messages, has_tools
from toolbus.settings.hints import nearest

if TYPE_CHECKING:
    from toolbus.bus.channels import Channel
    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.events.catalogue import Event

V = TypeVar("V")
R = TypeVar("R")
C = TypeVar("C")

Verdict: TypeAlias = Deny | Ask | None
Handler: TypeAlias = Callable[[EventContext[V]], R | Coroutine[Any, Any, R]]
Policy = Literal["open", "closed", "raise"]
Choice: TypeAlias = Collection[str] | str | None
Predicate: TypeAlias = Callable[[EventContext[Any]], bool]


class Sender(Protocol):
    """An object with a scope of its own, usually an agent."""

    @property
    def scope(self) -> Scope:
        """Its scope as a sender."""


class SubscriptionOptions(Struct, frozen=True, kw_only=True):
    """The options of a subscription; see `EventBus.on`."""

    priority: int = 100
    when: Predicate | None = None
    tools: Collection[str] | str | None = None
    roles: Collection[Role] | Role | None = None
    sender: Sender | str | None = None
    on_error: Policy | None = None
    timeout: float | None = None
    thread: bool = False
    once: bool = False
    weak: bool = False
    incremental: bool = False
    name: str | None = None


class HandlerOptions(TypedDict, total=False):
    """The options of a subscription as keywords; see `EventBus.on`."""

    priority: int
    when: Callable[[EventContext[Any]], bool] | None
    tools: Collection[str] | str | None
    roles: Collection[Role] | Role | None
    sender: Sender | str | None
    on_error: Policy | None
    timeout: float | None
    thread: bool
    once: bool
    weak: bool
    incremental: bool
    name: str | None


class HandlerInfo(Struct, frozen=True, kw_only=True):
    """A subscription as `EventBus.handlers` lists it; *where* is "file:line".

    The handler runs for *tools* and *roles* only, for all if they are empty. With *incremental* it
    also judges answers as they grow.
    """

    name: str
    kind: HandlerKind
    priority: int
    policy: Policy
    sender: str | None
    where: str
    tools: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    incremental: bool = False


class WeakHandler:
    """A handler and its predicate, kept by the holder of the subscription and not by the bus."""

    __slots__ = ("__weakref__", "handler", "when")

    def __init__(self, handler: Callable[..., Any], when: Callable[..., Any] | None) -> None:
        self.handler, self.when = handler, when


class Subscription:
    """A handler's place on a bus; `cancel` or the end of a `with` block releases it.

    It keeps neither the bus nor the place: without the bus, the subscription has ended.
    """

    __slots__ = ("_binding", "_channel", "_followers", "_held", "_replaced")

    def __init__(self, channel: Channel, binding: Binding, held: WeakHandler | None = None) -> None:
        self._channel, self._binding = weakref.ref(channel), weakref.ref(binding)
        self._held = held
        self._replaced: WeakHandler | None = None
        self._followers: tuple[Callable[[], object], ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    @property
    def alive(self) -> bool:
        """Whether the handler can still run: not cancelled, and not a `once` that has run."""
        binding = self._binding()
        return binding is not None and not binding.ended

    def cancel(self) -> None:
        """End the subscription, idempotently; running dispatches still call the handler."""
        self._held = self._replaced = None
        channel, binding = self._channel(), self._binding()
        if channel is not None and binding is not None:
            channel.remove(binding)
        followers, self._followers = self._followers, ()
        for end in followers:
            end()

    def follow(self, end: Callable[[], object]) -> None:
        """Call *end* when the subscription is cancelled."""
        self._followers += (end,)

    def replace(self, handler: Callable[..., Any]) -> None:
        """Put *handler* in this place in the order, from the next dispatch on."""
        # A running dispatch still calls the old handler, which is kept for it.
        self._replaced = self._held
        self._held = None if self._held is None else WeakHandler(handler, self._held.when)
        channel, old = self._channel(), self._binding()
        if channel is not None and old is not None:
            new = old.with_handler(handler, self._held)
            channel.replace(old, new)
            self._binding = weakref.ref(new)


class Decorator(Generic[C, R]):
    """A decorator that subscribes a function from `C` to `R` and returns it unchanged."""

    __slots__ = ("_subscribe",)

    def __init__(self, subscribe: Callable[[Callable[..., Any]], object]) -> None:
        self._subscribe = subscribe

    @overload
    def __call__(
        self, handler: Callable[[C], Coroutine[Any, Any, R]], /
    ) -> Callable[[C], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, handler: Callable[[C], R], /) -> Callable[[C], R]: ...
    def __call__(self, handler: Callable[..., Any], /) -> Callable[..., Any]:
        """Subscribe *handler*."""
        self._subscribe(handler)
        return handler


class Subscribable:
    """The two ways to subscribe, for classes that keep subscriptions or forward them."""

    @overload
    def on(
        self,
        event: TransformEvent[V, R],
        handler: Handler[V, R | None],
        **options: Unpack[HandlerOptions],
    ) -> Subscription: ...
    @overload
    def on(
        self,
        event: ObserveEvent[V],
        handler: Handler[V, None],
        **options: Unpack[HandlerOptions],
    ) -> Subscription: ...
    @overload
    def on(
        self, event: TransformEvent[V, R], handler: None = None, **options: Unpack[HandlerOptions]
    ) -> Decorator[EventContext[V], R | None]: ...
    @overload
    def on(
        self, event: ObserveEvent[V], handler: None = None, **options: Unpack[HandlerOptions]
    ) -> Decorator[EventContext[V], None]: ...
    def on(
        self,
        event: Event,
        handler: Callable[..., Any] | None = None,
        **options: Unpack[HandlerOptions],
    ) -> Any:
        """Subscribe *handler*; without one, return a decorator that returns its function.

        A handler fails open: its exception is logged, and the dispatch continues without it,
        even if it would have denied. Use `guard` or `on_error="closed"` for rules that must hold.
        A sync handler blocks the event loop, and with it all agents: one that reads files or asks
        servers is async, or has `thread=True`. Raises `RegistrationError` for a subscription that
        could never work.

        Args:
            event: the event to handle.
            handler: a sync or async callable that takes the `EventContext`.
            options: *priority* (100; higher runs first), *tools* (glob patterns: only for values
                of these tools, by their current name; for messages, their results), *roles* (only
                for messages of these roles), *when* (a sync predicate of the context, called
                last), *sender* (an agent or its id: only dispatches of it and its sub-agents),
                *on_error* ("open": log and go on; "closed": deny; "raise"), *timeout* (seconds),
                *thread* (run a blocking sync handler off the loop), *once*, *weak* (the handler
                ends with its owner: a method with its object), *incremental* (for
                `MESSAGE_APPEND_BEFORE`: also called in mid-answer, with `ctx.window`, so that a
                stream need not wait for the whole answer), *name* (in logs and in the ledger).

        Context variables set by an async handler are visible to later handlers and the caller; a
        handler with a *timeout* or in a *thread* has a copy, and so has each observer of `do`.
        """
        kind: HandlerKind = "observer" if isinstance(event, ObserveEvent) else "transformer"
        return self._subscribe(event, handler, kind, options)

    @overload
    def guard(
        self,
        event: TransformEvent[V, Any],
        handler: Handler[V, Verdict],
        **options: Unpack[HandlerOptions],
    ) -> Subscription: ...
    @overload
    def guard(
        self, event: TransformEvent[V, Any], handler: None = None, **options: Unpack[HandlerOptions]
    ) -> Decorator[EventContext[V], Verdict]: ...
    def guard(
        self,
        event: TransformEvent[V, Any],
        handler: Callable[..., Any] | None = None,
        **options: Unpack[HandlerOptions],
    ) -> Any:
        """Subscribe a judge of the final value, as `on` does; its failure denies ("closed").

        A guard's *tools* match the final call: a call that a handler turned into one of these
        tools is judged, a call turned away from them is not.
        """
        return self._subscribe(event, handler, "guard", options)

    def _subscribe(
        self,
        event: Event,
        handler: Callable[..., Any] | None,
        kind: HandlerKind,
        options: HandlerOptions,
    ) -> Any:
        """Subscribe *handler*, or return a decorator for it."""
        raise NotImplementedError


def settings_of(event: Event, kind: HandlerKind, options: HandlerOptions) -> SubscriptionOptions:
    """Return *options*; raises `RegistrationError` for options that could never work."""
    if unknown := sorted(options.keys() - HandlerOptions.__annotations__.keys()):
        known = sorted(HandlerOptions.__annotations__)
        way_out = nearest(unknown[0], known) or f"; known: {', '.join(known)}"
        reason = f"unknown option {unknown[0]!r}{way_out}"
        raise RegistrationError(f"handler of {event!r}", reason)
    check_event(event)
    settings = SubscriptionOptions(**options)
    for problem in _problems(event, kind, settings):
        raise RegistrationError(f"handler of {event.name!r}", problem)
    return settings


def check_handler(event: Event, handler: Callable[..., Any], options: SubscriptionOptions) -> None:
    """Raise `RegistrationError` for a handler that could never work."""
    for problem in _handler_problems(handler, options):
        raise RegistrationError(f"handler {handler!r} of {event.name!r}", problem)


def sender_id(sender: Any) -> Any:
    """Return the agent id of *sender*; another object is returned as it is."""
    if sender is None or isinstance(sender, str):
        return sender
    scope = getattr(sender, "scope", None)
    return scope.agent_id if isinstance(scope, Scope) else sender


def _problems(event: Event, kind: HandlerKind, options: SubscriptionOptions) -> Iterator[str]:
    # One check for each option; the caller raises the first problem and needs no other.
    observed, seconds = isinstance(event, ObserveEvent), options.timeout
    if kind == "guard" and observed:
        yield "a guard judges, and this event is only observed; use `on`"
    if not isinstance(options.priority, int) or isinstance(options.priority, bool):
        yield f"priority must be an integer, not {options.priority!r}"
    if options.on_error not in (None, *get_args(Policy)):
        yield f"on_error must be one of open, closed, raise, not {options.on_error!r}"
    if observed and options.on_error not in (None, "open"):
        yield "an observer cannot deny or raise; leave out on_error"
    if options.incremental and event is not MESSAGE_APPEND_BEFORE:
        yield "only answers grow, at MESSAGE_APPEND_BEFORE; leave out incremental=True"
    if options.incremental and options.once:
        yield "an incremental handler runs more than once; leave out once=True"
    if seconds is not None and not _is_positive(seconds):
        yield f"timeout must be a positive number of seconds, not {seconds!r}"
    yield from _problems_of_choice(options)
    yield from _problems_of_selection(event, options.tools, options.roles)


def _is_positive(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 < number < inf


def _problems_of_choice(options: SubscriptionOptions) -> Iterator[str]:
    """Yield the problems of sender and predicate."""
    sender, when = sender_id(options.sender), options.when
    if sender is not None and not isinstance(sender, str):
        yield f"sender must be an agent or an agent's id, not {options.sender!r}"
    if sender == "":
        yield "sender has no id, so its dispatches cannot be recognized; give it one"
    if when is not None and not takes(when, 1):
        yield "when must take one argument, the context"
    elif when is not None and is_async(when):
        yield "when must be sync"


def _handler_problems(handler: Callable[..., Any], options: SubscriptionOptions) -> Iterator[str]:
    # The nature of a callable (async, generator, local, bound) decides which options can work.
    if not callable(handler):
        yield "a handler must be callable, with one argument, the context"
        return
    if not takes(handler, 1):
        yield "a handler must take one argument, the context"
    if is_generator(handler):
        yield "a generator gives no single result; return one value"
    if is_async(handler):
        if options.thread:
            yield "an async handler needs no thread; leave out thread=True"
    elif options.timeout is not None and not options.thread:
        yield "a sync handler cannot be timed out; add thread=True"
    if options.weak and not _can_be_weak(handler):
        yield "this callable cannot be referenced weakly; leave out weak=True"
    if options.weak and is_local(handler):
        reason = "a weak lambda or local function would be collected at once"
        yield f"{reason}; leave out weak=True, or give a method of an object that lives on"


def _can_be_weak(handler: Callable[..., Any]) -> bool:
    try:
        weakref.ref(getattr(handler, "__self__", handler))
    except TypeError:
        return False
    return True


def _problems_of_selection(event: Event, tools: Choice, roles: Choice) -> Iterator[str]:
    """Yield the problems of *tools* and *roles* for handlers of *event*."""
    if tools is not None:
        # An iterator would be exhausted by this check.
        if not isinstance(tools, str | Collection) or isinstance(tools, bytes):
            yield f"tools must be names or glob patterns, in a list, not {tools!r}"
        elif problem := ToolSelector(tools).problem:
            yield problem
        elif not has_tools(event):
            yield "the values of this event have no tool for tools=; use when="
    if roles is not None:
        if not isinstance(roles, str | Collection) or isinstance(roles, bytes):
            yield f"roles must be roles of messages, in a list, not {roles!r}"
        elif problem := RoleSelector(roles).problem:
            yield problem
        elif not has_messages(event):
            yield "the values of this event are not messages, as roles= expects; use when="


def as_tuple(choice: Choice) -> tuple[str, ...]:
    """Return the items of *choice*, none for None."""
    if choice is None:
        return ()
    return (choice,) if isinstance(choice, str) else tuple(choice)


def selections(
    tools: tuple[str, ...], roles: tuple[str, ...]
) -> Iterator[Callable[[object], bool]]:
    """Yield a predicate of values for *roles* and for *tools*, each only if it is not empty."""
    if roles:
        yield RoleSelector(roles).selects
    if tools:
        yield ToolSelector(tools).selects

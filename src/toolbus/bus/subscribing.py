"""The two ways to subscribe, `on` and `guard`, and what they give back."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Coroutine
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Self,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from toolbus.bus.dispatch.bindings import WeakHandler
from toolbus.bus.dispatch.contexts import EventContext
from toolbus.bus.dispatch.options import SubscriptionOptions, check_options
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import Ask, Deny, ObserveEvent, TransformEvent
from toolbus.settings.hints import nearest

if TYPE_CHECKING:
    from toolbus.bus.channels import Channel
    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.bus.dispatch.options import Policy, Speaker
    from toolbus.bus.ledger.records import HandlerKind
    from toolbus.events.catalogue import Event
    from toolbus.events.subjects import Role

V = TypeVar("V")
R = TypeVar("R")
C = TypeVar("C")

Verdict: TypeAlias = Deny | Ask | None
Handler: TypeAlias = Callable[[EventContext[V]], R | Coroutine[Any, Any, R]]


class HandlerOptions(TypedDict, total=False):
    """How to subscribe; `EventBus.on` explains each."""

    priority: int
    when: Callable[[EventContext[Any]], bool] | None
    tools: Collection[str] | str | None
    roles: Collection[Role] | Role | None
    sender: Speaker | str | None
    on_error: Policy | None
    timeout: float | None
    thread: bool
    once: bool
    weak: bool
    incremental: bool
    name: str | None


class Subscription:
    """A handler's place on a bus; `cancel` gives it up, and so does leaving a `with` block."""

    __slots__ = ("_binding", "_channel", "_followers", "_held", "_replaced")

    def __init__(self, channel: Channel, binding: Binding, held: WeakHandler | None = None) -> None:
        self._channel, self._binding, self._held = channel, binding, held
        self._replaced: WeakHandler | None = None
        self._followers: tuple[Callable[[], object], ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    @property
    def alive(self) -> bool:
        """Whether its handler can still run: it was not cancelled, and a `once` has not run."""
        return not self._binding.ended

    def cancel(self) -> None:
        """End the subscription; a second time does nothing. Dispatches under way go on with it."""
        self._held = self._replaced = None
        self._channel.remove(self._binding)
        followers, self._followers = self._followers, ()
        for end in followers:
            end()

    def follow(self, end: Callable[[], object]) -> None:
        """Have *end* called when the subscription is cancelled."""
        self._followers += (end,)

    def replace(self, handler: Callable[..., Any]) -> None:
        """Give *handler* this place in the order, from the next dispatch on."""
        # A dispatch under way goes on with the old one, which is kept for it.
        self._replaced = self._held
        self._held = None if self._held is None else WeakHandler(handler, self._held.when)
        old, self._binding = self._binding, self._binding.with_handler(handler, self._held)
        self._channel.replace(old, self._binding)

    def without_bus(self) -> Callable[[], None]:
        """Return what cancels it and keeps its handler, and not the bus, which may go before."""
        held, channel, binding = self._held, weakref.ref(self._channel), weakref.ref(self._binding)

        def cancel() -> None:
            nonlocal held
            held = None
            here, bound = channel(), binding()
            if here is not None and bound is not None:
                here.remove(bound)

        return cancel


class Subscribe(Generic[C, R]):
    """A decorator that subscribes a function, which takes `C` and gives `R`, and gives it back."""

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


class Subscribing:
    """The two ways to subscribe, for whatever keeps subscriptions or passes them on."""

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
    ) -> Subscribe[EventContext[V], R | None]: ...
    @overload
    def on(
        self, event: ObserveEvent[V], handler: None = None, **options: Unpack[HandlerOptions]
    ) -> Subscribe[EventContext[V], None]: ...
    def on(
        self,
        event: Event,
        handler: Callable[..., Any] | None = None,
        **options: Unpack[HandlerOptions],
    ) -> Any:
        """Subscribe *handler*; without one, return a decorator that gives the function back.

        A handler fails open: what it raises is logged, and all goes on as if it were not there,
        whatever it would have refused. What must hold is a `guard`, or has `on_error="closed"`.
        A sync one runs in the event loop, which stands still meanwhile, and all agents with it:
        one that reads files or asks servers is async, or has `thread=True`. Raises
        `RegistrationError` for what could never work.

        Args:
            event: what to handle.
            handler: a sync or async callable that takes the `EventContext`.
            options: *priority* (100; higher runs first), *tools* (glob patterns: only for values
                about one of these tools, as it is called then; of messages, their results),
                *roles* (only for messages of these roles), *when* (a sync predicate of the
                context, asked only then), *sender* (an agent or its id: hear only it and its
                sub-agents), *on_error* ("open": log and go on; "closed": deny; "raise"),
                *timeout* (seconds), *thread* (run a blocking sync handler off the loop), *once*,
                *weak* (the handler goes with its owner: a method with its object),
                *incremental* (of `MESSAGE_APPEND_BEFORE`: also called in mid-answer, with
                `ctx.window`, so that a stream need not wait for the whole), *name* (in logs and in
                the ledger).

        What an async handler sets in context variables, later handlers and the caller see; one
        with a *timeout* or in a *thread* works in a copy, and so does each observer of `do`.
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
    ) -> Subscribe[EventContext[V], Verdict]: ...
    def guard(
        self,
        event: TransformEvent[V, Any],
        handler: Callable[..., Any] | None = None,
        **options: Unpack[HandlerOptions],
    ) -> Any:
        """Subscribe a judge of the final value, as `on` does; its failure denies ("closed").

        So with *tools* it judges what a call has become: a call that a handler turned into one of
        these tools, too, and one that was turned away from them not any more.
        """
        return self._subscribe(event, handler, "guard", options)

    def _subscribe(
        self,
        event: Event,
        handler: Callable[..., Any] | None,
        kind: HandlerKind,
        options: HandlerOptions,
    ) -> Any:
        """Subscribe *handler*, or return a decorator that does."""
        raise NotImplementedError


def settings_of(event: Event, kind: HandlerKind, options: HandlerOptions) -> SubscriptionOptions:
    """Return *options*; raises `RegistrationError` for those that could never work."""
    if unknown := sorted(options.keys() - HandlerOptions.__annotations__.keys()):
        known = sorted(HandlerOptions.__annotations__)
        way_out = nearest(unknown[0], known) or f"; known: {', '.join(known)}"
        reason = f"there is no option {unknown[0]!r}{way_out}"
        raise RegistrationError(f"handler of {event!r}", reason)
    settings = SubscriptionOptions(**options)
    check_options(event, kind, settings)
    return settings

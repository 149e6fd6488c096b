"""Who handles what: subscriptions, checked when they are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar, Unpack, overload

from msgspec import Struct

from toolbus.bus.channels import Channel
from toolbus.dispatch.bindings import Binding, Options, Policy, Speaker, check_handler
from toolbus.dispatch.contexts import EventContext
from toolbus.errors import DispatchError, RegistrationError
from toolbus.events import Ask, Deny, ObserveEvent, TransformEvent

if TYPE_CHECKING:
    from blinker import Signal

    from toolbus.dispatch.deadlines import Stuck
    from toolbus.events import Event
    from toolbus.ledger import HandlerKind

V = TypeVar("V")
R = TypeVar("R")

Verdict = Deny | Ask | None
TransformHandler: TypeAlias = Callable[[EventContext[V]], R | None | Awaitable[R | None]]
GuardHandler: TypeAlias = Callable[[EventContext[V]], Verdict | Awaitable[Verdict]]
ObserveHandler: TypeAlias = Callable[[EventContext[V]], None | Awaitable[None]]


class HandlerOptions(TypedDict, total=False):
    """How to subscribe; `EventBus.on` explains each."""

    priority: int
    when: Callable[[EventContext[Any]], bool] | None
    sender: Speaker | str | None
    on_error: Policy | None
    timeout: float | None
    thread: bool
    once: bool
    weak: bool
    name: str | None


class HandlerInfo(Struct, frozen=True, kw_only=True):
    """A subscription as `EventBus.handlers` lists it; *where* is "file:line"."""

    name: str
    kind: HandlerKind
    priority: int
    policy: Policy
    sender: str | None
    where: str


class Subscription:
    """A handler's place on a bus; `cancel` gives it up, and so does leaving a `with` block."""

    __slots__ = ("_binding", "_channel")

    def __init__(self, channel: Channel, binding: Binding) -> None:
        self._channel, self._binding = channel, binding

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def cancel(self) -> None:
        """End the subscription; a second time does nothing. Dispatches under way go on with it."""
        self._channel.remove(self._binding)


class Registry:
    """The subscriptions of one bus; *signals* makes the signal that holds those of one event."""

    def __init__(self, signals: Callable[[str], Signal]) -> None:
        self._signals = signals
        self._channels: dict[Event, Channel] = {}
        self._stuck: Stuck | None = None

    @overload
    def on(
        self,
        event: TransformEvent[V, R],
        handler: TransformHandler[V, R],
        **options: Unpack[HandlerOptions],
    ) -> Subscription: ...
    @overload
    def on(
        self,
        event: ObserveEvent[V],
        handler: ObserveHandler[V],
        **options: Unpack[HandlerOptions],
    ) -> Subscription: ...
    @overload
    def on(
        self, event: TransformEvent[V, R], handler: None = None, **options: Unpack[HandlerOptions]
    ) -> Callable[[TransformHandler[V, R]], TransformHandler[V, R]]: ...
    @overload
    def on(
        self, event: ObserveEvent[V], handler: None = None, **options: Unpack[HandlerOptions]
    ) -> Callable[[ObserveHandler[V]], ObserveHandler[V]]: ...
    def on(
        self,
        event: Event,
        handler: Callable[..., Any] | None = None,
        **options: Unpack[HandlerOptions],
    ) -> Any:
        """Subscribe *handler*; without one, return a decorator that gives the function back.

        Raises `RegistrationError` for what could never work.

        Args:
            event: what to handle.
            handler: a sync or async callable that takes the `EventContext`.
            options: *priority* (100; higher runs first), *when* (a sync predicate of the
                context), *sender* (an agent or its id: hear only it and its sub-agents),
                *on_error* ("open": log and go on; "closed": deny; "raise"), *timeout* (seconds),
                *thread* (run a blocking sync handler off the loop), *once*, *weak* (the
                handler goes with its owner), *name* (in logs and in the ledger).
        """
        kind: HandlerKind = "observer" if isinstance(event, ObserveEvent) else "transformer"
        return self._subscribe(event, handler, kind, options)

    @overload
    def guard(
        self,
        event: TransformEvent[V, Any],
        handler: GuardHandler[V],
        **options: Unpack[HandlerOptions],
    ) -> Subscription: ...
    @overload
    def guard(
        self, event: TransformEvent[V, Any], handler: None = None, **options: Unpack[HandlerOptions]
    ) -> Callable[[GuardHandler[V]], GuardHandler[V]]: ...
    def guard(
        self,
        event: TransformEvent[V, Any],
        handler: Callable[..., Any] | None = None,
        **options: Unpack[HandlerOptions],
    ) -> Any:
        """Subscribe a judge of the final value, as `on` does; its failure denies ("closed")."""
        return self._subscribe(event, handler, "guard", options)

    def handlers(self, event: Event) -> tuple[HandlerInfo, ...]:
        """Return who handles *event*, in the order in which they will run."""
        return tuple(
            HandlerInfo(
                name=binding.name,
                kind=binding.kind,
                priority=binding.priority,
                policy=binding.policy,
                sender=binding.sender,
                where=binding.where,
            )
            for binding in self._channel(event).bindings
            if binding.alive
        )

    def signal(self, event: Event) -> Signal:
        """Return blinker's own signal; its receivers get `(agent_id, ctx=…)` after all handlers."""
        return self._channel(event).signal

    @property
    def stuck(self) -> int:
        """How many threads of timed-out handlers still run."""
        return 0 if self._stuck is None else self._stuck.count

    def _channel(self, event: Event, verb: str | None = None) -> Channel:
        channel = self._channels.get(event) or self._new_channel(event)
        if verb is not None and verb not in _verbs(event):
            raise DispatchError(event.name, f"use `{'` or `'.join(_verbs(event))}`, not `{verb}`")
        return channel

    def _new_channel(self, event: Event) -> Channel:
        if not isinstance(event, TransformEvent | ObserveEvent):
            raise RegistrationError(f"event {event!r}", "expected an event object")
        signal = self._signals(event.name)
        channel = self._channels.setdefault(event, Channel(event, signal))
        for other in list(self._channels):
            if other.name == event.name and other is not event:
                del self._channels[event]
                raise RegistrationError(
                    f"event {event.name!r}", "this bus has another of that name"
                )
        return channel

    def _subscribe(
        self,
        event: Event,
        handler: Callable[..., Any] | None,
        kind: HandlerKind,
        options: HandlerOptions,
    ) -> Any:
        if handler is None:
            check_handler(event, lambda _: None, kind, Options(**options))

            def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
                self._subscribe(event, function, kind, options)
                return function

            return decorate
        settings = Options(**options)
        check_handler(event, handler, kind, settings)
        channel = self._channel(event)
        binding = Binding(event, handler, kind, settings, self._threads(settings))
        channel.add(binding)
        return Subscription(channel, binding)

    def _threads(self, options: Options) -> Stuck | None:
        if options.thread and self._stuck is None:
            from toolbus.dispatch.deadlines import Stuck  # noqa: PLC0415 - loads asyncio

            self._stuck = Stuck()
        return self._stuck


def _verbs(event: Event) -> tuple[str, ...]:
    match event:
        case TransformEvent():
            return "apply", "apply_sync"
        case ObserveEvent(awaited=True):
            return ("observe",)
    return ("do",)

"""Who handles what: subscriptions, checked when they are made."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from toolbus.bus.channels import Channel
from toolbus.bus.dispatch.bindings import Binding, WeakHandler
from toolbus.bus.dispatch.options import Policy, SubscriptionOptions, check_handler, check_options
from toolbus.bus.ledger.records import HandlerKind
from toolbus.bus.ledger.taps import Taps
from toolbus.bus.subscribing import HandlerOptions, Subscribe, Subscribing, Subscription
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import check_event
from toolbus.settings.hints import nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from blinker import Signal

    from toolbus.bus.dispatch.deadlines import AbandonedThreads
    from toolbus.bus.dispatch.plans import Verb
    from toolbus.events.catalogue import Event, Scope

T = TypeVar("T")


class HandlerInfo(Struct, frozen=True, kw_only=True):
    """A subscription as `EventBus.handlers` lists it; *where* is "file:line".

    *tools* and *roles* are those for which it runs; empty, it runs for all. *incremental*: it also
    judges answers as they grow.
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


class Registry(Subscribing):
    """The subscriptions of one bus; *signals* makes the signal that holds those of one event."""

    def __init__(self, signals: Callable[[str], Signal]) -> None:
        self._signals = signals
        self._channels: dict[Event, Channel] = {}
        self._taps = Taps(self._outdate)
        self._shared: dict[Any, Any] = {}
        self._abandoned: AbandonedThreads | None = None
        # For what is made once: channels, queues. A dispatch does not take it.
        self._making = threading.RLock()

    def shared(self, kind: Callable[[], T]) -> T:
        """Return the one object of *kind*, a class, that all components on this bus share."""
        with self._making:
            if kind not in self._shared:
                self._shared[kind] = kind()
            shared: T = self._shared[kind]
            return shared

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that somebody has handled, dispatched or asked about on this bus."""
        return tuple(self._channels)

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
                tools=binding.tools,
                roles=binding.roles,
                incremental=binding.incremental,
            )
            for binding in self._channel(event).bindings
        )

    def functions(self, event: Event) -> tuple[Callable[..., Any] | None, ...]:
        """Return what was subscribed to *event*, as `handlers` lists it; None if it is gone."""
        return tuple([binding.handler for binding in self._channel(event).bindings])

    def addressed(self, event: Event, scope: Scope) -> tuple[Binding, ...]:
        """Return who hears *event* under *scope*, in order."""
        return self._channel(event).listeners(scope).bindings

    def version(self, event: Event) -> object:
        """Return what is another object as soon as anybody comes to *event*, or leaves it."""
        return self._channel(event).version

    def signal(self, event: Event) -> Signal:
        """Return blinker's own signal; its receivers get `(agent_id, ctx=…)` after all handlers."""
        return self._channel(event).signal

    @property
    def stuck(self) -> int:
        """How many threads of timed-out handlers still run."""
        return 0 if self._abandoned is None else self._abandoned.count

    def _channel(self, event: Event) -> Channel:
        try:
            return self._channels[event]
        except (KeyError, TypeError):
            return self._new_channel(event)

    def _new_channel(self, event: Event) -> Channel:
        check_event(event)
        with self._making:
            for other in self._channels:
                if other.name == event.name and other is not event:
                    what, reason = f"event {event.name!r}", "this bus has another of that name"
                    raise RegistrationError(what, reason)
            made = Channel(event, self._signals(event.name), self._plan, self._taps.sessions)
            return self._channels.setdefault(event, made)

    def attach(
        self,
        event: Event,
        handler: Callable[..., Any],
        kind: HandlerKind,
        options: HandlerOptions,
        order: Callable[[int], int] = int,
    ) -> Subscription:
        """Subscribe *handler* for as long as somebody keeps the subscription.

        Among handlers of one priority it has the place that *order* makes of its number.
        So what an agent subscribes goes with it, also if nobody closed it: the bus keeps neither
        the handler nor, in whatever that refers to, the agent.
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
            return Subscribe(partial(self._bind, event, kind, settings))
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
        abandoned = self._threads() if settings.thread else None
        held = WeakHandler(handler, settings.when) if attached and not settings.weak else None
        binding = Binding(
            event, handler, kind, settings, abandoned=abandoned, held=held, on_end=channel.end
        )
        channel.add(binding, order)
        return Subscription(channel, binding, held)

    def _plan(
        self, channel: Channel, verb: Verb, bindings: tuple[Binding, ...], *, tapped: bool
    ) -> Callable[..., Any]:
        """Return what dispatches the event of *channel* to *bindings*; *tapped*: under a tap."""
        raise NotImplementedError

    def _outdate(self) -> None:
        for channel in tuple(self._channels.values()):
            channel.outdate()

    def _threads(self) -> AbandonedThreads:
        from toolbus.bus.dispatch.deadlines import AbandonedThreads  # noqa: PLC0415 - loads asyncio

        with self._making:
            self._abandoned = self._abandoned or AbandonedThreads()
            return self._abandoned


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

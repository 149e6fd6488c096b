"""What a participant subscribed, on its own bus and on those of its callers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.bus.dispatch.bindings import reference
from toolbus.bus.subscribing import Subscription
from toolbus.components.components import PROVIDE_PRIORITY, AgentComponent

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.bus import EventBus
    from toolbus.bus.ledger.records import HandlerKind
    from toolbus.bus.subscribing import HandlerOptions
    from toolbus.events.catalogue import Event


_SPAN = 1 << 40
"""More handlers than one event of a bus ever has."""


class Terms(NamedTuple):
    """What was subscribed, and how; *recall* returns the handler, or None if a weak one is dead."""

    event: Event
    recall: Callable[[], Callable[..., Any] | None]
    kind: HandlerKind
    options: HandlerOptions

    @classmethod
    def of(
        cls, event: Event, handler: Callable[..., Any], kind: HandlerKind, options: HandlerOptions
    ) -> Terms:
        """Return them; of a weak handler there is but a weak reference in them."""
        is_weak = options.get("weak", False)
        recall = reference(handler, lambda: None) if is_weak else lambda: handler
        return cls(event, recall, kind, options)


class OwnedSubscription(Subscription):
    """A subscription that tells its owner when it is cancelled, so nobody holds its handler."""

    __slots__ = ("_forget", "_subscription", "_terms")

    def __init__(
        self,
        subscription: Subscription,
        terms: Terms,
        forget: Callable[[OwnedSubscription], object],
    ) -> None:
        self._subscription, self._terms, self._forget = subscription, terms, forget

    @property
    def alive(self) -> bool:
        """Whether its handler can still run."""
        return self._subscription.alive

    def cancel(self) -> None:
        """End the subscription; a second time does nothing."""
        self._subscription.cancel()
        self._forget(self)

    def attach_to(self, bus: EventBus, depth: int) -> Callable[[], None]:
        """Subscribe the same on *bus*; return what ends that, which does not keep *bus*.

        It comes before what is there already and what has less *depth*, so that those above wrap
        those below; handlers of parameters, which pass in reverse, come after that.
        """
        handler = self._terms.recall()
        if handler is None or not self.alive:
            return _nothing
        event, _, kind, options = self._terms
        inmost = depth * _SPAN
        owner = getattr(handler, "__self__", None)
        if isinstance(owner, AgentComponent) and owner.is_for_parameters(handler):
            below_all: HandlerOptions = {**options, "priority": PROVIDE_PRIORITY}
            attached = bus.attach(event, handler, kind, below_all, lambda number: inmost - number)
        else:
            attached = bus.attach(event, handler, kind, options, lambda number: number - inmost)
        return attached.without_bus()


class JoinedBus(NamedTuple):
    """A caller's bus on which a participant is heard: how far in, and what ends each there."""

    depth: int
    ends: dict[OwnedSubscription, Callable[[], None]]

    def attach(self, bus: EventBus, subscription: OwnedSubscription) -> None:
        """Have *subscription* on *bus* as well."""
        self.ends[subscription] = subscription.attach_to(bus, self.depth)


def _nothing() -> None:
    """End nothing: nothing was subscribed."""

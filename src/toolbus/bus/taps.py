"""Who reads the ledger: sinks that get a record of each dispatch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.ledger import Digests, DispatchRecord, Trace

if TYPE_CHECKING:
    from toolbus.bus.channels import Channel
    from toolbus.dispatch.contexts import EventContext
    from toolbus.events import Event

logger = logging.getLogger("toolbus")


class Tap(Struct, frozen=True, eq=False):
    """A sink of dispatch records, and what it wants to have."""

    sink: Callable[[DispatchRecord], object]
    values: bool
    idle: bool
    without: tuple[Event, ...]


class Taps:
    """The taps of one bus; without one, a dispatch leaves no trace and pays for none."""

    __slots__ = ("_digests", "_taps")

    def __init__(self) -> None:
        self._taps: tuple[Tap, ...] = ()
        self._digests = Digests()

    def add(self, tap: Tap) -> Callable[[], None]:
        """Add *tap*; return a function that takes it away."""
        self._taps = (*self._taps, tap)

        def end() -> None:
            self._taps = tuple([other for other in self._taps if other is not tap])

        return end

    def trace(self, channel: Channel, context: EventContext[Any]) -> Trace | None:
        """Begin a trace of a dispatch, if a tap wants it."""
        if not self._taps or not any([_wants(tap, channel) for tap in self._taps]):
            return None
        return Trace(channel.event.name, context.value, context.scope, self._digests)

    def record(self, channel: Channel, record: DispatchRecord) -> None:
        """Give *record* to the taps that want it; one that raises is logged."""
        for tap in self._taps:
            if _wants(tap, channel):
                try:
                    tap.sink(record if tap.values else record.without_values())
                except Exception:
                    logger.exception("a tap of the bus failed at %r", record.event)


def _wants(tap: Tap, channel: Channel) -> bool:
    return channel.event not in tap.without and (tap.idle or bool(channel.bindings))

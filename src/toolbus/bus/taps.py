"""Who reads the ledger: sinks that get a record of each dispatch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from toolbus.dispatch.settling import outcome_of
from toolbus.events import Event, ObserveEvent
from toolbus.ledger import Digests, DispatchRecord, Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.dispatch.bindings import Binding
    from toolbus.dispatch.contexts import EventContext
    from toolbus.events import Scope
    from toolbus.ledger import Outcome

logger = logging.getLogger("toolbus")


class Tap(Struct, frozen=True, eq=False):
    """A sink of dispatch records, and what it wants to have."""

    sink: Callable[[DispatchRecord], object]
    values: bool
    idle: bool
    without: tuple[Event, ...]

    def wants(self, event: Event, bindings: Sequence[Binding]) -> bool:
        """Tell whether it wants a record of a dispatch of *event* to *bindings*."""
        return event not in self.without and (self.idle or bool(bindings))


class Taps:
    """The taps of one bus; without one, a dispatch leaves no trace and pays for none."""

    __slots__ = ("_digests", "_lock", "_taps")

    def __init__(self) -> None:
        self._taps: tuple[Tap, ...] = ()
        self._digests: Digests  # made with the first tap: a bus without one pays nothing
        self._lock = threading.Lock()

    def add(self, tap: Tap) -> Callable[[], None]:
        """Add *tap*; return a function that takes it away."""
        with self._lock:
            if not self._taps:
                self._digests = Digests()
            self._taps = (*self._taps, tap)

        def end() -> None:
            with self._lock:
                self._taps = tuple([other for other in self._taps if other is not tap])

        return end

    def wants(self, event: Event, bindings: Sequence[Binding]) -> bool:
        """Tell whether a tap wants a record of a dispatch of *event* to *bindings*."""
        return any(tap.wants(event, bindings) for tap in self._taps)

    def begin(self, event: Event, value: object, scope: Scope) -> Trace:
        """Begin a trace of a dispatch."""
        return Trace(event.name, value, scope, self._digests)

    def finished(
        self, bindings: Sequence[Binding], trace: Trace, context: EventContext[Any]
    ) -> None:
        """Give the record of *trace*, of a dispatch that came to its end, to who wants it."""
        observed = isinstance(context.event, ObserveEvent)
        outcome, reason = ("observed", None) if observed else outcome_of(context)
        self._record(trace, context, bindings, outcome, reason)

    def broken(self, bindings: Sequence[Binding], trace: Trace, context: EventContext[Any]) -> None:
        """Do the same for a dispatch that an exception leaves."""
        self._record(trace, context, bindings, "raised", None)

    def _record(
        self,
        trace: Trace,
        context: EventContext[Any],
        bindings: Sequence[Binding],
        outcome: Outcome,
        reason: str | None,
    ) -> None:
        trace.missing(bindings[trace.turns :])
        event, record = context.event, trace.finish(outcome, reason)
        result = context.value if context.answer is None else context.answer
        full = replace(record, value=context.original, result=result)
        for tap in self._taps:
            if tap.wants(event, bindings):
                try:
                    tap.sink(full if tap.values else record.without_values())
                except Exception:
                    more = {"event": event.name}
                    logger.exception("a tap of the bus failed at %r", event.name, extra=more)

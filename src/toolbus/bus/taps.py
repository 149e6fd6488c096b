"""Who reads the ledger: sinks that get a record of each dispatch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.dispatch.settling import outcome_of
from toolbus.events import Event, ObserveEvent
from toolbus.ledger import DispatchRecord
from toolbus.tracing import Digests, Trace

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
    digests: bool = True

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

    def recording(self, event: Event, bindings: Sequence[Binding]) -> Recording:
        """Return what records the dispatches of *event* to *bindings*."""
        wanting = [tap for tap in self._taps if tap.wants(event, bindings)]
        digests = self._digests if any(tap.digests for tap in wanting) else None
        return Recording(self, event, bindings, wanting, digests)

    def has(self, tap: Tap) -> bool:
        """Tell whether *tap* was not taken away."""
        return tap in self._taps


class Recording:
    """Makes the records of one plan, for the taps that were *wanting* them when it was made."""

    __slots__ = ("_bindings", "_digests", "_event", "_taps", "_values", "_wanting")

    def __init__(
        self,
        taps: Taps,
        event: Event,
        bindings: Sequence[Binding],
        wanting: Sequence[Tap],
        digests: Digests | None,
    ) -> None:
        self._taps, self._event, self._bindings, self._wanting = taps, event, bindings, wanting
        self._values, self._digests = any(tap.values for tap in wanting), digests

    def begin(self, value: object, scope: Scope) -> Trace:
        """Begin a trace of a dispatch."""
        return Trace(self._event.name, value, scope, self._digests, values=self._values)

    def finished(self, trace: Trace, context: EventContext[Any]) -> None:
        """Give the record of *trace*, of a dispatch that came to its end, to the taps."""
        observed = isinstance(self._event, ObserveEvent)
        outcome, reason = ("observed", None) if observed else outcome_of(context, trace.differs)
        self._record(trace, context, outcome, reason)

    def broken(self, trace: Trace, context: EventContext[Any]) -> None:
        """Do the same for a dispatch that an exception leaves."""
        self._record(trace, context, "raised", None)

    def _record(
        self, trace: Trace, context: EventContext[Any], outcome: Outcome, reason: str | None
    ) -> None:
        if trace.turns < len(self._bindings):
            trace.missing(self._bindings[trace.turns :])
        result = None
        if self._values:
            result = context.value if context.answer is None else context.answer
        record = trace.finish(outcome, reason, result)
        for tap in self._wanting:
            if self._taps.has(tap):
                try:
                    bare = self._values and not tap.values
                    tap.sink(record.without_values() if bare else record)
                except Exception:
                    name = self._event.name
                    logger.exception("a tap of the bus failed at %r", name, extra={"event": name})

"""The taps of the ledger: sinks for the record of each dispatch, of all sessions or of one."""

from __future__ import annotations

import threading
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from toolbus.bus.dispatch.failures import log_tap
from toolbus.bus.ledger.trace import Digests, Trace
from toolbus.events.catalogue import Ask, Event, ObserveEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.bus.dispatch.details import Details
    from toolbus.bus.ledger.records import Outcome
    from toolbus.events.catalogue import Scope


class TapFilter(NamedTuple):
    """The dispatches for a tap: with *idle* also those without a handler; *without* some events."""

    idle: bool
    without: tuple[Event, ...]

    def covers(self, event: Event, *, handled: bool) -> bool:
        """Return whether a dispatch of *event* is among them."""
        return event not in self.without and (self.idle or handled)


class Tap(Struct, eq=False):
    """A sink of dispatch records with its filter; a *session_id* limits it to that session."""

    sink: Any
    filter: TapFilter
    values: bool
    digests: bool
    session_id: str | None
    ended: bool = False


class Taps:
    """The taps of one bus, created with the first; without a tap, a dispatch pays for no trace.

    *sessions* has the taps of single sessions. *notify* is called when the set of recorded
    dispatches changes.
    """

    __slots__ = ("_digests", "_filters", "_gone", "_lock", "_notify", "_taps", "sessions")

    def __init__(self, sessions: dict[str, tuple[Tap, ...]], notify: Callable[[], object]) -> None:
        self.sessions, self._notify = sessions, notify
        self._taps: tuple[Tap, ...] = ()
        self._filters: Counter[TapFilter] = Counter()
        self._digests = Digests()
        self._gone: deque[Tap] = deque()
        self._lock = threading.Lock()

    def add(self, tap: Tap) -> Callable[[], None]:
        """Add *tap*; return a function that removes it."""
        with self._lock:
            if tap.session_id is None:
                self._taps = (*self._taps, tap)
            else:
                self.sessions[tap.session_id] = (*self.sessions.get(tap.session_id, ()), tap)
                self._filters[tap.filter] += 1
            is_new = tap.session_id is None or self._filters[tap.filter] == 1
        self._forget_gone()
        if is_new:
            self._notify()
        return partial(self._end, tap)

    def wants(self, event: Event, *, handled: bool, tapped: bool) -> bool:
        """Return whether a tap may want a dispatch of *event*; *tapped*: in a session with taps."""
        filters = [*[tap.filter for tap in self._taps], *(tuple(self._filters) if tapped else ())]
        return any(each.covers(event, handled=handled) for each in filters)

    def recorder(
        self, event: Event, bindings: Sequence[Binding], *, tapped: bool
    ) -> DispatchRecorder | None:
        """Return a recorder for dispatches of *event* to *bindings*, None if no tap wants it."""
        handled = bool(bindings)
        if not self.wants(event, handled=handled, tapped=tapped):
            return None
        general = tuple([tap for tap in self._taps if tap.filter.covers(event, handled=handled)])
        return DispatchRecorder(event, bindings, general, self.sessions, self._digests)

    def _end(self, tap: Tap) -> None:
        # Also called by the garbage collector, in a thread that may hold the lock.
        if not tap.ended:
            tap.ended = True
            self._gone.append(tap)
            self._forget_gone()

    def _forget_gone(self) -> None:
        """Remove the ended taps, unless the lock is held: its holder removes them next."""
        stale = False
        if self._gone and self._lock.acquire(blocking=False):
            try:
                for _ in range(len(self._gone)):
                    stale |= self._forget(self._gone.popleft())
            finally:
                self._lock.release()
        if stale:
            self._notify()

    def _forget(self, tap: Tap) -> bool:
        """Remove *tap*; return whether fewer dispatches are recorded now."""
        if tap.session_id is None:
            self._taps = tuple([other for other in self._taps if other is not tap])
            return True
        remaining = tuple([other for other in self.sessions[tap.session_id] if other is not tap])
        if remaining:
            self.sessions[tap.session_id] = remaining
        else:
            del self.sessions[tap.session_id]
        self._filters -= Counter([tap.filter])
        return tap.filter not in self._filters


class Readers(NamedTuple):
    """The taps *of_session*, all *taps* of its records, and their need of digests and values."""

    of_session: tuple[Tap, ...]
    taps: tuple[Tap, ...]
    digests: bool
    values: bool


class DispatchRecorder:
    """The recorder of one plan: for the *general* taps, and those of a dispatch's session."""

    __slots__ = ("_bindings", "_digests", "_event", "_general", "_readers", "_sessions")

    def __init__(
        self,
        event: Event,
        bindings: Sequence[Binding],
        general: tuple[Tap, ...],
        sessions: dict[str, tuple[Tap, ...]],
        digests: Digests,
    ) -> None:
        self._event, self._bindings, self._general = event, bindings, general
        self._sessions, self._digests = sessions, digests
        self._readers = self._readers_of(())

    def begin(self, value: object, scope: Scope) -> Trace:
        """Begin the trace of a dispatch."""
        of_session = self._sessions.get(scope.session_id, ())
        readers = self._readers
        if of_session is not readers.of_session:
            # Computed once for most agents, which have one session.
            readers = self._readers = self._readers_of(of_session)
        return Trace(
            self._event.name,
            value,
            scope,
            self._digests if readers.digests else None,
            handlers=self._bindings,
            values=readers.values,
            readers=readers.taps,
        )

    def _readers_of(self, of_session: tuple[Tap, ...]) -> Readers:
        """Return the readers of a session with taps *of_session*."""
        handled = bool(self._bindings)
        wanting = [tap for tap in of_session if tap.filter.covers(self._event, handled=handled)]
        taps = (*self._general, *wanting)
        digests, values = any(tap.digests for tap in taps), any(tap.values for tap in taps)
        return Readers(of_session, taps, digests, values)

    def record(self, value: object, details: Details, *, finished: bool) -> None:
        """Send the taps the record of a dispatch that ended with *value* and *details*.

        It is *finished* unless an exception left it.
        """
        trace: Trace = details.trace
        result = (value if details.answer is None else details.answer) if trace.values else None
        outcome = self._outcome(value, details) if finished else ("raised", None)
        record = trace.finish(*outcome, result)
        for tap in trace.readers:
            if not tap.ended:
                try:
                    bare = trace.values and not tap.values
                    tap.sink(record.without_values() if bare else record)
                except Exception as error:  # noqa: BLE001 - a tap never disturbs a dispatch
                    log_tap(self._event.name, error)

    def _outcome(self, value: object, details: Details) -> tuple[Outcome, str | None]:
        """Return the outcome of a finished dispatch, and its reason."""
        if isinstance(self._event, ObserveEvent):
            return "observed", None
        if details.rejected is not None:
            return "rejected", details.rejected.reason
        if details.denied is not None:
            return "denied", details.denied.reason
        if details.asks:
            return "asked", Ask.merged([ask for _, ask in details.asks]).prompt
        if details.answer is not None:
            return "answered", None
        return ("changed" if details.trace.differs(value) else "unchanged"), None

"""Who reads the ledger: sinks that get a record of each dispatch, of all sessions or of one."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.bus.dispatch.outcomes import outcome_of
from toolbus.bus.ledger.tracing import Digests, Trace
from toolbus.events.catalogue import Event, ObserveEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.ledger.records import DispatchRecord, Outcome
    from toolbus.events.catalogue import Scope

logger = logging.getLogger("toolbus")


class Wish(NamedTuple):
    """Which dispatches a tap wants: also *idle* ones, without a handler, but not some events."""

    idle: bool
    without: tuple[Event, ...]

    def covers(self, event: Event, *, handled: bool) -> bool:
        """Tell whether a dispatch of *event* is one of them."""
        return event not in self.without and (self.idle or handled)


class Tap:
    """A sink of dispatch records and what it wants; with a *session_id* those of that session."""

    __slots__ = ("digests", "ended", "session_id", "sink", "values", "wish")

    def __init__(
        self,
        sink: Callable[[DispatchRecord], object],
        wish: Wish,
        *,
        values: bool,
        digests: bool,
        session_id: str | None,
    ) -> None:
        self.sink, self.wish, self.values, self.digests = sink, wish, values, digests
        self.session_id, self.ended = session_id, False


class Taps:
    """The taps of one bus; without one, a dispatch leaves no trace and pays for none.

    *sessions* are those with taps of their own. *outdate* is called when other dispatches than
    before are to be recorded.
    """

    __slots__ = ("_digests", "_gone", "_lock", "_outdate", "_taps", "_wishes", "sessions")

    def __init__(self, outdate: Callable[[], object]) -> None:
        self._outdate = outdate
        self._taps: tuple[Tap, ...] = ()
        self.sessions: dict[str, tuple[Tap, ...]] = {}
        self._wishes: Counter[Wish] = Counter()
        self._digests: Digests | None = None  # A bus without a tap pays nothing.
        self._gone: deque[Tap] = deque()
        self._lock = threading.Lock()

    def add(self, tap: Tap) -> Callable[[], None]:
        """Add *tap*; return a function that takes it away."""
        with self._lock:
            if not (self._taps or self.sessions):
                self._digests = Digests()
            if tap.session_id is None:
                self._taps = (*self._taps, tap)
            else:
                self.sessions[tap.session_id] = (*self.sessions.get(tap.session_id, ()), tap)
                self._wishes[tap.wish] += 1
            is_new = tap.session_id is None or self._wishes[tap.wish] == 1
        self._forget_gone()
        if is_new:
            self._outdate()
        return partial(self._end, tap)

    def wants(self, event: Event, *, handled: bool, tapped: bool) -> bool:
        """Tell whether a tap may want a dispatch of *event*; *tapped*: in a session with taps."""
        wishes = [*[tap.wish for tap in self._taps], *(tuple(self._wishes) if tapped else ())]
        return any(wish.covers(event, handled=handled) for wish in wishes)

    def recording(self, event: Event, bindings: Sequence[Binding]) -> Recording:
        """Return what records the dispatches of *event* to *bindings*."""
        handled = bool(bindings)
        general = tuple([tap for tap in self._taps if tap.wish.covers(event, handled=handled)])
        return Recording(event, bindings, general, self.sessions, self._digests)

    def _end(self, tap: Tap) -> None:
        # Also called by the garbage collector, in a thread that may hold the lock.
        if not tap.ended:
            tap.ended = True
            self._gone.append(tap)
            self._forget_gone()

    def _forget_gone(self) -> None:
        """Take away what has ended, unless the lock is held: who holds it does so next."""
        stale = False
        if self._gone and self._lock.acquire(blocking=False):
            try:
                for _ in range(len(self._gone)):
                    stale |= self._forget(self._gone.popleft())
            finally:
                self._lock.release()
        if stale:
            self._outdate()

    def _forget(self, tap: Tap) -> bool:
        """Take *tap* away; return whether fewer dispatches are recorded now."""
        if tap.session_id is None:
            self._taps = tuple([one for one in self._taps if one is not tap])
            return True
        rest = tuple([one for one in self.sessions[tap.session_id] if one is not tap])
        if rest:
            self.sessions[tap.session_id] = rest
        else:
            del self.sessions[tap.session_id]
        self._wishes -= Counter([tap.wish])
        return tap.wish not in self._wishes


class Readers(NamedTuple):
    """The *taps* that read the records of a session with its *own*, and what they want in them."""

    own: tuple[Tap, ...]
    taps: tuple[Tap, ...]
    digests: bool
    values: bool


class Recording:
    """Makes the records of one plan: for the *general* taps, and those of a dispatch's session."""

    __slots__ = ("_bindings", "_digests", "_event", "_general", "_known", "_sessions")

    def __init__(
        self,
        event: Event,
        bindings: Sequence[Binding],
        general: tuple[Tap, ...],
        sessions: dict[str, tuple[Tap, ...]],
        digests: Digests | None,
    ) -> None:
        self._event, self._bindings, self._general = event, bindings, general
        self._sessions, self._digests = sessions, digests
        self._known = self._read_by(())

    def begin(self, value: object, scope: Scope) -> Trace:
        """Begin a trace of a dispatch."""
        own = self._sessions.get(scope.session_id, ())
        known = self._known
        if own is not known.own:
            # Most speakers have one session, so this is asked once.
            known = self._known = self._read_by(own)
        digests = self._digests if known.digests else None
        name = self._event.name
        return Trace(name, value, scope, digests, values=known.values, readers=known.taps)

    def _read_by(self, own: tuple[Tap, ...]) -> Readers:
        """Return who reads the records of a session with *own* taps."""
        handled = bool(self._bindings)
        more = tuple([tap for tap in own if tap.wish.covers(self._event, handled=handled)])
        taps = self._general + more
        digests, values = any(tap.digests for tap in taps), any(tap.values for tap in taps)
        return Readers(own, taps, digests, values)

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
        if trace.values:
            result = context.value if context.answer is None else context.answer
        record = trace.finish(outcome, reason, result)
        for tap in trace.readers:
            if not tap.ended:
                try:
                    bare = trace.values and not tap.values
                    tap.sink(record.without_values() if bare else record)
                except Exception:
                    name = self._event.name
                    logger.exception("a tap of the bus failed at %r", name, extra={"event": name})

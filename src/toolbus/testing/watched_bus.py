"""A bus for one test, which remembers what failed and is closed after it."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any

from toolbus.bus import queues
from toolbus.bus.bus import EventBus
from toolbus.bus.dispatch import failures

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from toolbus.bus.ledger.records import DispatchRecord

# How long a test waits for its async observers, in seconds.
PATIENCE = 5.0
ADVICE = "if that is meant, mark the test with `pytest.mark.handler_failures(…)`"
_DRAIN = "end the test with `await bus.drain()`"
_FAILURES = frozenset({"failed", "timeout", "contract", "rejected"})


class WatchedBus:
    """An `EventBus` for one test, and what its handlers failed in, until it is closed."""

    def __init__(self) -> None:
        self.bus = EventBus()
        self._failures: list[tuple[str, str, str]] = []
        self._queued: set[tuple[str, str]] = set()
        self._end = self.bus.tap(self._note, idle=False, digests=False)
        # What an async observer fails in later stands in the log only.
        self._log, self._listener = logging.getLogger("toolbus"), _Listener()
        self._log.addHandler(self._listener)

    def problems(self, expected: Collection[str] | None = ()) -> list[str]:
        """Return what went wrong, a line each, but for handlers *expected* to fail; None: any."""
        if self.bus.pending:
            self._in_thread(self.bus.drain)
        late, lost = [
            [failure for failure in failures if failure[:2] in self._queued]
            for failures in (self._listener.failures, self._listener.cut_off)
        ]
        failures = [] if expected is None else [*self._failures, *late]
        unexpected = [failure for failure in failures if failure[0] not in (expected or ())]
        problems = [f"handler {name!r} of {event!r}: {why}" for name, event, why in unexpected]
        problems += [ADVICE] * bool(problems)
        problems += [f"handler {name!r} of {event!r}: {why}" for name, event, why in lost]
        if waiting := self.bus.pending:
            problems.append(f"async observers have {waiting} events to see; {_DRAIN}")
        return problems

    def close(self) -> None:
        """Close the bus, and let go of the log."""
        self._log.removeHandler(self._listener)
        self._end()
        self._in_thread(self.bus.aclose)

    def _note(self, record: DispatchRecord) -> None:
        for entry in record.entries:
            if entry.status == "queued":
                self._queued.add((entry.name, record.event))
            elif entry.status in _FAILURES:
                reason = entry.reason or entry.status
                self._failures.append((entry.name, record.event, reason))

    @staticmethod
    def _in_thread(work: Callable[[float], Coroutine[Any, Any, None]]) -> None:
        """Await *work* in a loop of its own, for one may run in this thread; but not for ever."""
        thread = threading.Thread(target=lambda: asyncio.run(work(PATIENCE)))
        thread.start()
        thread.join()


class _Listener(logging.Handler):
    """Collects handler, event and reason of logged failures, and of events that were lost."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.failures: list[tuple[str, str, str]] = []
        self.cut_off: list[tuple[str, str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep *record*, if it tells of a handler that failed or was cut off."""
        match record.msg, record.args:
            case failures.FAILED, (handler, event, reason, _):
                self.failures.append((str(handler), str(event), str(reason)))
            case queues.CUT_OFF, (handler, event, count):
                reason = "was cut off by the end of its loop, which came before"
                reason = f"{reason} {count} events were seen; {_DRAIN}"
                self.cut_off.append((str(handler), str(event), reason))

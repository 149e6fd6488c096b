"""A bus for one test, which records failures of its handlers and is closed afterwards."""

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

PATIENCE = 5.0
"""Seconds that a test waits for its async observers."""
ADVICE = "if this is intended, mark the test with `pytest.mark.handler_failures(…)`"
_DRAIN = "end the test with `await bus.drain()`"
_FAILURES = frozenset({"failed", "timeout", "contract", "rejected"})


class WatchedBus:
    """An `EventBus` for one test, with the failures of its handlers until it is closed."""

    def __init__(self) -> None:
        self.bus = EventBus()
        self._failures: list[tuple[str, str, str]] = []
        self._queued: set[tuple[str, str]] = set()
        self._end = self.bus.tap(self._note, idle=False, digests=False)
        # Failures of async observers after a dispatch are only in the log.
        self._log, self._listener = logging.getLogger("toolbus"), _Listener()
        self._log.addHandler(self._listener)

    def problems(self, expected: Collection[str] | None = ()) -> list[str]:
        """Return the problems, a line each, except of handlers *expected* to fail (None: all)."""
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
            problems.append(f"{waiting} events still wait for async observers; {_DRAIN}")
        return problems

    def close(self) -> None:
        """Close the bus, and stop listening to the log."""
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
        """Await *work* in a loop in another thread, since this one may run a loop; with a limit."""
        thread = threading.Thread(target=lambda: asyncio.run(work(PATIENCE)))
        thread.start()
        thread.join()


class _Listener(logging.Handler):
    """A log handler that collects handler, event and reason of failures and of lost events."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.failures: list[tuple[str, str, str]] = []
        self.cut_off: list[tuple[str, str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Store *record* if it is about a handler that failed or was cut off."""
        match record.msg, record.args:
            case failures.FAILED, (handler, event, reason, _):
                self.failures.append((str(handler), str(event), str(reason)))
            case queues.CUT_OFF, (handler, event, count):
                reason = f"was cut off by the end of its loop before {count} events; {_DRAIN}"
                self.cut_off.append((str(handler), str(event), reason))

"""A bus for one test, which remembers what failed and is closed after it."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
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
_FAILURES = frozenset({"failed", "timeout", "contract", "rejected"})


class WatchedBus:
    """An `EventBus` for one test, and what its handlers failed in, until it is closed."""

    def __init__(self) -> None:
        self.bus = EventBus()
        self._failures: list[tuple[str, str, str]] = []
        self._queued: set[tuple[str, str]] = set()
        self._end = self.bus.tap(self._note, idle=False, digests=False)
        # What an async observer fails in later stands in the log only.
        self._log, self._heard = logging.getLogger("toolbus"), _Listener()
        self._log.addHandler(self._heard)

    def problems(self, expected: Collection[str] | None = ()) -> list[str]:
        """Return what went wrong, a line each, but for handlers *expected* to fail; None: any."""
        if self.bus.pending:
            self._in_thread(self.bus.drain)
        waiting = self.bus.pending
        unfinished = (
            f"async observers have {waiting} events to see; end the test with `await bus.drain()`"
        )
        later = [failure for failure in self._heard.failures if failure[:2] in self._queued]
        cut_off = [
            f"handler {name!r} of {event!r}: was cut off by the end of its loop, which came "
            f"before {count} events were seen; end the test with `await bus.drain()`"
            for name, event, count in self._heard.cut_off
            if (name, event) in self._queued
        ]
        failures = [] if expected is None else [*self._failures, *later]
        problems = [
            f"handler {name!r} of {event!r}: {reason}"
            for name, event, reason in failures
            if name not in (expected or ())
        ]
        return problems + [ADVICE] * bool(problems) + cut_off + [unfinished] * bool(waiting)

    def close(self) -> None:
        """Close the bus, and let go of the log."""
        self._log.removeHandler(self._heard)
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
    def _in_thread(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Await *work* in a loop of its own, for one may run in this thread; but not for ever."""

        async def wait() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await work()

        thread = threading.Thread(target=asyncio.run, args=(wait(),))
        thread.start()
        thread.join()


class _Listener(logging.Handler):
    """Collects handler, event and reason of logged failures, or how many events were lost."""

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
                self.cut_off.append((str(handler), str(event), str(count)))

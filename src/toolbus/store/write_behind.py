"""A queue of ledger records, which are written to a store together with the next message."""

from __future__ import annotations

import logging
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolbus.tasks.shield import shield_until_done

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from toolbus.bus.ledger.records import DispatchRecord

logger = logging.getLogger("toolbus")

MAX_WAITING = 1_000
"""The most records that wait for a failing store."""


class WriteBehind:
    """The waiting records of a session: at most *limit*, or any number.

    One commit writes a message and all waiting records, so the ledger needs no commits of its own.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._waiting: deque[DispatchRecord] = deque(maxlen=limit)

    def add(self, record: DispatchRecord) -> None:
        """Queue *record* for the next write."""
        if len(self._waiting) == self._waiting.maxlen:
            logger.warning("a ledger record is lost: too many wait for the next message")
        self._waiting.append(record)

    @contextmanager
    def taking(self) -> Iterator[tuple[DispatchRecord, ...]]:
        """Return a context with the waiting records; if it fails, they are queued again."""
        # Another thread may add records meanwhile, which stay in the queue.
        records = tuple([self._waiting.popleft() for _ in range(len(self._waiting))])
        try:
            yield records
        except Exception:
            # A store that keeps failing must not fill the memory.
            self._waiting.extendleft(reversed(records[-MAX_WAITING:]))
            raise

    async def flush(self, write: Callable[[], Coroutine[None, None, None]], loss: str) -> None:
        """Call *write* if records wait; log a failure as *loss*."""
        if self._waiting:
            try:
                await shield_until_done(write)
            except Exception as error:  # noqa: BLE001 - the messages are safe
                logger.warning("ledger records of the session %s: %s", loss, error)

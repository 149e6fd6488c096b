"""Ledger records on their way into a store: they wait for a message to be written with."""

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
"""How many records wait at most for a store that fails."""


class WriteBehind:
    """The records of a session that no message has taken along yet; at most *limit*, or any number.

    One commit writes a message and all that wait, so the ledger costs no commits of its own.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._waiting: deque[DispatchRecord] = deque(maxlen=limit)

    def add(self, record: DispatchRecord) -> None:
        """Let *record* wait for the next write."""
        if len(self._waiting) == self._waiting.maxlen:
            logger.warning("a ledger record is lost: too many wait for the next message")
        self._waiting.append(record)

    @contextmanager
    def taking(self) -> Iterator[tuple[DispatchRecord, ...]]:
        """Take the waiting records, to be written inside; if that fails, they wait on."""
        # Another thread may dispatch, and so add, meanwhile: what is not taken waits on.
        records = tuple([self._waiting.popleft() for _ in range(len(self._waiting))])
        try:
            yield records
        except Exception:
            # Of a store that goes on failing, no more is kept than memory keeps anyway.
            self._waiting.extendleft(reversed(records[-MAX_WAITING:]))
            raise

    async def flush(self, write: Callable[[], Coroutine[None, None, None]], loss: str) -> None:
        """Have *write* take the waiting records, if any; a failure is only logged, as *loss*."""
        if self._waiting:
            try:
                await shield_until_done(write)
            except Exception as error:  # noqa: BLE001 - the messages are safe
                logger.warning("ledger records of the session %s: %s", loss, error)

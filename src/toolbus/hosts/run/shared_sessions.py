"""Sessions of several processes, such as a worker and its successor.

A component with the texts of a session in memory reads them again from the store after
another process has written to the session.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from toolbus.components.call_facts import SessionKeeper
    from toolbus.hosts.run.event_log import HookStore

_MOST = 1_000
"""The most sessions whose lengths are remembered; others are read again."""


class SharedSessions:
    """The lengths of the sessions in *store*, as this process knows them.

    The *keepers* forget a session whose stored length differs.
    """

    def __init__(self, store: HookStore, keepers: Sequence[SessionKeeper]) -> None:
        self._store, self._keepers = store, keepers
        self._lengths: OrderedDict[str, int] = OrderedDict()
        self._running = Counter[str]()

    @asynccontextmanager
    async def entered(self, *session_ids: str) -> AsyncIterator[None]:
        """Return a context for one event, whose view has the texts of these sessions."""
        for session_id in session_ids:
            await self._compare(session_id)
        self._running.update(session_ids)
        try:
            yield
        finally:
            self._running -= Counter(session_ids)

    def add(self, session_id: str, count: int) -> None:
        """Add the messages that this process has written to a session."""
        if session_id in self._lengths:
            self._lengths[session_id] += count

    async def _compare(self, session_id: str) -> None:
        length = await self._store.length(session_id)
        if self._lengths.get(session_id) == length:
            self._lengths.move_to_end(session_id)
            return
        for keeper in self._keepers:
            keeper.forget_session(session_id)
        # The messages of a running event are in memory only. Until it has ended, each event reads
        # the session again.
        if not self._running[session_id]:
            self._lengths[session_id] = length
            self._lengths.move_to_end(session_id)
            while len(self._lengths) > _MOST:
                self._lengths.popitem(last=False)

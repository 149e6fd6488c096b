"""The table of a relay's or bridge's sessions by id, with an idle timeout."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator


class ClientSession:
    """A session of an HTTP client; *id* is None until it is in a table."""

    id: Hashable | None = None
    users = 0
    """The number of open requests."""

    is_over = False
    """Whether the session accepts no more requests."""

    timer: asyncio.TimerHandle | None = None

    async def end(self, reason: str) -> None:
        """End the session; open requests are answered with *reason*."""
        raise NotImplementedError


S = TypeVar("S", bound=ClientSession)


class SessionTable(Generic[S]):
    """Sessions by id, each ended after *idle* seconds without a request.

    The id is the `Mcp-Session-Id` of MCP 2025-11-25, Transports, "Session Management", or a key for
    a stateless client.
    """

    def __init__(self, idle: float) -> None:
        self._idle = idle
        self._sessions: OrderedDict[Hashable, S] = OrderedDict()
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[S]:
        return iter(tuple(self._sessions.values()))

    def get(self, session_id: Hashable | None) -> S | None:
        """Return the session *session_id*, or None."""
        return None if session_id is None else self._sessions.get(session_id)

    def add(self, session_id: Hashable, session: S) -> None:
        """Add *session* under *session_id*."""
        session.id = session_id
        self._sessions[session_id] = session

    def remove(self, session: S) -> None:
        """Remove *session*, and mark it as over."""
        session.is_over = True
        if session.timer is not None:
            session.timer.cancel()
        if session.id is not None and self._sessions.get(session.id) is session:
            del self._sessions[session.id]

    @contextmanager
    def using(self, session: S) -> Iterator[None]:
        """Keep *session* from being idle in this block."""
        session.users += 1
        if session.timer is not None:
            session.timer.cancel()
        try:
            yield
        finally:
            session.users -= 1
            if session.id is not None and session.id in self._sessions:
                self._sessions.move_to_end(session.id)
            if not (session.users or session.is_over or session.id is None):
                loop = asyncio.get_running_loop()
                session.timer = loop.call_later(self._idle, self.end, session)

    def shrink(self, limit: int) -> None:
        """End the longest unused sessions beyond *limit*, except for sessions in use."""
        for session in self:
            if len(self._sessions) <= limit:
                break
            if not session.users:
                self.end(session)

    def end(self, session: S, reason: str = "the session has ended") -> None:
        """Remove *session*, and start its end, unless it is over."""
        if session.is_over:
            return
        self.remove(session)
        task = asyncio.create_task(session.end(reason))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self, reason: str) -> None:
        """End all sessions and wait for their end."""
        for session in self:
            self.end(session, reason)
        if self._ending:
            await asyncio.wait(self._ending)

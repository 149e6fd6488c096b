"""A store that lasts as long as the process."""

from __future__ import annotations

from itertools import count
from threading import Lock
from time import time_ns
from typing import TYPE_CHECKING, Self

from toolbus.errors import ClosedError, FreezeError, StoreError
from toolbus.messages.immutable import check_text
from toolbus.store.leases import Lease, check_position, running
from toolbus.store.memory_reader import MemoryReader, MemorySession
from toolbus.store.protocol import Position, SessionInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message
    from toolbus.store.protocol import Original, Stored


class MemoryStore:
    """Sessions in lists; *clock* returns nanoseconds since the epoch.

    >>> store = MemoryStore()
    >>> Agent(ScriptedModel(["hi"]), store=store, session_id="s1").run_sync("hello").text
    'hi'
    >>> [message.text for message in asyncio.run(store.read("s1"))]
    ['hello', 'hi']
    """

    durable = False

    def __init__(self, *, clock: Callable[[], int] = time_ns) -> None:
        self._clock, self._closed, self._changes = clock, False, 0
        self._sessions: dict[str, MemorySession] = {}
        self._keys = count(1)
        self._leases: dict[str, Lease] = {}
        self._lock = Lock()

    async def open_session(self, session_id: str, holder: str, seconds: float) -> Position:
        """Make *holder* the session's writer, under a new epoch; return where it stands."""
        now, _ = self._clock(), self._opened()
        with self._lock:
            lease = self._lease(session_id)
            if lease.keeps_out(holder, now):
                raise running(session_id)
            until = now + round(seconds * 1e9)
            self._leases[session_id] = Lease(lease.epoch + 1, holder, until_ns=until)
            return self._position(session_id)

    async def extend_lease(self, session_id: str, holder: str, seconds: float) -> None:
        """Let the lease of *holder* end in *seconds*, with 0 at once."""
        until, _ = self._clock() + round(seconds * 1e9), self._opened()
        with self._lock:
            lease = self._lease(session_id)
            if lease.holder == holder:
                self._leases[session_id] = lease._replace(until_ns=until)

    async def append(self, session_id: str, stored: Stored) -> None:
        """Add *stored* to the end of the session."""
        with self._lock:
            self._append(session_id, stored)

    def _append(self, session_id: str, stored: Stored) -> None:
        now, _ = self._clock(), self._opened()
        check_position(session_id, stored.at, self._position(session_id))
        now = now if stored.written_ns is None else stored.written_ns
        session = self._session(session_id, now)
        session.updated_ns = max(session.updated_ns, now)
        session.add(stored, self._keys)
        self._changes += 1

    async def read(self, session_id: str) -> tuple[Message, ...]:
        """Return the messages of the session, in order."""
        session = self._opened().get(session_id)
        return () if session is None else tuple([row.message for row in tuple(session.messages)])

    async def sessions(self) -> tuple[SessionInfo, ...]:
        """Return all sessions, the oldest first."""
        # A thread may add a session while this one counts: `list` takes a copy in one step.
        sessions = list(self._opened().values())
        return tuple(
            [
                SessionInfo(
                    id=session.id,
                    messages=len(session.messages),
                    created_ns=session.created_ns,
                    updated_ns=session.updated_ns,
                )
                for session in sessions
            ]
        )

    async def records(self, session_id: str) -> tuple[DispatchRecord, ...]:
        """Return the ledger records of the session, in order."""
        session = self._opened().get(session_id)
        return () if session is None else session.records()

    async def originals(self, session_id: str) -> tuple[Original, ...]:
        """Return the values that the session kept, by their digests."""
        session = self._opened().get(session_id)
        originals = {} if session is None else session.originals
        return tuple([originals[digest] for digest in sorted(originals)])

    async def forget_originals(self, session_id: str) -> int:
        """Delete the values that the session kept; return how many there were."""
        session = self._opened().get(session_id)
        if session is None:
            return 0
        deleted, session.originals = session.originals, {}
        return len(deleted)

    async def forget_states(self, session_id: str) -> int:
        """Delete what components keep for the session; return how many there were."""
        session = self._opened().get(session_id)
        if session is None:
            return 0
        with self._lock:
            deleted, session.states = session.states, {}
        return len(deleted)

    async def forget_sessions(self, before_ns: int, limit: int = 100) -> tuple[str, ...]:
        """Delete sessions that were last written before *before_ns*; return their ids."""
        now, sessions = self._clock(), self._opened()
        with self._lock:
            old = [
                session_id
                for session_id, session in sessions.items()
                if session.updated_ns < before_ns and self._lease(session_id).until_ns <= now
            ][:limit]
            for session_id in old:
                del sessions[session_id]
                self._leases.pop(session_id, None)
        return tuple(old)

    async def read_state(self, session_id: str, name: str) -> bytes | None:
        """Return the JSON that is kept for the session under *name*, or None."""
        session = self._opened().get(session_id)
        return None if session is None else session.states.get(name)

    async def swap_state(
        self,
        session_id: str,
        name: str,
        old: bytes | None,
        new: bytes | None,
        *,
        written_ns: int | None = None,
    ) -> bool:
        """Put *new* where *old* stands; return False if something else stands there."""
        now, sessions = self._clock(), self._opened()
        now = now if written_ns is None else written_ns
        with self._lock:
            session = sessions.get(session_id)
            if old != (None if session is None else session.states.get(name)):
                return False
            if new is not None:
                session = self._session(session_id, now)
                session.states[name] = new
            elif session is not None:
                session.states.pop(name, None)
            if session is not None:
                session.updated_ns = max(session.updated_ns, now)
        return True

    def discard_session(self, session_id: str) -> None:
        """Forget all of the session, which nobody will use again."""
        with self._lock:
            self._sessions.pop(session_id, None)

    def reader(self) -> MemoryReader:
        """Return a reader of what is kept here."""
        return MemoryReader(self._opened(), lambda: self._changes)

    async def close(self) -> None:
        """Forget everything."""
        self._closed = True
        self._sessions.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _lease(self, session_id: str) -> Lease:
        return self._leases.get(session_id, Lease())

    def _position(self, session_id: str) -> Position:
        session = self._sessions.get(session_id)
        length = 0 if session is None else len(session.messages)
        return Position(self._lease(session_id).epoch, length)

    def _session(self, session_id: str, now_ns: int) -> MemorySession:
        """Return a session, which is made if it is not there."""
        if session_id not in self._sessions:
            try:
                check_text(session_id, "session_id")
            except FreezeError as error:
                raise StoreError("memory", f"{error}; give another id") from error
            self._sessions[session_id] = MemorySession(next(self._keys), session_id, now_ns)
        return self._sessions[session_id]

    def _opened(self) -> dict[str, MemorySession]:
        if self._closed:
            raise ClosedError("the memory store")
        return self._sessions

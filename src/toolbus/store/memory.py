"""A store in memory, which lasts as long as the process, and its reader."""

from __future__ import annotations

from itertools import count
from math import inf
from threading import Lock
from time import time_ns
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from toolbus.errors import ClosedError, FreezeError, StoreError
from toolbus.messages.immutable import check_text
from toolbus.store.jobs import OpenSessionJob
from toolbus.store.leases import Lease, check_position
from toolbus.store.protocol import Original, Position
from toolbus.store.store_reader import (
    MessageRow,
    RecordBatch,
    SessionRow,
    StateRow,
    StoreFacts,
    StoreReader,
    whole_messages,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message
    from toolbus.store.protocol import AppendRequest, SessionInfo


class MemorySession(Struct):
    """The contents of one session, in lists that only grow, so that readers need no lock."""

    key: int
    id: str
    created_ns: int
    updated_ns: int
    records: int = 0
    messages: list[MessageRow] = []
    batches: list[RecordBatch] = []
    originals: dict[str, Original] = {}
    states: dict[str, bytes] = {}

    def add(self, request: AppendRequest, keys: Iterator[int]) -> None:
        """Add the messages, records and originals of *request*; *keys* gives keys of messages."""
        first = len(self.messages) + 1
        rows = [
            MessageRow(next(keys), self.key, seq, message.id, message)
            for seq, message in enumerate(request.messages, first)
        ]
        if request.records:
            place = rows[-1].seq if rows else first
            seq = self.records + 1
            self.batches.append(RecordBatch(self.key, place, seq, bool(rows), request.records))
            self.records += len(request.records)
        for original in request.originals:
            self.originals.setdefault(original.digest, original)
        self.messages += rows

    def sorted_originals(self) -> tuple[Original, ...]:
        """Return the original values, sorted by digest."""
        return tuple([original for _, original in sorted(self.originals.copy().items())])

    def row(self) -> SessionRow:
        """Return the row of the session for readers."""
        counts = (len(self.messages), self.records)
        times = (self.created_ns, self.updated_ns)
        return SessionRow(self.key, self.id, *counts, *times, bool(self.originals))


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
        """Make *holder* the session's writer, under a new epoch; return the session's position."""
        with self._lock:
            self._check_open()
            opening = OpenSessionJob(session_id, holder, seconds)
            self._leases[session_id] = self._lease(session_id).taken(opening, "", self._clock())
            return self._position(session_id)

    async def extend_lease(self, session_id: str, holder: str, seconds: float) -> None:
        """Let the lease of *holder* end in *seconds*, with 0 at once."""
        with self._lock:
            self._check_open()
            if (lease := self._leases.get(session_id)) is not None:
                self._leases[session_id] = lease.extended(holder, seconds, self._clock())

    async def append(self, session_id: str, request: AppendRequest) -> None:
        """Add *request* to the end of the session."""
        with self._lock:
            self._check_open()
            check_position(session_id, request.at, self._position(session_id))
            self._touched(session_id, request.written_ns).add(request, self._keys)

    async def read(self, session_id: str) -> tuple[Message, ...]:
        """Return the messages of the session, in order."""
        session = self._session(session_id)
        return () if session is None else whole_messages(list(session.messages), session_id)

    async def sessions(self) -> tuple[SessionInfo, ...]:
        """Return all sessions, the oldest first."""
        with self.reader() as reader:
            return tuple([row.info for row in reader.sessions()])

    async def records(self, session_id: str) -> tuple[DispatchRecord, ...]:
        """Return the ledger records of the session, in order."""
        session = self._session(session_id)
        batches = () if session is None else tuple(session.batches)
        return tuple([record for batch in batches for record in batch.records])

    async def originals(self, session_id: str) -> tuple[Original, ...]:
        """Return the original values of the session, sorted by digest."""
        session = self._session(session_id)
        return () if session is None else session.sorted_originals()

    async def forget_originals(self, session_id: str) -> int:
        """Delete the original values of the session; return their number."""
        session = self._session(session_id)
        return 0 if session is None else self._clear(session.originals)

    async def forget_states(self, session_id: str) -> int:
        """Delete the states of the session; return their number."""
        session = self._session(session_id)
        return 0 if session is None else self._clear(session.states)

    async def forget_sessions(self, before_ns: int, limit: int = 100) -> tuple[str, ...]:
        """Delete sessions that were last written before *before_ns*; return their ids."""
        with self._lock:
            self._check_open()
            now_ns = self._clock()
            old = [
                session.id
                for session in self._sessions.values()
                if session.updated_ns < before_ns and self._lease(session.id).until_ns <= now_ns
            ][:limit]
            for session_id in old:
                del self._sessions[session_id]
                self._leases.pop(session_id, None)
            return tuple(old)

    def discard_session(self, session_id: str) -> None:
        """Delete the whole session, which must not be in use."""
        with self._lock:
            self._sessions.pop(session_id, None)

    async def read_state(self, session_id: str, name: str) -> bytes | None:
        """Return the session's state *name*, as JSON; None if there is none."""
        session = self._session(session_id)
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
        """Replace the state *name* by *new* if it equals *old*; return whether it did."""
        with self._lock:
            session = self._session(session_id)
            if old != (session.states.get(name) if session else None):
                return False
            if new is not None:
                self._touched(session_id, written_ns).states[name] = new
            elif session is not None:
                session.states.pop(name, None)
            return True

    def reader(self) -> MemoryReader:
        """Return a reader of the sessions."""
        self._check_open()
        return MemoryReader(self._sessions, lambda: self._changes)

    async def close(self) -> None:
        """Close the store and delete its sessions."""
        self._closed = True
        self._sessions.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the memory store")

    def _session(self, session_id: str) -> MemorySession | None:
        self._check_open()
        return self._sessions.get(session_id)

    def _clear(self, values: dict[str, Any]) -> int:
        with self._lock:
            number = len(values)
            values.clear()
        return number

    def _lease(self, session_id: str) -> Lease:
        return self._leases.get(session_id, Lease())

    def _position(self, session_id: str) -> Position:
        session, lease = self._sessions.get(session_id), self._leases.get(session_id)
        length = 0 if session is None else len(session.messages)
        return Position(0 if lease is None else lease.epoch, length)

    def _touched(self, session_id: str, written_ns: int | None) -> MemorySession:
        """Return the session, created if necessary, with the time of its last write updated."""
        now_ns = self._clock() if written_ns is None else written_ns
        session = self._sessions.get(session_id)
        if session is None:
            try:
                check_text(session_id, "session_id")
            except FreezeError as error:
                raise StoreError("memory", f"{error}; give another id") from error
            session = MemorySession(next(self._keys), session_id, now_ns, now_ns)
            self._sessions[session_id] = session
        session.updated_ns = max(session.updated_ns, now_ns)
        self._changes += 1
        return session


class MemoryReader(StoreReader):
    """A reader of the *sessions* of a memory store."""

    def __init__(self, sessions: Mapping[str, MemorySession], changes: Callable[[], int]) -> None:
        self._sessions, self._changes = sessions, changes

    @property
    def changes(self) -> int:
        """A number that differs after each write."""
        return self._changes()

    def sessions(self) -> Iterator[SessionRow]:
        """Yield all sessions, the oldest first."""
        # Another thread may add a session meanwhile: `list` copies atomically.
        return iter([session.row() for session in list(self._sessions.values())])

    def session(self, session_id: str) -> SessionRow | None:
        """Return the session with exactly this id; None if there is none."""
        session = self._sessions.get(session_id)
        return None if session is None else session.row()

    def messages(self, session: int, after: int = 0) -> Iterator[MessageRow]:
        """Yield the messages of a session after number *after*, in order."""
        return iter([row for each in self._of(session) for row in each.messages[after:]])

    def record_batches(
        self, session: int, after: int = 0, to: int | None = None
    ) -> Iterator[RecordBatch]:
        """Yield the records of a session in the order of writing."""
        batches = [batch for each in self._of(session) for batch in tuple(each.batches)]
        end = inf if to is None else to
        return iter([batch for batch in batches if after < batch.message_seq <= end])

    def originals(self, session: int) -> Iterator[Original]:
        """Yield the original values of the session, sorted by digest."""
        return iter([value for each in self._of(session) for value in each.sorted_originals()])

    def states(self, session: int) -> Iterator[StateRow]:
        """Yield the states of the session, sorted by name."""
        states = [item for each in self._of(session) for item in dict(each.states).items()]
        return iter([StateRow(name, body) for name, body in sorted(states)])

    def facts(self) -> StoreFacts:
        """Return empty facts: memory has no structure to check."""
        return StoreFacts(0)

    def close(self) -> None:
        """Do nothing."""

    def _of(self, key: int) -> list[MemorySession]:
        """Return the session of *key*, none if there is none."""
        return [session for session in list(self._sessions.values()) if session.key == key]

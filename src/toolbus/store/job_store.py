"""The base of stores whose verbs are jobs of a writer and queries to a reader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

from toolbus.store.jobs import Append, Extend, Forget, ForgetSessions, Open, Swap
from toolbus.store.protocol import Original, Position, SessionInfo, Stored
from toolbus.store.reading import StoreReader, whole, whole_messages

if TYPE_CHECKING:
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message
    from toolbus.store.jobs import Job

T = TypeVar("T")
Query: TypeAlias = Callable[[StoreReader], T]


class JobStore(ABC):
    """The verbs of a store; a subclass does the jobs that they are, and answers their queries."""

    durable: bool

    @abstractmethod
    async def _write(self, job: Job) -> Any:
        """Do *job*, and return its result."""

    @abstractmethod
    async def _query(self, query: Query[T]) -> T:
        """Return the answer of *query* to a reader of the store."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what was begun and let go of everything."""

    async def open_session(self, session_id: str, holder: str, seconds: float) -> Position:
        """Make *holder* the session's writer, under a new epoch; return where it stands."""
        position: Position = await self._write(Open(session_id, holder, seconds))
        return position

    async def extend_lease(self, session_id: str, holder: str, seconds: float) -> None:
        """Let the lease of *holder* end in *seconds*, with 0 at once."""
        await self._write(Extend(session_id, holder, seconds))

    async def append(self, session_id: str, stored: Stored) -> None:
        """Add *stored* to the end of the session."""
        await self._write(Append(session_id, stored))

    async def read(self, session_id: str) -> tuple[Message, ...]:
        """Return the messages of the session, in order."""
        return await self._read_after(session_id, 0)

    async def sessions(self) -> tuple[SessionInfo, ...]:
        """Return all sessions, the oldest first."""
        return await self._query(_sessions)

    async def records(self, session_id: str) -> tuple[DispatchRecord, ...]:
        """Return the ledger records of the session, in order."""
        return await self._query(partial(_records, session_id))

    async def originals(self, session_id: str) -> tuple[Original, ...]:
        """Return the values that the session kept, by their digests."""
        return await self._query(partial(_originals, session_id))

    async def forget_originals(self, session_id: str) -> int:
        """Delete the values that the session kept; return how many."""
        count: int = await self._write(Forget(session_id, "originals"))
        return count

    async def forget_states(self, session_id: str) -> int:
        """Delete what components keep for the session; return how many values."""
        count: int = await self._write(Forget(session_id, "states"))
        return count

    async def forget_sessions(self, before_ns: int, limit: int = 100) -> tuple[str, ...]:
        """Delete sessions that were last written before *before_ns*; return their ids."""
        ids: tuple[str, ...] = await self._write(ForgetSessions(before_ns, limit))
        return ids

    async def read_state(self, session_id: str, name: str) -> bytes | None:
        """Return the JSON that is kept for the session under *name*, or None."""
        return await self._query(partial(read_state, session_id, name))

    async def swap_state(
        self,
        session_id: str,
        name: str,
        old: bytes | None,
        new: bytes | None,
        *,
        written_ns: int | None = None,
    ) -> bool:
        """Put *new* where *old* stands; return False if another value stands there."""
        is_swapped: bool = await self._write(Swap(session_id, name, old, new, written_ns))
        return is_swapped

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _read_after(self, session_id: str, number: int) -> tuple[Message, ...]:
        return await self._query(partial(_messages, session_id, number))


def _messages(session_id: str, after: int, reader: StoreReader) -> tuple[Message, ...]:
    session = reader.session(session_id)
    rows = () if session is None else reader.messages(session.key, after)
    return whole_messages(rows, session_id)


def _records(session_id: str, reader: StoreReader) -> tuple[DispatchRecord, ...]:
    session = reader.session(session_id)
    pages = () if session is None else reader.pages(session.key)
    return tuple([record for page in pages for record in whole(page, session_id).records])


def _originals(session_id: str, reader: StoreReader) -> tuple[Original, ...]:
    session = reader.session(session_id)
    return () if session is None else tuple(reader.originals(session.key))


def read_state(session_id: str, name: str, reader: StoreReader) -> bytes | None:
    """Return the JSON of the state *name*, or None; raises `DecodeError` if it is damaged."""
    state = reader.state(session_id, name)
    return None if state is None else whole(state, session_id).body


def _sessions(reader: StoreReader) -> tuple[SessionInfo, ...]:
    return tuple(
        [
            SessionInfo(
                id=row.id,
                messages=row.messages,
                created_ns=row.created_ns,
                updated_ns=row.updated_ns,
            )
            for row in reader.sessions()
        ]
    )

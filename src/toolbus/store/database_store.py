"""The base of stores in a database: one thread writes, another one reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

from toolbus.errors import ClosedError, DecodeError, StoreError
from toolbus.store.jobs import Append, Extend, Forget, ForgetSessions, Open, Swap
from toolbus.store.protocol import Original, Position, SessionInfo, Stored
from toolbus.store.reading import StateRow, StoreReader, whole, whole_messages

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message
    from toolbus.store.jobs import Job
    from toolbus.store.worker import Worker

T = TypeVar("T")

MAX_BATCH = 512
"""How many writes share a commit at most."""


class DatabaseReader(StoreReader, Protocol):
    """The reader that a store in a database has for itself."""

    def snapshot(self) -> AbstractContextManager[object]:
        """Show one state of the store inside, whatever is written meanwhile."""
        ...

    def state(self, session_id: str, name: str) -> StateRow | None:
        """Return the state *name* of the session; None if there is none."""
        ...


Query: TypeAlias = Callable[[DatabaseReader], T]


def answer_queries(reader: DatabaseReader, queries: Sequence[Query[Any]]) -> list[Any]:
    """Return the answer of *reader* to each query: the work of the thread that reads."""
    with reader.snapshot():
        return [query(reader) for query in queries]


class DatabaseStore:
    """Sessions in the database *where*: *writer* does jobs in its thread, *reader* queries.

    Without a *writer* the store is read-only. *clock* returns nanoseconds since the epoch.
    """

    durable = True

    def __init__(
        self,
        where: str,
        clock: Callable[[], int],
        reader: Worker[Query[Any], Any],
        writer: Worker[Any, Any] | None,
    ) -> None:
        self._where, self._clock = where, clock
        self._reader, self._writer = reader, writer

    async def open_session(self, session_id: str, holder: str, seconds: float) -> Position:
        """Make *holder* the session's writer, under a new epoch; return where it stands."""
        now = self._clock()
        position: Position = await self._write(Open(session_id, holder, now, _later(now, seconds)))
        return position

    async def extend_lease(self, session_id: str, holder: str, seconds: float) -> None:
        """Let the lease of *holder* end in *seconds*, with 0 at once."""
        await self._write(Extend(_later(self._clock(), seconds), session_id, holder))

    async def append(self, session_id: str, stored: Stored) -> None:
        """Add *stored* to the end of the session; it survives the process once this returns."""
        written_ns = self._clock() if stored.written_ns is None else stored.written_ns
        await self._write(Append(session_id, written_ns, stored))

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
        count: int = await self._write(Forget(session_id))
        return count

    async def forget_states(self, session_id: str) -> int:
        """Delete what components keep for the session; return how many values."""
        count: int = await self._write(Forget(session_id, "states"))
        return count

    async def forget_sessions(self, before_ns: int, limit: int = 100) -> tuple[str, ...]:
        """Delete sessions that were last written before *before_ns*; return their ids."""
        ids: tuple[str, ...] = await self._write(ForgetSessions(before_ns, self._clock(), limit))
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
        now = self._clock() if written_ns is None else written_ns
        is_swapped: bool = await self._write(Swap(session_id, name, now, old, new))
        return is_swapped

    async def close(self) -> None:
        """Wait for the writes that were begun, then let go of the database."""
        await self._reader.close()
        if self._writer:
            await self._writer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._reader.is_closed:
            raise ClosedError(f"store {self._where!r}")

    async def _write(self, job: Job) -> Any:
        if self._writer is None:
            raise StoreError(self._where, "it was opened for reading; leave out `read_only=True`")
        return await self._writer.submit(job)

    async def _read_after(self, session_id: str, number: int) -> tuple[Message, ...]:
        return await self._query(partial(_messages, session_id, number))

    async def _query(self, query: Query[T], reader: Worker[Query[Any], Any] | None = None) -> T:
        try:
            answer: T = await (reader or self._reader).submit(query)
        except DecodeError as error:
            raise StoreError(self._where, str(error)) from error
        return answer


def _later(now_ns: int, seconds: float) -> int:
    return now_ns + round(seconds * 1e9)


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


def read_state(session_id: str, name: str, reader: DatabaseReader) -> bytes | None:
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

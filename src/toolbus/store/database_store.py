"""The base class of stores in a database: one thread writes, another reads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

from toolbus.errors import ClosedError, DecodeError, StoreError
from toolbus.store.jobs import (
    AppendJob,
    ExtendLeaseJob,
    ForgetRowsJob,
    ForgetSessionsJob,
    OpenSessionJob,
    SwapStateJob,
)
from toolbus.store.store_reader import whole, whole_messages
from toolbus.store.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message
    from toolbus.store.jobs import Job
    from toolbus.store.protocol import AppendRequest, Original, Position, SessionInfo
    from toolbus.store.sql_reader import SqlReader

T = TypeVar("T")
SqlQuery: TypeAlias = "Callable[[SqlReader], T]"

_MAX_BATCH = 512
"""The most writes of one commit."""


class DatabaseWrites(Protocol):
    """The work of the writing thread; *commits* is the number of its transactions."""

    commits: int

    def serve(self, jobs: Sequence[Any]) -> Sequence[Any]:
        """Do *jobs*; return the result or the error of each."""
        ...

    def close(self) -> None:
        """Close the connection to the database."""


class DatabaseStore:
    """Sessions in the database *where*: one thread does jobs by *writes*, another queries *reads*.

    Without *writes* the store is read-only. Subclasses have *reader*, a method that opens one more.
    """

    durable = True
    reader: Callable[[], SqlReader]

    def __init__(self, where: str, reads: SqlReader, writes: DatabaseWrites | None) -> None:
        self._where, self._writes, self._writer = where, writes, None
        self._reader = self._state_reader = self._read_worker(reads)
        if writes:
            name = f"store {where!r}"
            self._writer = Worker(name, writes.serve, writes.close, limit=_MAX_BATCH)

    @property
    def commits(self) -> int:
        """The number of transactions that this store has committed."""
        return self._writes.commits if self._writes else 0

    async def open_session(self, session_id: str, holder: str, seconds: float) -> Position:
        """Make *holder* the session's writer, under a new epoch; return the session's position."""
        position: Position = await self._write(OpenSessionJob(session_id, holder, seconds))
        return position

    async def extend_lease(self, session_id: str, holder: str, seconds: float) -> None:
        """Let the lease of *holder* end in *seconds*, with 0 at once."""
        await self._write(ExtendLeaseJob(session_id, holder, seconds))

    async def append(self, session_id: str, request: AppendRequest) -> None:
        """Add *request* to the end of the session."""
        await self._write(AppendJob(session_id, request))

    async def read(self, session_id: str) -> tuple[Message, ...]:
        """Return the messages of the session, in order."""
        return await self._read_after(session_id, 0)

    async def sessions(self) -> tuple[SessionInfo, ...]:
        """Return all sessions, the oldest first."""
        return await self._query(lambda reader: tuple([row.info for row in reader.sessions()]))

    async def records(self, session_id: str) -> tuple[DispatchRecord, ...]:
        """Return the ledger records of the session, in order."""

        def query(reader: SqlReader) -> tuple[DispatchRecord, ...]:
            session = reader.session(session_id)
            batches = () if session is None else reader.record_batches(session.key)
            return tuple(
                [record for batch in batches for record in whole(batch, session_id).records]
            )

        return await self._query(query)

    async def originals(self, session_id: str) -> tuple[Original, ...]:
        """Return the original values of the session, sorted by digest."""

        def query(reader: SqlReader) -> tuple[Original, ...]:
            session = reader.session(session_id)
            return () if session is None else tuple(reader.originals(session.key))

        return await self._query(query)

    async def forget_originals(self, session_id: str) -> int:
        """Delete the original values of the session; return their number."""
        return int(await self._write(ForgetRowsJob(session_id, "originals")))

    async def forget_states(self, session_id: str) -> int:
        """Delete the states of the session; return their number."""
        return int(await self._write(ForgetRowsJob(session_id, "states")))

    async def forget_sessions(self, before_ns: int, limit: int = 100) -> tuple[str, ...]:
        """Delete sessions that were last written before *before_ns*; return their ids."""
        return tuple(await self._write(ForgetSessionsJob(before_ns, limit)))

    async def read_state(self, session_id: str, name: str) -> bytes | None:
        """Return the session's state *name*, as JSON; None if there is none."""

        def query(reader: SqlReader) -> bytes | None:
            state = reader.state(session_id, name)
            return None if state is None else whole(state, session_id).body

        return await self._query(query, self._state_reader)

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
        return bool(await self._write(SwapStateJob(session_id, name, old, new, written_ns)))

    async def close(self) -> None:
        """Wait for pending writes, then close the connections to the database."""
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
            raise StoreError(self._where, "the store is read-only; leave out `read_only=True`")
        return await self._writer.submit(job)

    async def _read_after(self, session_id: str, number: int) -> tuple[Message, ...]:
        def query(reader: SqlReader) -> tuple[Message, ...]:
            session = reader.session(session_id)
            rows = () if session is None else reader.messages(session.key, number)
            return whole_messages(rows, session_id)

        return await self._query(query)

    async def _query(
        self, query: SqlQuery[T], reader: Worker[SqlQuery[Any], Any] | None = None
    ) -> T:
        try:
            answer: T = await (reader or self._reader).submit(query)
        except DecodeError as error:
            raise StoreError(self._where, str(error)) from error
        return answer

    def _read_worker(self, reads: SqlReader) -> Worker[SqlQuery[Any], Any]:
        return Worker(f"store {self._where!r}", partial(_answer_queries, reads), reads.close)


def _answer_queries(reader: SqlReader, queries: Sequence[SqlQuery[Any]]) -> list[Any]:
    """Return the result of each query on *reader*: the work of the reading thread."""
    with reader.snapshot():
        return [query(reader) for query in queries]

"""A store on a PostgreSQL server: one commit for all who wait, and one place for many machines."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from toolbus.errors import ClosedError, StoreError
from toolbus.store.jobs import Append, Extend, Forget, ForgetSessions, JobResult, Open, Swap
from toolbus.store.postgres import pg_reads
from toolbus.store.postgres.addresses import parse_address
from toolbus.store.postgres.connection import Watchdog
from toolbus.store.postgres.following import follow_messages
from toolbus.store.postgres.pg_reads import PgQuery, PostgresReads
from toolbus.store.postgres.pg_writes import PostgresWrites
from toolbus.store.postgres.reader import TIMEOUT, PostgresReader
from toolbus.store.protocol import Original, Position, SessionInfo
from toolbus.store.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message
    from toolbus.store.postgres.batches import PgJob
    from toolbus.store.postgres.tables import Period
    from toolbus.store.protocol import Stored

T = TypeVar("T")

_BATCH = 512
"""How many appends share a commit at most."""


class PostgresStore:
    """Sessions in the database at *address*: `postgresql://USER@HOST/DATABASE` or `service=NAME`.

    The schema `toolbus` is made if it is not there, with *partitions* in such that hold the
    sessions of a day or a month. With *read_only* nothing is written, appending raises, and the
    role need not be able to. *timeout* is how many seconds are waited for a lock, a statement and
    a server that is gone. *clock* returns nanoseconds since the epoch; None is the server's, which
    is one for all machines. Raises `StoreError` for what cannot be a store, and leaves it as it is.

    >>> store = PostgresStore("service=agents")
    >>> agent = Agent(ScriptedModel(["hi"]), store=store, session_id="s1")
    """

    durable = True

    def __init__(
        self,
        address: str,
        *,
        read_only: bool = False,
        timeout: float = TIMEOUT,
        partitions: Period | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._address, self._timeout = parse_address(address), timeout
        self._watchdog, self._clock = Watchdog(), clock
        self._writes: PostgresWrites | None = None
        with ExitStack() as opened:
            opened.callback(self._watchdog.close)
            if read_only:
                PostgresReader(self._address, timeout=timeout).close()
            else:
                self._writes = PostgresWrites(self._address, timeout, self._watchdog)
                opened.callback(self._writes.close)
                self._writes.prepare(partitions)
            opened.pop_all()
        name = f"store {self._address.label!r}"
        # Two, for what is small shall not wait for a session of a gigabyte.
        self._reader, self._state_reader = self._read_worker(name), self._read_worker(name)
        self._writer: Worker[PgJob, JobResult] | None = None
        if self._writes:
            write, end = self._writes.serve, self._writes.close
            self._writer = Worker(name, write, end, limit=_BATCH)

    def __repr__(self) -> str:
        return f"PostgresStore({self._address.label!r})"

    @property
    def commits(self) -> int:
        """How many transactions with messages, leases or state this store has written."""
        return self._writes.commits if self._writes else 0

    async def open_session(self, session_id: str, holder: str, seconds: float) -> Position:
        """Make *holder* the session's writer, under a new epoch; return where it stands."""
        now = self._now()
        stands = await self._write(Open(session_id, holder, now, now + round(seconds * 1e9)))
        assert isinstance(stands, Position)  # noqa: S101 - it is what such a job answers
        return stands

    async def extend_lease(self, session_id: str, holder: str, seconds: float) -> None:
        """Let the lease of *holder* end in *seconds*, with 0 at once."""
        await self._write(Extend(self._now() + round(seconds * 1e9), session_id, holder))

    async def append(self, session_id: str, stored: Stored) -> None:
        """Add *stored* to the end of the session; it survives the server once this returns.

        A connection that is lost amid the commit is made again, and the server asked what became
        of it: it is written once. If that cannot be found out, `StoreError` says so.
        """
        written_ns = self._now() if stored.written_ns is None else stored.written_ns
        await self._write(Append(session_id, written_ns, stored))

    async def read(self, session_id: str) -> tuple[Message, ...]:
        """Return the messages of the session, in order."""
        return await self._query(partial(pg_reads.read_messages, session_id))

    async def sessions(self) -> tuple[SessionInfo, ...]:
        """Return all sessions, the oldest first."""
        return await self._query(pg_reads.read_sessions)

    async def records(self, session_id: str) -> tuple[DispatchRecord, ...]:
        """Return the ledger records of the session, in order."""
        return await self._query(partial(pg_reads.read_records, session_id))

    async def originals(self, session_id: str) -> tuple[Original, ...]:
        """Return the values that the session kept, by their digests."""
        return await self._query(partial(pg_reads.read_originals, session_id))

    async def forget_originals(self, session_id: str) -> int:
        """Delete the values that the session kept; return how many.

        No statement finds them any more; the server overwrites its files in its own time.
        """
        count = await self._write(Forget(session_id))
        return count if isinstance(count, int) else 0

    async def forget_states(self, session_id: str) -> int:
        """Delete what components keep for the session, as `forget_originals`."""
        count = await self._write(Forget(session_id, "states"))
        return count if isinstance(count, int) else 0

    async def forget_sessions(self, before_ns: int, limit: int = 100) -> tuple[str, ...]:
        """Delete sessions last written before *before_ns*, and partitions that are empty then."""
        ids = await self._write(ForgetSessions(before_ns, self._now(), limit))
        return ids if isinstance(ids, tuple) else ()

    async def read_state(self, session_id: str, name: str) -> bytes | None:
        """Return the JSON that is kept for the session under *name*, or None."""
        query = partial(pg_reads.read_state, session_id, name)
        state: bytes | None = await self._state_reader.submit(query)
        return state

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
        now = self._now() if written_ns is None else written_ns
        return bool(await self._write(Swap(session_id, name, now, old, new)))

    def follow(self, session_id: str, after: int = 0) -> AsyncGenerator[Message, None]:
        """Give the messages of the session behind the number *after*, also those still to come.

        It ends when it is closed. It has a connection of its own, which may only read.
        """
        if self._reader.is_closed:
            raise ClosedError(f"store {self._address.label!r}")
        read = partial(pg_reads.read_messages, session_id)
        return follow_messages(
            self._address, session_id, after, lambda seq: self._query(partial(read, after=seq))
        )

    def reader(self) -> PostgresReader:
        """Return a reader of the database, with a connection of its own."""
        if self._reader.is_closed:
            raise ClosedError(f"store {self._address.label!r}")
        return PostgresReader(self._address, timeout=self._timeout)

    async def close(self) -> None:
        """Wait for the appends that were begun, then let go of the connections."""
        await self._reader.close()
        await self._state_reader.close()
        if self._writer:
            await self._writer.close()
        self._watchdog.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _now(self) -> int:
        """Return what the clock says; 0 is now, as the server will say when it is done."""
        return 0 if self._clock is None else self._clock()

    def _read_worker(self, name: str) -> Worker[PgQuery[Any], Any]:
        reads = PostgresReads(self._address, self._timeout, self._watchdog)
        return Worker(name, reads.serve, reads.close)

    async def _write(self, job: PgJob) -> JobResult:
        if self._writer is None:
            where = self._address.label
            raise StoreError(where, "it was opened for reading; leave out `read_only=True`")
        return await self._writer.submit(job)

    async def _query(self, query: PgQuery[T]) -> T:
        answer: T = await self._reader.submit(query)
        return answer

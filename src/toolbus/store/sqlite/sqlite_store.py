"""A store on disk: one SQLite file, one writer thread, and one commit for all who wait."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING, Any, Self, TypeVar

from toolbus.errors import ClosedError, StoreError
from toolbus.store import rows
from toolbus.store.jobs import (
    Append,
    AppendOnce,
    Extend,
    Forget,
    ForgetSessions,
    Job,
    JobResult,
    Open,
    Swap,
)
from toolbus.store.protocol import Original, Position, SessionInfo, Stored
from toolbus.store.sqlite import schema
from toolbus.store.sqlite.files import (
    ChangeDetector,
    check_contents,
    checked_path,
    connect,
    create_private,
    reading_mode,
)
from toolbus.store.sqlite.sqlite_errors import failure_of, wrap_errors
from toolbus.store.sqlite.sqlite_reader import SqliteReader
from toolbus.store.sqlite.writes import Writes
from toolbus.store.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message

T = TypeVar("T")

Query = Callable[[sqlite3.Connection], T]

_BATCH = 512
"""How many appends share a commit at most."""


class SqliteStore:
    """Sessions in the SQLite file *path*, which is made if it is not there.

    Several stores, also of several processes, may share a file: each waits up to *timeout*
    seconds for the others' writes. With *read_only* nothing is written and appending raises.
    *clock* returns nanoseconds since the epoch. Raises `StoreError` for a file that cannot be
    a store, and leaves it as it is.

    >>> async def main():
    ...     async with SqliteStore("agent.db") as store:
    ...         return await store.sessions()
    >>> asyncio.run(main())
    ()
    """

    durable = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        timeout: float = 5.0,
        clock: Callable[[], int] = time_ns,
    ) -> None:
        self._where, self._clock, self._timeout = os.fspath(path), clock, timeout
        file = checked_path(self._where, read_only=read_only)
        with wrap_errors(self._where), ExitStack() as opened:
            version = check_contents(self._where, file, timeout, read_only=read_only)
            self._writes: Writes | None = None
            if not read_only:
                create_private(file)
                self._writes = Writes(self._where, connect(file, timeout, "rwc"))
                opened.callback(self._writes.close)
                self._writes.prepare(timeout)
                version = schema.VERSION
            mode = reading_mode(file) if read_only else "rw"
            still = ChangeDetector(self._where, file) if mode in {"still", "alone"} else None
            reads = _Reads(self._where, connect(file, timeout, mode), still)
            opened.callback(reads.close)
            reads.prepare(version)
            opened.pop_all()
        name = f"store {self._where!r}"
        self._reader: Worker[Query[Any], Any] = Worker(name, reads.serve, reads.close)
        self._writer: Worker[Job, JobResult] | None = None
        if self._writes:
            write, end = self._writes.serve, self._writes.close
            self._writer = Worker(name, write, end, limit=_BATCH)

    @property
    def path(self) -> str:
        """The file, as it was given."""
        return self._where

    @property
    def commits(self) -> int:
        """How many transactions this store has written."""
        return self._writes.commits if self._writes else 0

    async def open_session(self, session_id: str, holder: str, seconds: float) -> Position:
        """Make *holder* the session's writer, under a new epoch; return where it stands."""
        now = self._clock()
        stands = await self._write(Open(session_id, holder, now, _after(now, seconds)))
        assert isinstance(stands, Position)  # noqa: S101 - it is what such a job answers
        return stands

    async def extend_lease(self, session_id: str, holder: str, seconds: float) -> None:
        """Let the lease of *holder* end in *seconds*, with 0 at once."""
        await self._write(Extend(_after(self._clock(), seconds), session_id, holder))

    async def append(self, session_id: str, stored: Stored) -> None:
        """Add *stored* to the end of the session; it survives the process once this returns."""
        written_ns = self._clock() if stored.written_ns is None else stored.written_ns
        await self._write(Append(session_id, written_ns, stored))

    async def append_once(
        self,
        session_id: str,
        messages: Sequence[Message],
        records: Sequence[DispatchRecord],
    ) -> bool:
        """Add those of *messages* whose ids the session does not have yet, and *records* with them.

        If it has all of them, nothing is written and this returns False: so what is appended once
        more, because nobody knows whether it was, is not in it twice. All or nothing, as `append`.
        """
        stored = Stored(records=tuple(records))  # It drops the values of records.
        job = AppendOnce(session_id, self._clock(), tuple(messages), stored.records)
        return bool(await self._write(job))

    async def read_call(self, session_id: str, call_id: str) -> tuple[Message, ...]:
        """Return the messages of the session that ask for the call or answer it, in order."""
        return await self._query(partial(_messages_of_call, session_id, call_id))

    async def read_latest(self, session_id: str, count: int) -> tuple[Message, ...]:
        """Return the last *count* messages of the session, in order."""
        return await self._query(partial(_latest_messages, session_id, count))

    async def read(self, session_id: str) -> tuple[Message, ...]:
        """Return the messages of the session, in order."""
        return await self._query(partial(_messages, session_id))

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
        """Delete the values that the session kept from the file and its log; return how many."""
        count = await self._write(Forget(session_id))
        return count if isinstance(count, int) else 0

    async def forget_states(self, session_id: str) -> int:
        """Delete what components keep for the session from the file and its log."""
        count = await self._write(Forget(session_id, "states"))
        return count if isinstance(count, int) else 0

    async def forget_sessions(self, before_ns: int, limit: int = 100) -> tuple[str, ...]:
        """Delete sessions last written before *before_ns* from the file and its log."""
        ids = await self._write(ForgetSessions(before_ns, self._clock(), limit))
        return ids if isinstance(ids, tuple) else ()

    async def read_state(self, session_id: str, name: str) -> bytes | None:
        """Return the JSON that is kept for the session under *name*, or None."""
        return await self._query(partial(_state, session_id, name))

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
        now = self._clock() if written_ns is None else written_ns
        return bool(await self._write(Swap(session_id, name, now, old, new)))

    def reader(self) -> SqliteReader:
        """Return a reader of the file, with a connection of its own."""
        if self._reader.is_closed:
            raise ClosedError(f"store {self._where!r}")
        return SqliteReader(self._where, live=True, is_open=True, timeout=self._timeout)

    async def close(self) -> None:
        """Wait for the appends that were begun, then let go of the file."""
        await self._reader.close()
        if self._writer:
            await self._writer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _write(self, job: Job) -> JobResult:
        if self._writer is None:
            raise StoreError(self._where, "it was opened for reading; leave out `read_only=True`")
        return await self._writer.submit(job)

    async def _query(self, query: Query[T]) -> T:
        answer: T = await self._reader.submit(query)
        return answer


def _after(now_ns: int, seconds: float) -> int:
    return now_ns + round(seconds * 1e9)


class _Reads:
    """What the reader's thread does with its connection."""

    def __init__(
        self, where: str, connection: sqlite3.Connection, still: ChangeDetector | None
    ) -> None:
        self._where, self._connection, self._still = where, connection, still
        self.close = connection.close

    def prepare(self, version: int) -> None:
        """Let a file of an older *version* that may not be changed look like one of ours."""
        for statement in schema.compatibility_views(version):
            self._connection.execute(statement)

    def serve(self, queries: Sequence[Query[Any]]) -> list[Any]:
        """JobResult *queries*."""
        return [self._answer(query) for query in queries]

    def _answer(self, query: Query[T]) -> T | Exception:
        try:
            answer = query(self._connection)
            if self._still:
                self._still.check()
        except StoreError as error:
            return error
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who waits must know
            return failure_of(self._where, error)
        return answer


def _messages(session_id: str, connection: sqlite3.Connection) -> tuple[Message, ...]:
    return rows.read_messages(session_id, connection.execute(schema.MESSAGES, (session_id,)))


def _latest_messages(
    session_id: str, count: int, connection: sqlite3.Connection
) -> tuple[Message, ...]:
    messages = connection.execute(schema.LATEST_MESSAGES, (session_id, count)).fetchall()
    return rows.read_messages(session_id, messages[::-1])


def _messages_of_call(
    session_id: str, call_id: str, connection: sqlite3.Connection
) -> tuple[Message, ...]:
    messages = connection.execute(schema.MESSAGES_OF_CALL, (call_id, session_id))
    return rows.read_messages(session_id, messages)


def _records(session_id: str, connection: sqlite3.Connection) -> tuple[DispatchRecord, ...]:
    statements = (schema.PAGES, schema.LEFTOVERS)
    pages = [row for sql in statements for row in connection.execute(sql, (session_id,))]
    return rows.read_records(session_id, sorted(pages))


def _originals(session_id: str, connection: sqlite3.Connection) -> tuple[Original, ...]:
    pairs = connection.execute(schema.ORIGINALS, (session_id,))
    return tuple([Original(digest=digest, body=body) for digest, body in pairs])


def _state(session_id: str, name: str, connection: sqlite3.Connection) -> bytes | None:
    for row in connection.execute(schema.STATE, (session_id, name)):
        return rows.read_state(session_id, name, row)
    return None


def _sessions(connection: sqlite3.Connection) -> tuple[SessionInfo, ...]:
    sessions = connection.execute(schema.SESSIONS)
    return tuple(
        [SessionInfo(id=i, messages=n, created_ns=c, updated_ns=u) for i, n, c, u in sessions]
    )

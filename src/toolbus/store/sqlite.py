"""A store on disk: one SQLite file, one writer thread, and one commit for all who wait."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from time import monotonic, sleep, time_ns
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from toolbus.errors import StoreError
from toolbus.store import reads, rows, schema
from toolbus.store.opening import (
    EMPTY,
    Stillness,
    check_contents,
    connect,
    read_marks,
    reading_mode,
    worded,
)
from toolbus.store.paths import checked_path
from toolbus.store.reasons import STILL_LOGGED, failure_of
from toolbus.store.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.ledger import DispatchRecord
    from toolbus.messages import Message
    from toolbus.store import Original, SessionInfo, Stored

T = TypeVar("T")

Query = Callable[[sqlite3.Connection], T]

_BATCH = 512
"""How many appends share a commit at most."""

_PAUSE = 0.005
"""Seconds between two attempts to start the log of a new file."""


class SqliteStore:
    """Sessions in the SQLite file *path*, which is made if it is not there.

    Several stores, also of several processes, may share a file: each waits up to *timeout*
    seconds for the others' writes. With *read_only* nothing is written and appending raises.
    *clock* returns nanoseconds since the epoch. Raises `StoreError` for a file that cannot be
    a store, and leaves it as it is.
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
        self._where, self._clock = os.fspath(path), clock
        file = checked_path(self._where, read_only=read_only)
        with worded(self._where), ExitStack() as opened:
            version = check_contents(self._where, file, timeout, read_only=read_only)
            self._writes: _Writes | None = None
            if not read_only:
                self._writes = _Writes(self._where, connect(file, timeout, "rwc"))
                opened.callback(self._writes.close)
                self._writes.prepare(timeout)
                version = schema.VERSION
            mode = reading_mode(file) if read_only else "rw"
            still = Stillness(self._where, file) if mode in {"still", "alone"} else None
            reads = _Reads(self._where, connect(file, timeout, mode), still)
            opened.callback(reads.close)
            reads.prepare(version)
            opened.pop_all()
        name = f"store {self._where!r}"
        self._reader: Worker[Query[Any], Any] = Worker(name, reads.serve, reads.close)
        self._writer: Worker[_Append | _Forget, int | None] | None = None
        if self._writes:
            write, end = self._writes.serve, self._writes.close
            self._writer = Worker(name, write, end, most=_BATCH)

    @property
    def commits(self) -> int:
        """How many transactions this store has written."""
        return self._writes.commits if self._writes else 0

    async def append(self, session_id: str, stored: Stored) -> None:
        """Add *stored* to the end of the session; it survives the process once this returns."""
        await self._write(_Append(session_id, self._clock(), stored))

    async def read(self, session_id: str) -> tuple[Message, ...]:
        """Return the messages of the session, in order."""
        return await self._query(partial(reads.messages, session_id))

    async def sessions(self) -> tuple[SessionInfo, ...]:
        """Return all sessions, the oldest first."""
        return await self._query(reads.sessions)

    async def records(self, session_id: str) -> tuple[DispatchRecord, ...]:
        """Return the ledger records of the session, in order."""
        return await self._query(partial(reads.records, session_id))

    async def portion(
        self, part: reads.Part, session_id: str, after: int = 0, most: int = 64
    ) -> tuple[tuple[int, rows.Row], ...]:
        """Return up to *most* rows of a session, undecoded, each with the *after* for what follows.

        "messages" are for `rows.read_messages`; "pages" and "leftovers", the records that were
        written with a message and the others, for `rows.read_records`.
        """
        return await self._query(partial(reads.portion, part, (session_id, after, most)))

    async def originals(self, session_id: str) -> tuple[Original, ...]:
        """Return the values that the session kept, by their digests."""
        return await self._query(partial(reads.originals, session_id))

    async def forget_originals(self, session_id: str) -> int:
        """Delete the values that the session kept from the file and its log; return how many."""
        return await self._write(_Forget(session_id)) or 0

    async def close(self) -> None:
        """Wait for the appends that were begun, then let go of the file."""
        await self._reader.close()
        if self._writer:
            await self._writer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _write(self, job: _Append | _Forget) -> int | None:
        if self._writer is None:
            raise StoreError(self._where, "it was opened for reading; leave out `read_only=True`")
        return await self._writer.submit(job)

    async def _query(self, query: Query[T]) -> T:
        answer: T = await self._reader.submit(query)
        return answer


class _Append(NamedTuple):
    """What `append` was given, and when."""

    session_id: str
    now_ns: int
    stored: Stored


class _Forget(NamedTuple):
    """What `forget_originals` was given."""

    session_id: str


class _Writes:
    """What the writer's thread does with its connection."""

    def __init__(self, where: str, connection: sqlite3.Connection) -> None:
        self._where, self._connection, self.commits = where, connection, 0
        self._execute, self.close = connection.execute, connection.close

    def prepare(self, timeout: float) -> None:
        """Make the tables if the file is empty, and bring those of an older version up to date."""
        # First of all: so a process killed in here leaves an empty file, never half a store.
        if self._start_log(monotonic() + timeout) != ("wal",):
            raise StoreError(self._where, "no write-ahead log can be kept here; use a local disk")
        self._execute("PRAGMA synchronous = FULL")
        # What is deleted shall be gone, and not only no longer be found.
        self._execute("PRAGMA secure_delete = ON")
        self._execute("BEGIN IMMEDIATE")
        marks = read_marks(self._connection)
        for statement in schema.TABLES if marks == EMPTY else schema.upgrades(marks[1]):
            self._execute(statement)
        self._execute("COMMIT")

    def _start_log(self, until: float) -> object:
        # Two that open a new file may each hold what the other waits for. SQLite then fails
        # at once, whatever its timeout, and the one that failed has to come again.
        while True:
            try:
                return self._execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > until:
                    raise
            sleep(_PAUSE)

    def serve(self, jobs: Sequence[_Append | _Forget]) -> list[StoreError | int | None]:
        """Do *jobs* in one transaction; those that fail alone are left out of it."""
        try:
            self._execute("BEGIN IMMEDIATE")
            answers = [self._write(job) for job in jobs]
            self._execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must know
            with suppress(sqlite3.Error):
                self._connection.rollback()
            return [failure_of(self._where, error) for _ in jobs]
        self.commits += 1
        if any(isinstance(job, _Forget) for job in jobs) and not self._empty_log():
            held = StoreError(self._where, STILL_LOGGED)
            pairs = zip(jobs, answers, strict=True)
            return [held if isinstance(job, _Forget) else answer for job, answer in pairs]
        return answers

    def _write(self, job: _Append | _Forget) -> StoreError | int | None:
        self._execute("SAVEPOINT append")
        answer: StoreError | int | None = None
        try:
            if isinstance(job, _Forget):
                answer = self._execute(schema.FORGET, job).rowcount
            else:
                self._insert(*job)
        except Exception as error:
            # A full disk or a failing one may have ended the whole transaction.
            if not self._connection.in_transaction:
                raise
            answer = failure_of(self._where, error)
            self._execute("ROLLBACK TO append")
        self._execute("RELEASE append")
        return answer

    def _empty_log(self) -> bool:
        """Carry all of the log into the file; return False if another reader needs it still."""
        with suppress(sqlite3.OperationalError):
            (busy, *_) = self._execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy
        return False

    def _insert(self, session_id: str, now_ns: int, stored: Stored) -> None:
        message, records = stored.message, stored.records
        new = (session_id, int(message is not None), len(records), now_ns, now_ns)
        self._execute(schema.COUNT_UP, new)
        session, seq, last = self._execute(schema.COUNTED, (session_id,)).fetchone()
        key, place = None, seq + 1
        if message is not None:
            place = seq
            row = (session, seq, *rows.message_row(message))
            key = self._execute(schema.ADD_MESSAGE, row).lastrowid
            calls = [(call_id, key) for call_id in rows.call_ids(message)]
            self._connection.executemany(schema.ADD_CALL, calls)
        if records:
            first = last - len(records) + 1
            of_page = (key, session, place, first, *rows.page_row(records))
            page = self._execute(schema.ADD_PAGE, of_page).lastrowid
            if mentions := [(one, page) for one in rows.mentioned(records, message)]:
                self._connection.executemany(schema.ADD_MENTION, mentions)
        if stored.originals:
            kept = [(session, one.digest, one.body.decode()) for one in stored.originals]
            self._connection.executemany(schema.ADD_ORIGINAL, kept)


class _Reads:
    """What the reader's thread does with its connection."""

    def __init__(self, where: str, connection: sqlite3.Connection, still: Stillness | None) -> None:
        self._where, self._connection, self._still = where, connection, still
        self.close = connection.close

    def prepare(self, version: int) -> None:
        """Let a file of an older *version* that may not be changed look like one of ours."""
        for statement in schema.disguises(version):
            self._connection.execute(statement)

    def serve(self, queries: Sequence[Query[Any]]) -> list[Any]:
        """Answer *queries*."""
        return [self._answer(query) for query in queries]

    def _answer(self, query: Query[T]) -> T | StoreError:
        try:
            answer = query(self._connection)
            if self._still:
                self._still.check()
        except StoreError as error:
            return error
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who waits must know
            return failure_of(self._where, error)
        return answer

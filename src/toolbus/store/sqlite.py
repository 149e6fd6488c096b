"""A store on disk: one SQLite file, one writer thread, and one commit for all who wait."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from toolbus.errors import DecodeError, StoreError
from toolbus.ledger import DispatchRecord
from toolbus.messages import AssistantMessage, ToolMessage, decode, decoder, encode
from toolbus.store import SessionInfo, schema
from toolbus.store.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from toolbus.messages import Message
    from toolbus.store import Stored

T = TypeVar("T")

_BATCH = 512
"""How many appends share a commit at most."""


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
        _check_path(self._where, must_exist=read_only)
        connect = partial(_connect, os.path.realpath(self._where), timeout)
        with _worded(self._where), ExitStack() as opened:
            _check_contents(self._where, connect, must_exist=read_only)
            self._writes = None if read_only else _Writes(self._where, connect("rwc"))
            if self._writes:
                opened.callback(self._writes.close)
                self._writes.prepare()
            reads = _Reads(self._where, connect("ro" if read_only else "rw"))
            opened.pop_all()
        name = f"store {self._where!r}"
        self._reader: Worker[_Query[Any], Any] = Worker(name, reads.serve, reads.close)
        self._writer = self._writes and Worker(
            name, self._writes.serve, self._writes.close, most=_BATCH
        )

    @property
    def commits(self) -> int:
        """How many transactions this store has written."""
        return self._writes.commits if self._writes else 0

    async def append(self, session_id: str, stored: Stored) -> None:
        """Add *stored* to the end of the session; it survives the process once this returns."""
        if self._writer is None:
            raise StoreError(self._where, "it was opened for reading; leave out `read_only=True`")
        with _worded(self._where):
            entry = _entry(session_id, self._clock(), stored)
        await self._writer.submit(entry)

    async def read(self, session_id: str) -> tuple[Message, ...]:
        """Return the messages of the session, in order."""
        return await self._query(partial(_read, "messages", decode, session_id))

    async def sessions(self) -> tuple[SessionInfo, ...]:
        """Return all sessions, the oldest first."""
        return await self._query(_read_sessions)

    async def records(self, session_id: str) -> tuple[DispatchRecord, ...]:
        """Return the ledger records of the session, in order."""
        return await self._query(partial(_read, "records", _decode_record, session_id))

    async def close(self) -> None:
        """Wait for the appends that were begun, then let go of the file."""
        await self._reader.close()
        if self._writer:
            await self._writer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _query(self, query: _Query[T]) -> T:
        answer: T = await self._reader.submit(query)
        return answer


class _Entry(NamedTuple):
    """One append, encoded: rows without the numbers that only the writer knows."""

    session_id: str
    now_ns: int
    message: tuple[str, int, str] | None
    calls: tuple[str, ...]
    records: list[tuple[str, str, int, str]]


class _Writes:
    """What the writer's thread does with its connection."""

    def __init__(self, where: str, connection: sqlite3.Connection) -> None:
        self._where, self._connection, self.commits = where, connection, 0
        self._execute, self.close = connection.execute, connection.close

    def prepare(self) -> None:
        """Make the tables if the file is empty; fails if it cannot be written."""
        # First of all: so a process killed in here leaves an empty file, never half a store.
        if self._execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            raise StoreError(self._where, "no write-ahead log can be kept here; use a local disk")
        self._execute("PRAGMA synchronous = FULL")
        self._execute("BEGIN IMMEDIATE")
        if _marks(self._connection) == _EMPTY:
            for statement in schema.TABLES:
                self._execute(statement)
        self._execute("COMMIT")

    def serve(self, entries: Sequence[_Entry]) -> list[StoreError | None]:
        """Write *entries* in one transaction; those that fail alone are left out of it."""
        try:
            self._execute("BEGIN IMMEDIATE")
            failures = [self._write(entry) for entry in entries]
            self._execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must know
            with suppress(sqlite3.Error):
                self._connection.rollback()
            return [_failure(self._where, error) for _ in entries]
        self.commits += 1
        return failures

    def _write(self, entry: _Entry) -> StoreError | None:
        self._execute("SAVEPOINT entry")
        failure = None
        try:
            self._insert(entry)
        except Exception as error:
            # A full disk or a failing one may have ended the whole transaction.
            if not self._connection.in_transaction:
                raise
            failure = _failure(self._where, error)
            self._execute("ROLLBACK TO entry")
        self._execute("RELEASE entry")
        return failure

    def _insert(self, entry: _Entry) -> None:
        session_id, now_ns, message, calls, records = entry
        new = (session_id, int(message is not None), len(records), now_ns, now_ns)
        self._execute(schema.COUNT_UP, new)
        session, seq, count = self._execute(schema.COUNTED, (session_id,)).fetchone()
        key = None
        if message is not None:
            key = self._execute(schema.ADD_MESSAGE, (session, seq, *message)).lastrowid
            self._connection.executemany(schema.ADD_CALL, [(call, key) for call in calls])
        first = count - len(records) + 1
        rows = [(session, at, key, *record) for at, record in enumerate(records, first)]
        self._connection.executemany(schema.ADD_RECORD, rows)


class _Reads:
    """What the reader's thread does with its connection."""

    def __init__(self, where: str, connection: sqlite3.Connection) -> None:
        self._where, self._connection, self.close = where, connection, connection.close

    def serve(self, queries: Sequence[_Query[Any]]) -> list[Any]:
        """Answer *queries*."""
        return [self._answer(query) for query in queries]

    def _answer(self, query: _Query[T]) -> T | StoreError:
        try:
            return query(self._connection)
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who waits must know
            return _failure(self._where, error)


_decode_record = decoder(DispatchRecord)


def _entry(session_id: str, now_ns: int, stored: Stored) -> _Entry:
    message, records = stored.message, stored.records
    return _Entry(
        session_id,
        now_ns,
        None if message is None else (message.id, schema.VERSION, encode(message).decode()),
        _calls(message),
        [(r.subject, r.call_id, schema.VERSION, encode(r).decode()) for r in records],
    )


def _calls(message: Message | None) -> tuple[str, ...]:
    match message:
        case ToolMessage(tool_call_id=call_id):
            return (call_id,)
        case AssistantMessage(tool_calls=calls):
            return tuple([call.id for call in calls])
    return ()


def _read(
    table: str, decode: Callable[[bytes], T], session_id: str, connection: sqlite3.Connection
) -> tuple[T, ...]:
    rows = connection.execute(schema.BODIES[table], (session_id,))
    return tuple([_row(f"{table}, session {session_id!r}, row", decode, *row) for row in rows])


def _row(name: str, decode: Callable[[bytes], T], seq: int, version: object, body: bytes) -> T:
    if version != schema.VERSION:
        ...


def _read_sessions(connection: sqlite3.Connection) -> tuple[SessionInfo, ...]:
    rows = connection.execute(schema.SESSIONS)
    return tuple([SessionInfo(id=i, messages=n, created_ns=c, updated_ns=u) for i, n, c, u in rows])

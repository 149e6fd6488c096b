"""The work of an SQLite store's writing thread, one transaction at a time."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from os import urandom
from time import monotonic, sleep, time_ns
from typing import TYPE_CHECKING, Any

from toolbus.errors import DecodeError, StoreError
from toolbus.store import rows
from toolbus.store.chain import (
    ALL_STATES,
    BATCHES,
    MESSAGES,
    NOTHING,
    SALT,
    Chains,
    salted_state,
)
from toolbus.store.jobs import (
    AppendJob,
    ExtendLeaseJob,
    ForgetRowsJob,
    ForgetSessionsJob,
    Job,
    JobResult,
    OpenSessionJob,
    SwapStateJob,
    TransactionJob,
)
from toolbus.store.leases import Lease, after_seconds, check_position, this_process
from toolbus.store.protocol import AppendRequest, Position
from toolbus.store.sqlite import schema
from toolbus.store.sqlite.files import FileIdentity, read_header
from toolbus.store.sqlite.sqlite_errors import STILL_LOGGED, failure_of
from toolbus.store.sqlite.sqlite_reader import STATEMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_PAUSE = 0.005
"""Seconds between two attempts to start the log of a new file."""


_OLD = """SELECT sessions.key, sessions.id FROM sessions
    LEFT JOIN writers ON writers.session = sessions.id
    WHERE updated_ns < ? AND coalesce(until_ns, 0) <= ? ORDER BY sessions.key LIMIT ?"""
_MESSAGES = """SELECT key, version, CAST(body AS BLOB), checksum FROM messages
    WHERE session = ? ORDER BY seq"""
_UNATTACHED = "SELECT key FROM ledger WHERE key < 0 AND session = ?"
_BATCH = "SELECT version, CAST(body AS BLOB), checksum FROM ledger WHERE key = ?"
_DROP_CALL = "DELETE FROM calls WHERE id = ? AND message = ?"
_DROP_MENTION = "DELETE FROM mentions WHERE id = ? AND page = ?"
# For an unreadable body, whose ids are unknown, the whole index is searched.
_DROP_CALLS = "DELETE FROM calls WHERE message = ?"
_DROP_MENTIONS = "DELETE FROM mentions WHERE page = ?"
_DROP_BATCH = "DELETE FROM ledger WHERE key = ?"
_REMEMBER = """INSERT INTO forgotten (chain, forgotten_ns)
    SELECT chain, ? FROM sessions WHERE key = ? AND chain IS NOT NULL"""
_DROP_REST = (
    "DELETE FROM messages WHERE session = ?",
    "DELETE FROM originals WHERE session = ?",
    "DELETE FROM states WHERE session = ?",
    "DELETE FROM links WHERE session = ?",
    "DELETE FROM writers WHERE session = (SELECT id FROM sessions WHERE key = ?)",
    "DELETE FROM sessions WHERE key = ?",
)

_FORGETS = ForgetRowsJob, ForgetSessionsJob
_LASTING = AppendJob, TransactionJob, *_FORGETS, SwapStateJob


class Writes:
    """The execution of jobs of the store *where* through *connection*.

    *clock* returns nanoseconds since the epoch.
    """

    def __init__(
        self, where: str, connection: sqlite3.Connection, clock: Callable[[], int] = time_ns
    ) -> None:
        self._where, self._connection, self.clock, self.commits = where, connection, clock, 0
        self._execute, self.close = connection.execute, connection.close
        self._synchronous = ""
        self._identity = FileIdentity(where)

    def prepare(self, timeout: float) -> None:
        """Create the tables in an empty file, and upgrade older tables."""
        # This comes first, so that a process killed in here leaves an empty file, not half a store.
        if self._start_log(monotonic() + timeout) != ("wal",):
            raise StoreError(self._where, "the disk supports no write-ahead log; use a local disk")
        self._synchronize("FULL")
        # Deleted rows are overwritten, not only unlinked.
        self._execute("PRAGMA secure_delete = ON")
        self._execute("BEGIN IMMEDIATE")
        if is_new := read_header(self._connection).version < schema.VERSION:
            for statement in schema.TABLES:
                self._execute(statement)
            for table, column in schema.ADDED:
                if column not in [row[1] for row in self._execute(f"PRAGMA table_info({table})")]:
                    self._execute(f"ALTER TABLE {table} ADD COLUMN {column} BLOB")
        self._execute("COMMIT")
        if is_new:
            # This writes the header, with the application id, to the file at once.
            self._execute("PRAGMA wal_checkpoint(PASSIVE)")
        # By now the log exists, and it stays as long as it is open.
        self._identity = FileIdentity(self._where)

    def _start_log(self, until: float) -> object:
        # Two processes that open a new file may deadlock. SQLite then fails at once, regardless of
        # its timeout, and the failed one tries again.
        while True:
            try:
                return self._execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > until:
                    raise
            sleep(_PAUSE)

    def _synchronize(self, how: str) -> None:
        if how != self._synchronous:
            self._execute(f"PRAGMA synchronous = {how}")
            self._synchronous = how

    def serve(self, jobs: Sequence[Job]) -> list[Exception | JobResult]:
        """Do *jobs* in one transaction; jobs that fail are rolled back alone."""
        try:
            # Leases need not survive a crash of the machine, since their holders do not.
            lasting = any(isinstance(job, _LASTING) for job in jobs)
            self._synchronize("FULL" if lasting else "NORMAL")
            self._execute("BEGIN IMMEDIATE")
            results = [self._write(job) for job in jobs]
            self._identity.check()
            self._execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - the callers get the error
            with suppress(sqlite3.Error):
                self._connection.rollback()
            return [failure_of(self._where, error) for _ in jobs]
        self.commits += 1
        forgets = [index for index, job in enumerate(jobs) if isinstance(job, _FORGETS)]
        if forgets and not self._empty_log():
            for index in forgets:
                results[index] = StoreError(self._where, STILL_LOGGED)
        return results

    def _write(self, job: Job) -> Exception | JobResult:
        self._execute("SAVEPOINT append")
        result: Exception | JobResult
        try:
            result = self._do(job)
        except Exception as error:
            # A full or failing disk may have ended the whole transaction.
            if not self._connection.in_transaction:
                raise
            result = failure_of(self._where, error)
            self._execute("ROLLBACK TO append")
        self._execute("RELEASE append")
        return result

    def _do(self, job: Job) -> JobResult:
        match job:
            case AppendJob(session_id, request):
                self.insert(session_id, request)
            case TransactionJob(work):
                return work(self)
            case ForgetRowsJob(session_id, table):
                count = self._execute(schema.FORGET.format(table), (session_id,)).rowcount
                if table == "states" and count:
                    self._link(session_id, ALL_STATES, NOTHING)
                return count
            case ForgetSessionsJob(before_ns, limit):
                return self._forget_sessions(before_ns, limit)
            case SwapStateJob():
                return self._swap(job)
            case OpenSessionJob():
                return self._open(job)
            case ExtendLeaseJob(session_id, holder, seconds):
                until_ns = after_seconds(self.clock(), seconds)
                self._execute(schema.EXTEND, (until_ns, session_id, holder))
        return None

    def _swap(self, swap: SwapStateJob) -> bool:
        session_id, name, old, new, written_ns = swap
        row = self._execute(STATEMENTS.state, (session_id, name)).fetchone()
        if old != (None if row is None else row[1]):
            return False
        salt, committed = salted_state(name, new)
        if new is not None:
            self.insert(session_id, AppendRequest(written_ns=written_ns))
            self._execute(schema.SET_STATE, (session_id, name, *rows.state_row(new), salt))
        elif old is not None:
            self._execute(schema.DROP_STATE, (session_id, name))
        if committed and (old is not None or new is not None):
            self._link(session_id, name, committed)
        return True

    def _link(self, session_id: str, name: str, committed: bytes) -> None:
        """Add a write of the state *name* to the session's chain of questions."""
        session, _, _, column = self._session(session_id)
        chains = Chains(session_id, column)
        self._execute(schema.ADD_LINK, (session, *chains.extend_questions(name, committed)))
        self._execute(schema.COUNT_UP, (0, 0, 0, chains.column, session))

    def _empty_log(self) -> bool:
        """Checkpoint and truncate the log; return False if another reader still needs it."""
        with suppress(sqlite3.OperationalError):
            (busy, *_) = self._execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy
        return False

    def _open(self, job: OpenSessionJob) -> Position:
        lease = self._lease(job.session_id).taken(job, this_process(), self.clock())
        self._execute(schema.TAKE, (job.session_id, *lease))
        _, length, *_ = self._session(job.session_id)
        return Position(lease.epoch, length)

    def _lease(self, session_id: str) -> Lease:
        row = self._execute(schema.LEASE, (session_id,)).fetchone()
        return Lease() if row is None else Lease(*row)

    def _session(self, session_id: str) -> tuple[int | None, int, int, bytes | None]:
        """Return the key, messages, records and chains of the session; no key if it is new."""
        return self._execute(schema.SESSION, (session_id,)).fetchone() or (None, 0, 0, None)

    def has_message(self, session_id: str, message_id: str) -> bool:
        """Return whether the session has a message with this id."""
        return bool(self._execute(schema.HAS_MESSAGE, (session_id, message_id)).fetchone())

    def insert(self, session_id: str, request: AppendRequest) -> None:
        """Append *request* to the session; raises `SessionBusyError` at another position."""
        session, length, recorded, column = self._session(session_id)
        if request.at is not None:
            actual = Position(self._lease(session_id).epoch, length)
            check_position(session_id, request.at, actual)
        now_ns = self.clock() if request.written_ns is None else request.written_ns
        if session is None:
            session = self._execute(schema.ADD_SESSION, (session_id, now_ns, now_ns)).lastrowid
        chains, messages, records = Chains(session_id, column), request.messages, request.records
        key, place, salt = None, length + 1, urandom(SALT)
        for place, message in enumerate(messages, length + 1):
            *row, committed = rows.message_row(message, salt)
            label = f"{place}:{rows.ENCODING}:{message.id}"
            seal = salt + chains.extend(MESSAGES, committed, label)
            key = self._execute(schema.ADD_MESSAGE, (session, place, *row, seal)).lastrowid
            calls = [(call_id, key) for call_id in rows.call_ids(message)]
            self._connection.executemany(schema.ADD_CALL, calls)
        if records:
            *counted, committed = rows.batch_row(records, salt)
            label = f"{place}:{recorded + 1}:{len(records)}:{rows.ENCODING}"
            seal = salt + chains.extend(BATCHES, committed, label)
            values = (key, session, place, recorded + 1, *counted, seal)
            batch = self._execute(schema.ADD_BATCH, values).lastrowid
            names = rows.mentioned(records, messages[-1] if messages else None)
            self._connection.executemany(schema.ADD_MENTION, [(name, batch) for name in names])
        originals = [(session, each.digest, each.body.decode()) for each in request.originals]
        self._connection.executemany(schema.ADD_ORIGINAL, originals)
        counts = (len(messages), len(records), now_ns, chains.column, session)
        self._execute(schema.COUNT_UP, counts)

    def _forget_sessions(self, before_ns: int, limit: int) -> tuple[str, ...]:
        """Delete up to *limit* sessions last written before *before_ns*; return their ids.

        The oldest sessions come first; a session under a lease stays.
        """
        now_ns = self.clock()
        sessions = self._execute(_OLD, (before_ns, now_ns, limit)).fetchall()
        for key, _ in sessions:
            for message, *row in self._execute(_MESSAGES, (key,)):
                self._drop_calls(message, row)
                self._drop_batch(message)
            for (batch,) in self._execute(_UNATTACHED, (key,)).fetchall():
                self._drop_batch(batch)
            self._execute(_REMEMBER, (now_ns, key))
            for statement in _DROP_REST:
                self._execute(statement, (key,))
        return tuple([session_id for _, session_id in sessions])

    def _drop_calls(self, key: int, row: list[Any]) -> None:
        try:
            names = rows.call_ids(rows.decode_message(*row))
        except DecodeError:
            self._execute(_DROP_CALLS, (key,))
        else:
            self._connection.executemany(_DROP_CALL, [(name, key) for name in names])

    def _drop_batch(self, key: int) -> None:
        for row in self._execute(_BATCH, (key,)).fetchall():
            try:
                names = rows.mentioned(rows.decode_batch(*row), None)
            except DecodeError:
                self._execute(_DROP_MENTIONS, (key,))
            else:
                self._connection.executemany(_DROP_MENTION, [(name, key) for name in names])
            self._execute(_DROP_BATCH, (key,))

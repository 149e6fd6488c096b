"""The work of a PostgreSQL store's writing thread: few transactions, each exactly once."""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.errors import StoreError
from toolbus.store.chain import ALL_STATES, NOTHING, Chains
from toolbus.store.jobs import (
    AppendJob,
    ExtendLeaseJob,
    ForgetRowsJob,
    ForgetSessionsJob,
    JobResult,
    OpenSessionJob,
    SwapStateJob,
)
from toolbus.store.postgres import statements
from toolbus.store.postgres.answer_guard import NO_APPROVER
from toolbus.store.postgres.batches import Batch, BatchJob, EncodedAppend, Work, encode_append
from toolbus.store.postgres.connection import PgConnection, PostgresLink, Watchdog
from toolbus.store.postgres.driver import psycopg
from toolbus.store.postgres.postgres_errors import UNKNOWN, failure_of, wrap_errors
from toolbus.store.postgres.tables import prepare
from toolbus.store.postgres.text_ids import indexed, unescape
from toolbus.store.worker import NotYetError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolbus.store.postgres.addresses import DatabaseAddress

PgJob: TypeAlias = (
    AppendJob | OpenSessionJob | ExtendLeaseJob | SwapStateJob | ForgetRowsJob | ForgetSessionsJob
)
"""The jobs of the writer of a PostgreSQL store."""

_MAX_JOBS = 512
"""The most jobs of one commit, limited by the bits of keys in a batch."""

_MAX_BYTES = 32 << 20
"""The most bytes of bodies in a commit of several appends: the server accepts up to 1 GB."""

_BYTES_PER_SECOND = 1e6
"""The transfer rate below which a batch in transit counts as lost."""

_MAX_KNOWN = 10_000
"""The most existing sessions that a writer remembers."""

_AGAIN = ("40P01", "40001")


class PostgresWrites:
    """The execution of a store's jobs through its own connection; *clock* is as in `Batch`."""

    def __init__(
        self,
        address: DatabaseAddress,
        timeout: float,
        watchdog: Watchdog,
        clock: Callable[[], int] | None,
    ) -> None:
        self._id = os.urandom(8).hex()
        self._name = f"toolbus writer {self._id}"
        self._link = PostgresLink(address, timeout, watchdog, read_only=False, name=self._name)
        self._timeout, self._clock = timeout, clock
        self._known: set[str] = set()
        self.commits = self._number = self._opened = 0
        # The deadlines of jobs that wait for their sessions, by the identity of the job.
        self._bounds: dict[int, float] = {}

    def prepare(self) -> None:
        """Create or upgrade the schema; raises `StoreError`."""
        where, link = self._link.where, self._link
        with wrap_errors(where), link.exchange(self._timeout, patient=False) as connection:
            prepare(where, connection)

    def serve(self, jobs: Sequence[PgJob]) -> list[Exception | JobResult]:
        """Do *jobs* in order, in few transactions; jobs that fail are left out alone.

        A job whose session is locked elsewhere gets `NotYetError` until its deadline.
        """
        results = self._serve(jobs)
        for index, (job, result) in enumerate(zip(jobs, results, strict=True)):
            if not isinstance(result, NotYetError):
                self._bounds.pop(id(job), None)
            elif self._bounds.setdefault(id(job), monotonic() + self._timeout) < monotonic():
                results[index] = failure_of(self._link.where, psycopg.errors.LockNotAvailable())
                del self._bounds[id(job)]
        return results

    def _serve(self, jobs: Sequence[PgJob]) -> list[Exception | JobResult]:
        results: list[Exception | JobResult] = []
        batch: list[BatchJob] = []
        size = 0
        for job in jobs:
            encoded = self._encoded(job)
            growth = encoded.size if isinstance(encoded, EncodedAppend) else 0
            is_full = len(batch) == _MAX_JOBS or (growth > 0 and size + growth > _MAX_BYTES)
            if is_full or isinstance(encoded, ForgetRowsJob | ForgetSessionsJob | Exception):
                results += self._commit(batch)
                batch, size = [], 0
            if isinstance(encoded, Exception):
                results.append(encoded)
            elif isinstance(encoded, ForgetRowsJob | ForgetSessionsJob):
                results.append(self._alone(encoded))
            else:
                batch.append(encoded)
                size += growth
        return results + self._commit(batch)

    def _encoded(self, job: PgJob) -> BatchJob | ForgetRowsJob | ForgetSessionsJob | Exception:
        """Return *job*, an append with its rows, or the error with which it fails alone."""
        try:
            if not isinstance(job, ForgetSessionsJob):
                job.session_id.encode()
            return encode_append(job) if isinstance(job, AppendJob) else job
        except Exception as error:  # noqa: BLE001 - the caller gets the error
            return failure_of(self._link.where, error)

    def close(self) -> None:
        """Close the connection."""
        if self._number and not self._link.is_lost():
            try:
                with self._link.exchange() as connection:
                    connection.execute(statements.DROP_COMMITS, (self._id,))
            except (psycopg.Error, StoreError):
                pass  # A later writer deletes the row after 30 days.
        self._link.drop()

    def _commit(self, jobs: Sequence[BatchJob]) -> list[Exception | JobResult]:
        if not jobs:
            return []
        batch, where = Batch(jobs, self._clock), self._link.where
        try:
            self._once(batch)
        except Exception as error:  # noqa: BLE001 - the callers get the error
            if len(jobs) == 1 or not _is_of_one(error):
                return [failure_of(where, error) for _ in jobs]
            # One job is at fault: do each alone, so that the others succeed.
            return [result for job in jobs for result in self._commit([job])]
        self.commits += 1
        return [_in_words(where, result) for result in batch.results]

    def _once(self, batch: Batch) -> None:
        """Commit *batch* exactly once, even if the connection is lost meanwhile."""
        until = monotonic() + self._timeout
        while True:
            self._number += 1
            sent: list[bool] = []
            try:
                self._try(batch, sent)
            except psycopg.Error as error:
                is_lost = self._link.is_lost()
                if is_lost and sent and self._has_committed(self._number):
                    return
                # Nothing was written, and a lost connection or a deadlock is worth a retry.
                if not (is_lost or error.sqlstate in _AGAIN) or monotonic() > until:
                    raise
            else:
                return

    def _try(self, batch: Batch, sent: list[bool]) -> None:
        """Commit *batch*; *sent* is nonempty once a commit may have been sent."""
        with self._link.exchange(batch.size / _BYTES_PER_SECOND) as connection:
            self._greet(connection)
            work: Work = [("BEGIN", ())]
            if not batch.lasting:
                # Leases are short, and need not survive a crash of the server.
                work.append((statements.SOON, ()))
            work.append((statements.COUNT_COMMIT, (self._id, self._number)))
            read = _pipeline(connection, work + batch.lock(self._known))
            sessions = read[statements.LOCK_SESSIONS].fetchall()
            (number,) = read[statements.NUMBER].fetchall()
            states = read.get(statements.READ_STATES)
            busy = _busy(connection, batch, {row[0] for row in sessions})
            # Others may have deleted a busy session: the next attempt creates it again.
            self._known -= busy
            rest = batch.decide(sessions, number, states.fetchall() if states else (), busy)
            if busy.issuperset(batch.names):
                connection.rollback()
                return
            sent.append(True)
            _pipeline(connection, [*rest, ("COMMIT", ())])
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        self._known.update(batch.made.keys() - busy)

    def _greet(self, connection: PgConnection) -> None:
        """Prepare a new connection for work."""
        if self._opened != self._link.opened:
            # The server may not have noticed the loss of the last connection, and keep its locks.
            connection.execute(statements.END_OTHERS, (self._name,))
            connection.execute(statements.NOT_OFF)
            connection.execute(statements.MAKE_WRITER, (self._id,))
            self._opened = self._link.opened

    def _has_committed(self, number: int) -> bool:
        """Return whether the commit *number* succeeded; raises `StoreError` if that is unknown.

        The transaction locked its row before the commit was sent, so it has ended, with or without
        success, when the row is read.
        """
        until = monotonic() + self._timeout
        while True:
            try:
                with self._link.exchange() as connection:
                    self._greet(connection)
                    rows = connection.execute(statements.LAST_COMMIT, (self._id,)).fetchall()
                    return rows == [(number,)]
            except (psycopg.Error, StoreError) as error:
                if monotonic() > until:
                    raise StoreError(self._link.where, UNKNOWN) from error

    def _alone(self, job: ForgetRowsJob | ForgetSessionsJob) -> Exception | JobResult:
        for is_last in (False, True):
            try:
                with self._link.exchange(self._timeout) as connection, connection.transaction():
                    if isinstance(job, ForgetRowsJob):
                        return _forget_rows(connection, job)
                    return self._forget_sessions(connection, job)
            except Exception as error:  # noqa: BLE001 - the caller gets the error
                # A second deletion is harmless.
                if is_last or not self._link.is_lost():
                    return failure_of(self._link.where, error)
        return None

    def _forget_sessions(self, connection: PgConnection, job: ForgetSessionsJob) -> tuple[str, ...]:
        (now_ns,) = connection.execute(statements.CLOCK).fetchone() or (0,)
        now_ns = self._clock() if self._clock else now_ns
        values = {"before": job.before_ns, "now": now_ns, "limit": job.limit}
        sessions = connection.execute(statements.OLD_SESSIONS, values).fetchall()
        keys = [key for key, _ in sessions]
        connection.execute(statements.REMEMBER, (now_ns, keys))
        for statement in statements.DROP_SESSIONS if keys else ():
            connection.execute(statement, (keys,))
        self._known.clear()
        return tuple([unescape(session_id) for _, session_id in sessions])


def _forget_rows(connection: PgConnection, job: ForgetRowsJob) -> int:
    """Delete the rows of *job*, and add the deletion of states to the session's chain."""
    session_id = indexed(job.session_id)
    for key, column in connection.execute(statements.LOCK_CHAIN, (session_id,)).fetchall():
        count = connection.execute(statements.FORGET[job.table], (session_id,)).rowcount
        if job.table == "states" and count:
            chains = Chains(session_id, column)
            values = [[value] for value in (key, *chains.extend_questions(ALL_STATES, NOTHING))]
            connection.execute(statements.ADD_LINKS, values)
            connection.execute(statements.SET_CHAIN, (chains.column, key))
        return count
    return 0


def _in_words(where: str, result: Exception | JobResult) -> Exception | JobResult:
    if isinstance(result, Exception) and not isinstance(result, NotYetError):
        return failure_of(where, result)
    return result


def _is_of_one(error: Exception) -> bool:
    """Return whether *error* may be caused by the values of a single job."""
    # https://www.postgresql.org/docs/current/errcodes-appendix.html: data, constraints, limits.
    code = (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""
    is_of_values = code[:2] in {"22", "23", "54"} or code == NO_APPROVER
    return is_of_values or isinstance(error, psycopg.DataError)


def _busy(connection: PgConnection, batch: Batch, locked: set[str]) -> frozenset[str]:
    """Return the sessions of *batch* that another transaction has locked, or is creating."""
    missing = {*batch.names}.difference(locked)
    busy = missing.intersection(batch.made)
    # Jobs that create no session may belong to a missing one, which is not busy.
    if others := sorted(missing - busy):
        rows = connection.execute(statements.EXISTING_SESSIONS, (others,), binary=True).fetchall()
        busy |= {name for (name,) in rows}
    return frozenset(busy)


def _pipeline(connection: PgConnection, work: Work) -> dict[str, psycopg.Cursor[tuple[Any, ...]]]:
    """Send all of *work* in one round trip; return the results by statement."""
    cursors: dict[str, psycopg.Cursor[tuple[Any, ...]]] = {}
    failure: psycopg.Error | None = None
    try:
        with connection.pipeline():
            # Caught inside: the driver would log the failure if the end of the pipeline fails, too.
            try:
                for sql, values in work:
                    cursors[sql] = connection.execute(sql, values, binary=True)
            except psycopg.Error as error:
                failure = error
    except psycopg.Error as error:
        failure = failure or error
    if failure is not None:
        raise failure
    return cursors

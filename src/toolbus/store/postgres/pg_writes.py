"""The work of a PostgreSQL store's writing thread: few transactions, and each of them once."""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.errors import StoreError
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
from toolbus.store.postgres.postgres_errors import UNKNOWN, failure_of
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
"""The most jobs of one commit: the keys of a batch have so many bits."""

_MAX_BYTES = 32 << 20
"""Bytes of bodies that share a commit, but for one append that has more: the server takes 1 GB."""

_BYTES_PER_SECOND = 1e6
"""The speed of a wire below which a sent batch is taken for lost."""

_MAX_KNOWN = 10_000
"""The most sessions that a writer remembers to be there."""

_AGAIN = ("40P01", "40001")


class PostgresWrites:
    """Does the jobs of a store through a connection of its own; *clock* is as in `Batch`."""

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
        # Until when a job waits for its session, by the identity of the job.
        self._bounds: dict[int, float] = {}

    def prepare(self) -> None:
        """Make the schema, or bring it up to date."""
        with self._link.exchange(self._timeout, patient=False) as connection:
            prepare(self._link.where, connection)

    def serve(self, jobs: Sequence[PgJob]) -> list[Exception | JobResult]:
        """Do *jobs* in their order, in few transactions, without each job that fails alone.

        A job whose session is locked elsewhere gets `NotYetError`, as long as its time lasts.
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
        """Return *job* with the rows of an append, or the error for which it fails alone."""
        try:
            if not isinstance(job, ForgetSessionsJob):
                job.session_id.encode()
            return encode_append(job) if isinstance(job, AppendJob) else job
        except Exception as error:  # noqa: BLE001 - whatever it is, who waits must know
            return failure_of(self._link.where, error)

    def close(self) -> None:
        """Let go of the connection."""
        if self._number and not self._link.is_lost():
            try:
                with self._link.exchange() as connection:
                    connection.execute(statements.DROP_COMMITS, (self._id,))
            except (psycopg.Error, StoreError):
                pass  # Whoever opens the store a month from now deletes the row.
        self._link.drop()

    def _commit(self, jobs: Sequence[BatchJob]) -> list[Exception | JobResult]:
        if not jobs:
            return []
        batch, where = Batch(jobs, self._clock), self._link.where
        try:
            self._once(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must know
            if len(jobs) == 1 or not _is_of_one(error):
                return [failure_of(where, error) for _ in jobs]
            # One of them is to blame, and the others shall not suffer for it.
            return [result for job in jobs for result in self._commit([job])]
        self.commits += 1
        return [_in_words(where, result) for result in batch.results]

    def _once(self, batch: Batch) -> None:
        """Commit *batch* once, also if the connection is lost meanwhile."""
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
                # Nothing of it is there, and a lost connection or a deadlock may not come again.
                if not (is_lost or error.sqlstate in _AGAIN) or monotonic() > until:
                    raise
            else:
                return

    def _try(self, batch: Batch, sent: list[bool]) -> None:
        """Commit *batch*; *sent* has an entry once the server may have been told to commit."""
        with self._link.exchange(batch.size / _BYTES_PER_SECOND) as connection:
            self._greet(connection)
            work: Work = [("BEGIN", ())]
            if not batch.lasting:
                # Who holds a lease need not survive the server: no holder's lease is for long.
                work.append((statements.SOON, ()))
            work.append((statements.COUNT_COMMIT, (self._id, self._number)))
            read = _pipeline(connection, work + batch.lock(self._known))
            sessions = read[statements.LOCK_SESSIONS].fetchall()
            (number,) = read[statements.NUMBER].fetchall()
            states = read.get(statements.READ_STATES)
            busy = _busy(connection, batch, {row[0] for row in sessions})
            # One of them may have been deleted by others: the next attempt makes it again.
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
        """Prepare a new connection for the work."""
        if self._opened != self._link.opened:
            # The server may not have noticed that the last one was lost, and keeps its locks.
            connection.execute(statements.END_OTHERS, (self._name,))
            connection.execute(statements.NOT_OFF)
            connection.execute(statements.MAKE_WRITER, (self._id,))
            self._opened = self._link.opened

    def _has_committed(self, number: int) -> bool:
        """Return whether the commit *number* has happened; raises `StoreError` if nothing tells.

        Its row was locked before the commit was sent, so by the time when the row is read that
        transaction has ended, one way or the other.
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
                        statement = statements.FORGET[job.table]
                        return connection.execute(statement, (indexed(job.session_id),)).rowcount
                    return self._forget_sessions(connection, job)
            except Exception as error:  # noqa: BLE001 - whatever it is, who waits must know
                # To delete a second time does no harm.
                if is_last or not self._link.is_lost():
                    return failure_of(self._link.where, error)
        return None

    def _forget_sessions(self, connection: PgConnection, job: ForgetSessionsJob) -> tuple[str, ...]:
        (now_ns,) = connection.execute(statements.CLOCK).fetchone() or (0,)
        now_ns = self._clock() if self._clock else now_ns
        values = {"before": job.before_ns, "now": now_ns, "limit": job.limit}
        sessions = connection.execute(statements.OLD_SESSIONS, values).fetchall()
        keys = [key for key, _ in sessions]
        for statement in statements.DROP_SESSIONS if keys else ():
            connection.execute(statement, (keys,))
        self._known.clear()
        return tuple([unescape(session_id) for _, session_id in sessions])


def _in_words(where: str, result: Exception | JobResult) -> Exception | JobResult:
    if isinstance(result, Exception) and not isinstance(result, NotYetError):
        return failure_of(where, result)
    return result


def _is_of_one(error: Exception) -> bool:
    """Return whether *error* may be about the values of one job, and not about the server."""
    # https://www.postgresql.org/docs/current/errcodes-appendix.html: data, constraints, limits.
    code = (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""
    is_of_values = code[:2] in {"22", "23", "54"} or code == NO_APPROVER
    return is_of_values or isinstance(error, psycopg.DataError)


def _busy(connection: PgConnection, batch: Batch, locked: set[str]) -> frozenset[str]:
    """Return the sessions of *batch* that another transaction has locked, or makes just now."""
    missing = {*batch.names}.difference(locked)
    busy = missing.intersection(batch.made)
    # Jobs that make no session may be of one that is not there, and so not busy.
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
            # Past the end of the pipeline the driver would log it if that fails, too.
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

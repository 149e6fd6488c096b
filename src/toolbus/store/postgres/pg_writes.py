"""What the writer's thread of a PostgreSQL store does: one commit for all who wait, and once."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

from toolbus.errors import StoreError
from toolbus.store.jobs import Append, Forget, ForgetSessions, JobResult
from toolbus.store.postgres import partitions, statements
from toolbus.store.postgres.answer_guard import NO_APPROVER
from toolbus.store.postgres.batches import Batch, PgJob, Plain, Work
from toolbus.store.postgres.connection import PgConnection, PostgresLink, Watchdog
from toolbus.store.postgres.driver import psycopg
from toolbus.store.postgres.encoded_appends import EncodedAppend, encode_append
from toolbus.store.postgres.migrations import SchemaFacts, prepare
from toolbus.store.postgres.postgres_errors import UNKNOWN, failure_of
from toolbus.store.postgres.text_ids import indexed, unescape
from toolbus.store.worker import NotYetError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from toolbus.store.postgres.addresses import DatabaseAddress
    from toolbus.store.postgres.tables import Period

_MAX_KNOWN = 10_000
_MAX_JOBS = 512
"""How many jobs share a commit at most: the keys of a batch have so many bits."""

_MAX_BYTES = 32 << 20
"""Bytes of bodies that share a commit, but for one append that has more: the server takes 1 GB."""

_BYTES_PER_SECOND = 1e6
"""How slow a wire may be before what is sent is taken for lost."""

_AGAIN = ("40P01", "40001")
_HOUR = 3600.0


class _SessionsGoneError(Exception):
    """Sessions that were there have been deleted."""


class PostgresWrites:
    """Does the jobs of a store through a connection of its own."""

    def __init__(self, address: DatabaseAddress, timeout: float, watchdog: Watchdog) -> None:
        self._id = os.urandom(8).hex()
        self._name = f"toolbus writer {self._id}"
        self._link = PostgresLink(address, timeout, watchdog, read_only=False, name=self._name)
        self._timeout, self.commits, self._number = timeout, 0, 0
        self._known: set[str] = set()
        self._facts = SchemaFacts(0, None)
        self._opened, self._ahead_at = 0, 0.0
        # Until when a job waits for its session, by the identity of the job.
        self._bounds: dict[int, float] = {}

    def prepare(self, wished: Period | None) -> None:
        """Make the schema, or bring it up to date."""
        with self._link.exchange(self._timeout, patient=False) as connection:
            self._facts = prepare(self._link.where, connection, wished)
            self._ahead_at = monotonic() + _HOUR

    def serve(self, jobs: Sequence[PgJob]) -> list[Exception | JobResult]:
        """Do *jobs* in their order, in few transactions; those that fail alone are left out.

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
        batch: list[Plain] = []
        encoded: dict[int, EncodedAppend] = {}

        def commit() -> None:
            if batch:
                results.extend(self._commit(tuple(batch), dict(encoded)))
                batch.clear()
                encoded.clear()

        for job in jobs:
            if isinstance(job, Forget | ForgetSessions):
                commit()
                results.append(self._alone(job))
                continue
            try:
                rows = _encode(job)
            except Exception as error:  # noqa: BLE001 - it fails alone, and who waits must know
                commit()
                results.append(failure_of(self._link.where, error))
                continue
            size = sum([other.size for other in encoded.values()])
            if (rows and size + rows.size > _MAX_BYTES) or len(batch) == _MAX_JOBS:
                commit()
            if rows:
                encoded[len(batch)] = rows
            batch.append(job)
        commit()
        return results

    def close(self) -> None:
        """Let go of the connection."""
        if self._number and not self._link.is_lost():
            try:
                with self._link.exchange() as connection:
                    connection.execute(statements.DROP_COMMITS, (self._id,))
            except (psycopg.Error, StoreError):
                pass  # Whoever opens the store a month from now deletes the row.
        self._link.drop()

    def _commit(
        self, jobs: tuple[Plain, ...], encoded: dict[int, EncodedAppend]
    ) -> list[Exception | JobResult]:
        batch = Batch(jobs, encoded)
        try:
            self._once(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must know
            if len(jobs) == 1 or not _is_of_one(error):
                return [failure_of(self._link.where, error) for _ in jobs]
            # One of them is to blame, and the others shall not suffer for it.
            singly = [
                self._commit((job,), {0: encoded[index]} if index in encoded else {})
                for index, job in enumerate(jobs)
            ]
            return [result for (result,) in singly]
        self.commits += 1
        where = self._link.where
        return [
            result
            if isinstance(result, NotYetError)
            else failure_of(where, result)
            if isinstance(result, Exception)
            else result
            for result in batch.results
        ]

    def _once(self, batch: Batch) -> None:
        """Commit *batch* once, also if the connection is lost meanwhile."""
        until = monotonic() + self._timeout
        while True:
            self._number += 1
            sent: list[bool] = []
            try:
                self._try(batch, sent)
            except _SessionsGoneError:
                self._known.clear()
            except psycopg.Error as error:
                if error.sqlstate in _AGAIN and monotonic() < until:
                    continue
                # Another error than a lost connection, or one that goes on being lost.
                if not self._link.is_lost():
                    raise
                if sent and self._has_committed(self._number):
                    return
                if monotonic() > until:
                    raise
            else:
                return

    def _try(self, batch: Batch, sent: list[bool]) -> None:
        with self._link.exchange(batch.size / _BYTES_PER_SECOND) as connection:
            self._greet(connection)
            unknown = [name for name in sorted(batch.made) if name not in self._known]
            work: Work = [("BEGIN", ())]
            if not batch.lasting:
                # Who holds a lease need not survive the server: no holder's lease is for long.
                work.append((statements.SOON, ()))
            work.append((statements.COUNT_COMMIT, (self._id, self._number)))
            count = len(work) + (1 if unknown else 0)
            cursors = _pipeline(connection, work + batch.lock(unknown))
            sessions, (number, *_), *read = [cursor.fetchall() for cursor in cursors[count:]]
            busy = _busy(connection, batch, {row[0] for row in sessions}, unknown)
            states = [row for rows in read for row in rows]
            rest = batch.decide(sessions, number, states, busy)
            if busy.issuperset(batch.names):
                connection.rollback()
                return
            sent.append(True)
            _pipeline(connection, [*rest, ("COMMIT", ())])
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        self._known.update(batch.made.keys() - busy)

    def _greet(self, connection: PgConnection) -> None:
        """Do once on a new connection what the work relies on, and now and then make partitions."""
        if self._opened != self._link.opened:
            # The server may not have noticed that the last one was lost, and keeps its locks.
            connection.execute(statements.END_OTHERS, (self._name,))
            connection.execute(statements.NOT_OFF)
            connection.execute(statements.MAKE_WRITER, (self._id,))
            self._opened = self._link.opened
        if self._facts.period and monotonic() > self._ahead_at:
            self._ahead_at = monotonic() + _HOUR
            self._facts = prepare(self._link.where, connection, None)

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

    def _alone(self, job: Forget | ForgetSessions) -> Exception | JobResult:
        for is_last in (False, True):
            try:
                with self._link.exchange(self._timeout) as connection, connection.transaction():
                    if isinstance(job, Forget):
                        statement = statements.FORGET[job.table]
                        return connection.execute(statement, (indexed(job.session_id),)).rowcount
                    return self._forget_sessions(connection, job)
            except Exception as error:  # noqa: BLE001 - whatever it is, who waits must know
                # To delete a second time does no harm.
                if is_last or not self._link.is_lost():
                    return failure_of(self._link.where, error)
        return None

    def _forget_sessions(self, connection: PgConnection, job: ForgetSessions) -> tuple[str, ...]:
        (now_ns,) = connection.execute(statements.CLOCK).fetchone() or (0,)
        now_ns = job.now_ns or now_ns
        values = {"before": job.before_ns, "now": now_ns, "limit": job.limit}
        sessions = connection.execute(statements.OLD_SESSIONS, values).fetchall()
        keys = [key for key, _, _ in sessions]
        for statement in statements.DROP_SESSIONS if keys else ():
            connection.execute(statement, (keys,))
        self._known.difference_update([name for _, _, name in sessions])
        if self._facts.period and len(keys) < job.limit:
            before = datetime.fromtimestamp(min(job.before_ns, now_ns) / 1e9, UTC)
            partitions.drop_empty(connection, before, self._facts.period)
        return tuple([unescape(session_id) for _, session_id, _ in sessions])


def _is_of_one(error: Exception) -> bool:
    """Tell whether *error* may be about the values of one job, and not about the server."""
    # https://www.postgresql.org/docs/current/errcodes-appendix.html: data, constraints, limits.
    code = (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""
    is_of_values = code[:2] in {"22", "23", "54"} or code == NO_APPROVER
    return is_of_values or isinstance(error, psycopg.DataError)


def _encode(job: Plain) -> EncodedAppend | None:
    job.session_id.encode()
    return encode_append(job) if isinstance(job, Append) else None


def _busy(
    connection: PgConnection, batch: Batch, locked: Collection[str], unknown: Collection[str]
) -> frozenset[str]:
    """Return the sessions of *batch* that another transaction has locked, or makes just now."""
    missing = sorted({*batch.names}.difference(locked))
    if not missing:
        return frozenset()
    rows = connection.execute(statements.EXISTING_SESSIONS, (missing,), binary=True).fetchall()
    busy = frozenset({name for (name,) in rows} | {*missing}.intersection(unknown))
    if not busy.issuperset(batch.made.keys() & missing):
        connection.rollback()
        raise _SessionsGoneError
    return busy


def _pipeline(connection: PgConnection, work: Work) -> list[psycopg.Cursor[tuple[Any, ...]]]:
    """Send all of *work* in one round trip."""
    cursors: list[psycopg.Cursor[tuple[Any, ...]]] = []
    failure: psycopg.Error | None = None
    try:
        with connection.pipeline():
            # Past the end of the pipeline the driver would log it if that fails, too.
            try:
                cursors += [connection.execute(sql, values, binary=True) for sql, values in work]
            except psycopg.Error as error:
                failure = error
    except psycopg.Error as error:
        failure = failure or error
    if failure is not None:
        raise failure
    return cursors

"""Jobs of many sessions as one transaction: what stands there is locked, then all is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.store import rows
from toolbus.store.jobs import Append, Extend, Forget, ForgetSessions, JobResult, Open, Swap
from toolbus.store.leases import Lease, check_position, is_gone, running, this_process
from toolbus.store.postgres import statements
from toolbus.store.postgres.tables import KEYS_PER_SECOND, SECONDS_OFFSET
from toolbus.store.postgres.text_ids import escape, indexed, is_shortened
from toolbus.store.protocol import Position
from toolbus.store.worker import NotYetError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from toolbus.store.postgres.encoded_appends import EncodedAppend

Plain: TypeAlias = Append | Open | Extend | Swap
"""What can share a transaction."""

PgJob: TypeAlias = Plain | Forget | ForgetSessions
"""What the writer of a PostgreSQL store is asked to do."""

Work: TypeAlias = list[tuple[str, tuple[Any, ...]]]
"""Statements and their values."""

FROM_NOW = 10**17
"""Times below this, three years, are not since the epoch but from now on."""

KEY_BITS = 11
"""Each batch has so many bits of keys; a batch of 512 jobs has at most 1,536 rows with a key."""


class _Session:
    """The row of a session, which is locked; *is_followed* if somebody wants to be woken."""

    def __init__(self, row: tuple[Any, ...]) -> None:
        (self.id, self.key, self.messages, self.records, self.created_ns, self.updated_ns) = row[:6]
        self.lease, self.is_followed = Lease(*row[6:10]), bool(row[10])

    @property
    def position(self) -> Position:
        return Position(self.lease.epoch, self.messages)

    def touch(self, now_ns: int, key: int) -> None:
        """Be a session that was written at *now_ns*; if it was not before, under *key*."""
        if self.key is None:
            self.key, self.created_ns = key, now_ns
        self.updated_ns = max(self.updated_ns, now_ns)

    def columns(self) -> tuple[Any, ...]:
        """Return the row as `UPDATE_SESSIONS` takes it."""
        counts = (self.messages, self.records, self.created_ns, self.updated_ns)
        return (self.id, self.key, *counts, *self.lease)


class Batch:
    """The transaction that does *jobs*; `results` has the answer to each, or why it failed.

    Times of jobs are nanoseconds since the epoch; those of `FROM_NOW` are added to the server's
    clock, which is one for all machines, so that no lease lasts longer on one than on another.
    """

    def __init__(self, jobs: Sequence[Plain], encoded: Mapping[int, EncodedAppend]) -> None:
        self._jobs, self._encoded = jobs, encoded
        self.results: list[Exception | JobResult] = []
        self.size = sum([append.size for append in encoded.values()])
        self.lasting = any(isinstance(job, Append | Swap) for job in jobs)
        self.names = [indexed(job.session_id) for job in jobs]
        made = {name: job for name, job in zip(self.names, jobs, strict=True) if _makes(job)}
        self.made = {name: made[name].session_id for name in sorted(made)}

    def lock(self, unknown: Iterable[str]) -> Work:
        """Return what locks the sessions, of which the *unknown* are made first."""
        ids = sorted(set(self.names))
        work: Work = []
        if new := [name for name in unknown if name in self.made]:
            # The whole id where the index has not all of it.
            whole = [escape(self.made[name]) if is_shortened(name) else None for name in new]
            work.append((statements.MAKE_SESSIONS, (new, whole)))
        work.append((statements.LOCK_SESSIONS, (ids,)))
        work.append((statements.NUMBER, ()))
        if swaps := [index for index, job in enumerate(self._jobs) if isinstance(job, Swap)]:
            names = [indexed(self._jobs[index].name) for index in swaps]  # type: ignore[union-attr]  # they are swaps
            work.append((statements.READ_STATES, ([self.names[index] for index in swaps], names)))
        return work

    def decide(
        self,
        sessions: list[Any],
        number: tuple[int, int],
        states: Iterable[tuple[str, str, bytes]],
        busy: Collection[str],
    ) -> Work:
        """Do the jobs on the rows that were read; return what writes the outcome.

        Jobs of the sessions *busy*, which another transaction has locked, are not done yet.
        """
        rows_now = BatchRows(number)
        jobs = [_in_time(job, rows_now.now_ns) for job in self._jobs]
        entries = {row[0]: _Session(row) for row in sessions}
        values = {(session, name): body for session, name, body in states}
        self.results = []
        for index, (name, job) in enumerate(zip(self.names, jobs, strict=True)):
            entry = entries.get(name)
            if name in busy:
                self.results.append(NotYetError())
                continue
            try:
                self.results.append(self._do(index, job, entry, values, rows_now))
            except Exception as error:  # noqa: BLE001 - it fails alone, and who waits must know
                self.results.append(error)
        return rows_now.work(entries.values())

    def _do(
        self,
        index: int,
        job: Plain,
        entry: _Session | None,
        values: dict[tuple[str, str], bytes],
        rows_now: BatchRows,
    ) -> JobResult:
        match job:
            case Extend(until_ns, _, holder):
                if entry is not None and entry.lease.holder == holder:
                    entry.lease = entry.lease._replace(until_ns=until_ns)
                return None
            case Swap():
                return rows_now.swap(job, entry, values)
        assert entry is not None  # noqa: S101 - such a job makes its session
        if isinstance(job, Open):
            return _open(job, entry)
        check = job.stored.at
        if check is not None:
            check_position(job.session_id, check, entry.position)
        rows_now.append(job, entry, self._encoded[index])
        return None


def _in_time(job: Plain, now_ns: int) -> Plain:
    """Return *job* with times since the epoch, where it counts them from *now_ns*."""
    match job:
        case Open(until_ns=until_ns) if until_ns < FROM_NOW:
            return job._replace(now_ns=now_ns, until_ns=now_ns + until_ns)
        case Extend(until_ns=until_ns) if until_ns < FROM_NOW:
            return job._replace(until_ns=now_ns + until_ns)
        case Append(now_ns=0) | Swap(now_ns=0):
            return job._replace(now_ns=now_ns)
    return job


def _makes(job: Plain) -> bool:
    """Tell whether *job* needs a row of its session, and makes it if it is not there."""
    return isinstance(job, Append | Open) or (isinstance(job, Swap) and job.new is not None)


def _open(job: Open, entry: _Session) -> Position:
    lease = entry.lease
    if lease.keeps_out(job.holder, job.now_ns) and not is_gone(lease.process):
        raise running(job.session_id)
    entry.lease = Lease(lease.epoch + 1, job.holder, this_process(), job.until_ns)
    return entry.position


class BatchRows:
    """The rows that a batch writes, by table; *number* is that of the batch, and its time."""

    def __init__(self, number: tuple[int, int]) -> None:
        batch, self.now_ns = number
        self._seconds = self.now_ns // 10**9 - SECONDS_OFFSET
        self._next = batch << KEY_BITS
        self._messages: list[tuple[Any, ...]] = []
        self._calls: list[tuple[Any, ...]] = []
        self._pages: list[tuple[Any, ...]] = []
        self._mentions: list[tuple[Any, ...]] = []
        self._originals: list[tuple[Any, ...]] = []
        self._states: dict[tuple[int, str], bytes | None] = {}
        self._woken: set[str] = set()

    def _key(self) -> int:
        self._next += 1
        return self._next

    def _touch(self, entry: _Session, now_ns: int) -> None:
        key = 0
        if entry.key is None:
            key = self._seconds * KEYS_PER_SECOND + self._key() % KEYS_PER_SECOND
        entry.touch(now_ns, key)

    def append(self, job: Append, entry: _Session, encoded: EncodedAppend) -> None:
        """Add the rows of *job* to what is written."""
        now_ns = job.now_ns
        self._touch(entry, now_ns)
        keys = [self._key() for _ in encoded.messages]
        first = entry.messages + 1
        for seq, (key, row) in enumerate(zip(keys, encoded.messages, strict=True), first):
            self._messages.append((entry.key, seq, key, *row, now_ns))
        for index, call_id, *facts in encoded.calls:
            self._calls.append((call_id, keys[index], entry.key, first + index, *facts))
        entry.messages += len(keys)
        if encoded.page is not None:
            place = entry.messages + (0 if keys else 1)
            key = keys[-1] if keys else -self._key()
            page = (entry.key, place, entry.records + 1)
            self._pages.append((*page, key, *encoded.page, now_ns))
            self._mentions += [(name, key, *page) for name in encoded.mentions]
            entry.records += encoded.page[0]
        for original in job.stored.originals:
            self._originals.append((entry.key, indexed(original.digest), original.body))
        if entry.is_followed:
            self._woken.add(entry.id)

    def swap(self, job: Swap, entry: _Session | None, values: dict[tuple[str, str], bytes]) -> bool:
        """Put the new value where the old one stands; return False if another one does."""
        name = indexed(job.name)
        place = (indexed(job.session_id), name)
        if job.old != values.get(place):
            return False
        if job.new is not None and entry is not None:
            rows.state_row(job.new)
            self._touch(entry, job.now_ns)
            values[place] = job.new
            self._states[entry.key, name] = job.new
        elif values.pop(place, None) is not None and entry is not None:
            self._states[entry.key, name] = None
        return True

    def work(self, entries: Iterable[_Session]) -> Work:
        """Return the statements that write it all."""
        columns = [entry.columns() for entry in entries]
        changed = [
            (*place, *_state(body)) for place, body in self._states.items() if body is not None
        ]
        dropped = [place for place, body in self._states.items() if body is None]
        tables: list[tuple[str, Sequence[tuple[Any, ...]]]] = [
            (statements.UPDATE_SESSIONS, columns),
            (statements.ADD_MESSAGES, self._messages),
            (statements.ADD_CALLS, self._calls),
            (statements.ADD_PAGES, self._pages),
            (statements.ADD_MENTIONS, self._mentions),
            (statements.ADD_ORIGINALS, self._originals),
            (statements.SET_STATES, changed),
            (statements.DROP_STATES, dropped),
            (statements.NOTIFY, [(name,) for name in sorted(self._woken)]),
        ]
        return [(sql, tuple(map(list, zip(*lines, strict=True)))) for sql, lines in tables if lines]


def _state(body: bytes) -> tuple[int, bytes, int]:
    version, text, checksum = rows.state_row(body)
    return version, text.encode(), checksum

"""A transaction of jobs of many sessions: it locks the sessions, then writes all rows."""

from __future__ import annotations

from os import urandom
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from toolbus.messages.records import AssistantMessage, Message, ToolMessage
from toolbus.store import rows
from toolbus.store.chain import BATCHES, MESSAGES, SALT, Chains, salted_state
from toolbus.store.jobs import AppendJob, ExtendLeaseJob, JobResult, OpenSessionJob, SwapStateJob
from toolbus.store.leases import Lease, check_position, this_process
from toolbus.store.postgres import statements
from toolbus.store.postgres.tables import KEYS_PER_SECOND, SECONDS_OFFSET
from toolbus.store.postgres.text_ids import escape, indexed, is_shortened
from toolbus.store.protocol import Position
from toolbus.store.worker import NotYetError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from toolbus.store.protocol import AppendRequest

Work: TypeAlias = list[tuple[str, tuple[Any, ...]]]
"""Statements and their values."""

KEY_BITS = 11
"""The bits of keys of a batch: a batch of 512 jobs has at most 1,536 rows with a key."""


class EncodedAppend(NamedTuple):
    """The rows of an append, without the numbers, which are known once its session is locked.

    *calls* are (index of the message, id, tool, status, duration); *size* is in characters.
    """

    session_id: str
    request: AppendRequest
    salt: bytes
    messages: tuple[tuple[str, int, str, int, bytes], ...]
    calls: tuple[tuple[int, str, str, str | None, int | None], ...]
    batch: tuple[int, int, str, int, bytes] | None
    mentions: tuple[str, ...]
    size: int


BatchJob: TypeAlias = EncodedAppend | OpenSessionJob | ExtendLeaseJob | SwapStateJob
"""A job that shares a transaction with other jobs."""


def encode_append(job: AppendJob) -> EncodedAppend:
    """Return the rows of *job*."""
    request, salt = job.request, urandom(SALT)
    messages = [rows.message_row(message, salt) for message in request.messages]
    calls = [
        (index, indexed(call_id), escape(tool), status, duration)
        for index, message in enumerate(request.messages)
        for call_id, tool, status, duration in _calls_of(message)
    ]
    batch = rows.batch_row(request.records, salt) if request.records else None
    mentions = rows.mentioned(request.records, request.message)
    bodies = [row[2] for row in messages] + ([batch[2]] if batch else [])
    return EncodedAppend(
        job.session_id,
        request,
        salt,
        tuple([(indexed(row[0]), *row[1:]) for row in messages]),
        tuple(calls),
        batch,
        tuple([indexed(name) for name in sorted(mentions)]),
        sum(map(len, [*bodies, *[original.body for original in request.originals]])),
    )


def _calls_of(message: Message) -> Iterator[tuple[str, str, str | None, int | None]]:
    match message:
        case ToolMessage(tool_call_id=call_id, tool_name=tool, tool_response=response):
            if response is None:
                yield call_id, tool, "ok", None
            else:
                status = (response.error_type or "error") if response.is_error else "ok"
                yield call_id, tool, escape(status), response.duration_ns
        case AssistantMessage(tool_calls=calls):
            yield from [(call.id, call.name, None, None) for call in calls]


class _Session:
    """The locked row of a session; *is_followed* if a follower waits for its messages."""

    def __init__(self, row: tuple[Any, ...]) -> None:
        (self.id, self.key, self.messages, self.records, self.created_ns, self.updated_ns) = row[:6]
        self.lease, self.is_followed = Lease(*row[6:10]), bool(row[10])
        self.chains = Chains(self.id, row[11])

    @property
    def position(self) -> Position:
        return Position(self.lease.epoch, self.messages)

    def columns(self) -> tuple[Any, ...]:
        """Return the columns for `UPDATE_SESSIONS`."""
        counts = (self.messages, self.records, self.created_ns, self.updated_ns)
        return (self.id, self.key, *counts, *self.lease, self.chains.column)


class Batch:
    """The transaction that does *jobs*; `results` has the result or the error of each.

    *clock* returns nanoseconds since the epoch; None is the server's clock, which all machines
    share, so that a lease has the same end on each.
    """

    def __init__(self, jobs: Sequence[BatchJob], clock: Callable[[], int] | None) -> None:
        self._jobs, self._clock = jobs, clock
        self.results: list[Exception | JobResult] = []
        self.size = sum([job.size for job in jobs if isinstance(job, EncodedAppend)])
        self.lasting = any(isinstance(job, EncodedAppend | SwapStateJob) for job in jobs)
        self.names = [indexed(job.session_id) for job in jobs]
        made = {name: job for name, job in zip(self.names, jobs, strict=True) if _makes(job)}
        self.made = {name: made[name].session_id for name in sorted(made)}

    def lock(self, known: Collection[str]) -> Work:
        """Return the statements that create missing sessions, lock all, and read states."""
        work: Work = []
        if new := [name for name in self.made if name not in known]:
            # The whole id, if the index has a shortened one.
            whole = [escape(self.made[name]) if is_shortened(name) else None for name in new]
            work.append((statements.MAKE_SESSIONS, (new, whole)))
        work.append((statements.LOCK_SESSIONS, (sorted(set(self.names)),)))
        work.append((statements.NUMBER, ()))
        jobs = zip(self.names, self._jobs, strict=True)
        if swaps := [
            (name, indexed(job.name)) for name, job in jobs if isinstance(job, SwapStateJob)
        ]:
            sessions, names = zip(*swaps, strict=True)
            work.append((statements.READ_STATES, ([*sessions], [*names])))
        return work

    def decide(
        self,
        sessions: list[Any],
        number: tuple[int, int],
        states: Iterable[tuple[str, str, bytes]],
        busy: Collection[str],
    ) -> Work:
        """Do the jobs on the rows that were read; return the statements that write the outcome.

        Jobs of the sessions *busy*, which another transaction has locked, are not done yet.
        """
        written = BatchRows(number, states, self._clock)
        entries = {row[0]: _Session(row) for row in sessions}
        self.results = []
        for name, job in zip(self.names, self._jobs, strict=True):
            if name in busy:
                self.results.append(NotYetError())
                continue
            try:
                self.results.append(written.do(job, entries.get(name)))
            except Exception as error:  # noqa: BLE001 - the job fails alone, with this error
                self.results.append(error)
        return written.work(entries.values())


def _makes(job: BatchJob) -> bool:
    """Return whether *job* creates its session if it does not exist."""
    return isinstance(job, EncodedAppend | OpenSessionJob) or (
        isinstance(job, SwapStateJob) and job.new is not None
    )


class BatchRows:
    """The rows that a batch writes, by table.

    *number* is the number of the batch and the server's time; *states* are the current values for
    its swaps.
    """

    def __init__(
        self,
        number: tuple[int, int],
        states: Iterable[tuple[str, str, bytes]],
        clock: Callable[[], int] | None,
    ) -> None:
        batch, server_ns = number
        self._now_ns = server_ns if clock is None else clock()
        self._seconds = server_ns // 10**9 - SECONDS_OFFSET
        self._next = batch << KEY_BITS
        self._values = {(session, name): body for session, name, body in states}
        self._messages: list[tuple[Any, ...]] = []
        self._calls: list[tuple[Any, ...]] = []
        self._record_batches: list[tuple[Any, ...]] = []
        self._mentions: list[tuple[Any, ...]] = []
        self._originals: list[tuple[Any, ...]] = []
        self._states: dict[tuple[int, str], tuple[int, bytes, int, bytes | None] | None] = {}
        self._links: list[tuple[Any, ...]] = []
        self._woken: set[str] = set()

    def do(self, job: BatchJob, entry: _Session | None) -> JobResult:
        """Do *job* on its session *entry*; None is a missing one, which *job* does not create."""
        match job:
            case ExtendLeaseJob():
                if entry is not None:
                    entry.lease = entry.lease.extended(job.holder, job.seconds, self._now_ns)
                return None
            case SwapStateJob():
                return self._swap(job, entry)
        assert entry is not None  # noqa: S101 - such a job creates its session
        if isinstance(job, OpenSessionJob):
            entry.lease = entry.lease.taken(job, this_process(), self._now_ns)
            return entry.position
        self._append(job, entry)
        return None

    def _append(self, job: EncodedAppend, entry: _Session) -> None:
        check_position(job.session_id, job.request.at, entry.position)
        now_ns = self._touch(entry, job.request.written_ns)
        keys = [self._key() for _ in job.messages]
        first = entry.messages + 1
        for seq, (key, (*row, committed)) in enumerate(zip(keys, job.messages, strict=True), first):
            label = f"{seq}:{rows.ENCODING}:{row[0]}"
            seal = job.salt + entry.chains.extend(MESSAGES, committed, label)
            self._messages.append((entry.key, seq, key, *row, now_ns, seal))
        for index, call_id, *facts in job.calls:
            self._calls.append((call_id, keys[index], entry.key, first + index, *facts))
        entry.messages += len(keys)
        if job.batch is not None:
            place = entry.messages + (0 if keys else 1)
            key = keys[-1] if keys else -self._key()
            batch = (entry.key, place, entry.records + 1)
            *row, committed = job.batch
            label = f"{place}:{entry.records + 1}:{row[0]}:{rows.ENCODING}"
            seal = job.salt + entry.chains.extend(BATCHES, committed, label)
            self._record_batches.append((*batch, key, *row, now_ns, seal))
            self._mentions += [(name, key, *batch) for name in job.mentions]
            entry.records += job.batch[0]
        for original in job.request.originals:
            self._originals.append((entry.key, indexed(original.digest), original.body))
        if entry.is_followed:
            self._woken.add(entry.id)

    def _swap(self, job: SwapStateJob, entry: _Session | None) -> bool:
        name = indexed(job.name)
        place = (indexed(job.session_id), name)
        if job.old != self._values.get(place):
            return False
        if entry is None or job.new is job.old is None:
            return True
        salt, committed = salted_state(job.name, job.new)
        # First, since a damaged chain is an error, and then no state is written.
        link = entry.chains.extend_questions(name, committed) if committed else ()
        if job.new is not None:
            version, body, checksum = rows.state_row(job.new)
            self._touch(entry, job.written_ns)
            self._values[place] = job.new
            self._states[entry.key, name] = version, body.encode(), checksum, salt
        else:
            del self._values[place]
            self._states[entry.key, name] = None
        if link:
            self._links.append((entry.key, *link))
        return True

    def _touch(self, entry: _Session, written_ns: int | None) -> int:
        """Mark *entry* as written at *written_ns*, by default now; return the time."""
        now_ns = self._now_ns if written_ns is None else written_ns
        if entry.key is None:
            entry.key = self._seconds * KEYS_PER_SECOND + self._key() % KEYS_PER_SECOND
            entry.created_ns = now_ns
        entry.updated_ns = max(entry.updated_ns, now_ns)
        return now_ns

    def _key(self) -> int:
        self._next += 1
        return self._next

    def work(self, entries: Iterable[_Session]) -> Work:
        """Return the statements that write all rows."""
        columns = [entry.columns() for entry in entries]
        changed = [(*place, *row) for place, row in self._states.items() if row is not None]
        dropped = [place for place, row in self._states.items() if row is None]
        tables: list[tuple[str, Sequence[tuple[Any, ...]]]] = [
            (statements.UPDATE_SESSIONS, columns),
            (statements.ADD_MESSAGES, self._messages),
            (statements.ADD_CALLS, self._calls),
            (statements.ADD_BATCHES, self._record_batches),
            (statements.ADD_MENTIONS, self._mentions),
            (statements.ADD_ORIGINALS, self._originals),
            (statements.SET_STATES, changed),
            (statements.DROP_STATES, dropped),
            (statements.ADD_LINKS, self._links),
            (statements.NOTIFY, [(name,) for name in sorted(self._woken)]),
        ]
        return [(sql, tuple(map(list, zip(*lines, strict=True)))) for sql, lines in tables if lines]

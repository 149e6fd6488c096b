"""The recovery of a damaged file: its readable rows in a new file."""

from __future__ import annotations

import os
from collections import deque
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.errors import StoreError, WrongPathError
from toolbus.store.check.call_pairs import CallPairs
from toolbus.store.check.damaged_file import open_damaged
from toolbus.store.check.session_check import SavedRows, check_reader, damage_of
from toolbus.store.jobs import AppendJob, SwapStateJob
from toolbus.store.protocol import AppendRequest
from toolbus.store.sqlite.files import beside, connect, create_private
from toolbus.store.sqlite.sqlite_errors import wrap_errors
from toolbus.store.sqlite.writes import Writes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toolbus.store.check.damaged_file import DamagedFile
    from toolbus.store.check.session_check import CheckReport, ProgressCallback
    from toolbus.store.store_reader import MessageRow, RecordBatch, SessionRow

_BATCH = 256
"""The number of appends in a transaction."""

_SAVED = """SELECT count(*), (SELECT count(*) FROM messages), coalesce(sum(records), 0),
    (SELECT count(*) FROM originals), (SELECT count(*) FROM states) FROM sessions"""


def recover(where: str, new: str, progress: ProgressCallback) -> CheckReport:
    """Write the readable rows of the store file *where* to the file *new*; return the report.

    *new* is created completely or not at all, and *where* does not change. Messages and records
    keep their order and ids; after lost rows they are renumbered. A call with several answers
    keeps the best one, right after it, and the notes mention it. Raises `StoreError`, also if
    nothing is readable, and `WrongPathError` if *new* exists. A process that has the file open
    must not call this, as with `open_damaged`.
    """
    goal = Path(os.path.realpath(new))
    part = goal.with_name(f".{goal.name}.{os.getpid()}.part")
    _check_absent(new, goal)
    repairs: list[str] = []
    try:
        with wrap_errors(new):
            create_private(part)
        with open_damaged(where) as file:
            report = check_reader(where, file, progress)
            if report.problems and not report.sessions:
                problem = report.problems[0]
                reason = f"nothing can be recovered, so restore it from a copy: {problem}"
                raise StoreError(where, reason)
            jobs = (job for each in file.sessions() for job in _jobs(file, each, repairs))
            saved = _write(jobs, new, part)
        _check_absent(new, goal)
        with wrap_errors(new):
            part.rename(goal)
    finally:
        for end in ("", "-wal", "-shm"):
            beside(part, end).unlink(missing_ok=True)
    return replace(report, recovered=new, saved=saved, notes=(*report.notes, *repairs))


def _check_absent(new: str, goal: Path) -> None:
    if os.path.lexists(goal):
        raise WrongPathError(new, "the file exists already; give the path of a new one")
    if not goal.parent.is_dir():
        raise WrongPathError(new, f"there is no folder {str(goal.parent)!r}; make it first")


def _write(jobs: Iterator[AppendJob | SwapStateJob], new: str, part: Path) -> SavedRows:
    """Do *jobs* in the new store *part*, which renumbers and indexes all rows."""
    with wrap_errors(new), closing(connect(part, 5.0, "rw")) as target:
        writes = Writes(str(part), target)
        writes.prepare(5.0)
        while batch := list(islice(jobs, _BATCH)):
            for answer in writes.serve(batch):
                if isinstance(answer, StoreError):
                    raise StoreError(new, answer.reason) from answer
        return SavedRows(*target.execute(_SAVED).fetchone())


def _jobs(
    file: DamagedFile, session: SessionRow, repairs: list[str]
) -> Iterator[AppendJob | SwapStateJob]:
    """Yield the jobs that write the readable rows of *session*; add each repair to *repairs*."""
    pairing, rows = CallPairs(), list(file.messages(session.key))
    for row in rows:
        pairing.add(row)
    # The order of overlapping calls is kept unless the session has problems.
    if not any(pairing.problems()):
        pairing = CallPairs()
    repairs += [f"session {session.id!r}: {repair}" for repair in pairing.repairs()]
    # The first append creates the session, at its original time.
    yield AppendJob(session.id, AppendRequest(written_ns=session.created_ns))
    moment = session.updated_ns
    for request in _entries(rows, dict(file.keyed_batches(session.key)), pairing):
        yield AppendJob(session.id, replace(request, written_ns=moment))
    for original in file.originals(session.key):
        if not damage_of(original):
            yield AppendJob(session.id, AppendRequest(originals=(original,), written_ns=moment))
    for state in file.states(session.key):
        if state.body is not None:
            yield SwapStateJob(session.id, state.name, None, state.body, moment)


def _entries(
    rows: Sequence[MessageRow], batches: Mapping[int, RecordBatch], pairing: CallPairs
) -> Iterator[AppendRequest]:
    """Yield messages with their records, and between them the records without a message."""
    entries = {
        key: (batch.message_seq, AppendRequest(records=batch.records))
        for key, batch in batches.items()
    }
    for row in rows:
        message = None if row.key in pairing.left_out else row.message
        _, beside = entries.get(row.key, (0, AppendRequest()))
        entries[row.key] = row.seq, replace(beside, message=message)
    leftovers = deque([entries[key] for key in sorted(entries, reverse=True) if key <= 0])
    for key in sorted([key for key in entries if key > 0], key=pairing.position):
        place, request = entries[key]
        while leftovers and leftovers[0][0] <= place:
            yield leftovers.popleft()[1]
        yield request
    yield from [request for _, request in leftovers]

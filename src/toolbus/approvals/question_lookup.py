"""Questions and grants of all sessions of a store: by the beginning of an id, or by their state."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial
from heapq import heappush, heappushpop
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolbus.approvals.questions import GRANT_PREFIX, PREFIX, Grant
from toolbus.approvals.records import decode_grant, decode_question
from toolbus.approvals.recovery import with_effective_state
from toolbus.errors import DecodeError
from toolbus.messages.codec import decoder
from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import ToolMessage
from toolbus.settings.usage_error import UsageError
from toolbus.settings.visible_text import shorten_visible
from toolbus.store.leases import is_gone
from toolbus.store.sql_reader import FEW, SqlReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from toolbus.approvals.questions import Question
    from toolbus.store.store_reader import SessionRow, StateRow

T = TypeVar("T", "Question", "Grant")

OPEN = frozenset({"pending", "approved", "taken", "unknown", "hosted"})
"""The states of a question that still needs an answer, a run or a result."""

_RUNNING_HERE = frozenset({"agent", "proxy"})
"""The hosts whose process both takes a yes and runs the call."""


_WAITING = frozenset({"pending", "hosted"})
"""The states of a question without an answer."""


MOST_WAITING, MOST_CLOSED = 20, 50
"""The most questions of an overview."""

_COUNT_SECONDS = 1.0


class Damaged(NamedTuple):
    """The *problem* of a question or grant that cannot be read."""

    problem: str


class QuestionOverview(NamedTuple):
    """Whole questions without an answer, the oldest first, and the latest others without arguments.

    *behind* is the number of further questions without an answer.
    """

    waiting: tuple[Question, ...]
    closed: tuple[Question, ...]
    damaged: tuple[Damaged, ...]
    behind: int


class QuestionTimes(Struct):
    """The times of a question, and the *grant* that answered it; its texts are skipped."""

    asked_ns: int
    expires_ns: int
    state: str = "pending"
    answered_ns: int = 0
    grant: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the question has no answer; it may have expired."""
        return self.state in _WAITING


class _PendingFields(Struct):
    """The fields that tell whether a question is pending; the rest of its record is skipped."""

    expires_ns: int
    state: str = "pending"


_decode_pending, _decode_times = decoder(_PendingFields), decoder(QuestionTimes)


def read_questions(
    reader: SqlReader, now_ns: int, prefix: str = ""
) -> Iterator[Question | Damaged]:
    """Yield the questions whose ids begin with *prefix*, in their effective state.

    They come in the order of their ids, a few in memory at a time.
    """
    for session, row in reader.states_like(PREFIX + prefix):
        question = _decoded(decode_question, PREFIX, session, row)
        yield question if isinstance(question, Damaged) else _known(reader, question, now_ns)


def read_overview(
    reader: SqlReader, now_ns: int, session: SessionRow | None = None
) -> QuestionOverview:
    """Return the questions of the store, or of *session*, for a person."""
    unanswered: list[Question] = []
    others: list[tuple[int, str, str, Question]] = []
    damaged: list[Damaged] = []
    for question in _questions(reader, now_ns, session):
        if isinstance(question, Damaged):
            damaged.append(question)
            continue
        # Arguments may be large: those of the shown questions are read again.
        light = replace(question, arguments=EMPTY, requested_arguments=None)
        if question.state in _WAITING:
            unanswered.append(light)
        else:
            entry = (_closed_ns(question), question.id, question.session_id, light)
            (heappush if len(others) < MOST_CLOSED else heappushpop)(others, entry)
    unanswered.sort(key=lambda question: (question.asked_ns, question.id))
    whole = [read_one(reader, each, now_ns) for each in unanswered[:MOST_WAITING]]
    return QuestionOverview(
        tuple([each for each in whole if each is not None]),
        tuple([question for *_, question in sorted(others, reverse=True)]),
        tuple(damaged),
        len(unanswered[MOST_WAITING:]),
    )


def _questions(
    reader: SqlReader, now_ns: int, session: SessionRow | None
) -> Iterator[Question | Damaged]:
    if session is None:
        yield from read_questions(reader, now_ns)
        return
    for row in reader.states(session.key):
        if row.name.startswith(PREFIX):
            question = _decoded(decode_question, PREFIX, session.id, row)
            yield question if isinstance(question, Damaged) else _known(reader, question, now_ns)


def read_one(reader: SqlReader, question: Question, now_ns: int) -> Question | None:
    """Return the current version of *question*; None if it was deleted, or is damaged now."""
    row = reader.state(question.session_id, PREFIX + question.id)
    current = None if row is None else _decoded(decode_question, PREFIX, question.session_id, row)
    return (
        None if current is None or isinstance(current, Damaged) else _known(reader, current, now_ns)
    )


def count_pending(reader: SqlReader, now_ns: int) -> int:
    """Return the number of questions that wait for an answer in the store."""
    count = 0
    for _, row in reader.states_like(PREFIX):
        try:
            pending = None if row.body is None else _decode_pending(row.body)
        except DecodeError:
            continue
        if pending is not None and pending.state == "pending" and now_ns < pending.expires_ns:
            count += 1
    return count


def read_times(reader: SqlReader, session: int) -> Iterator[QuestionTimes]:
    """Yield the times of the readable questions of the session with this key."""
    for row in reader.states(session):
        if row.body is not None and row.name.startswith(PREFIX):
            with suppress(DecodeError):
                yield _decode_times(row.body)


class PendingCount:
    """The number of pending questions in the store of *reading*, counted at most once a second."""

    def __init__(self, reading: Callable[[], AbstractContextManager[SqlReader]]) -> None:
        self._reading, self._guard = reading, threading.Lock()
        self._count, self._until = 0, 0.0

    def __call__(self) -> int:
        """Return the number; threads may share it."""
        with self._guard:
            if time.monotonic() >= self._until:
                with self._reading() as reader:
                    self._count = count_pending(reader, time.time_ns())
                self._until = time.monotonic() + _COUNT_SECONDS
            return self._count

    def forget(self) -> None:
        """Count again at the next call."""
        self._until = 0.0


def read_grants(reader: SqlReader, prefix: str = "") -> Iterator[Grant | Damaged]:
    """Yield the grants whose ids begin with *prefix*, in the order of their ids."""
    for session, row in reader.states_like(GRANT_PREFIX + prefix):
        yield _decoded(decode_grant, GRANT_PREFIX, session, row)


def find_question(reader: SqlReader, name: str, now_ns: int) -> Question:
    """Return the question with the id *name*, or the only beginning; raises `UsageError`."""
    return _only("question", name, partial(read_questions, reader, now_ns))


def find_grant(reader: SqlReader, name: str) -> Grant:
    """Return the grant with the id *name*, or the only beginning; raises `UsageError`."""
    return _only("grant", name, partial(read_grants, reader))


def is_active(grant: Grant, now_ns: int) -> bool:
    """Return whether *grant* has neither ended nor been revoked; its rules may have changed."""
    return not grant.revoked_ns and (not grant.expires_ns or now_ns < grant.expires_ns)


def is_answered(reader: SqlReader, question: Question) -> bool:
    """Return whether the transcript has an answer to the call of *question*."""
    session = reader.session(question.session_id)
    if session is None or not question.call_id:
        return False
    rows = reader.messages_of_call(question.call_id, session.key)
    return any(isinstance(row.message, ToolMessage) for row in rows)


def taker_is_gone(question: Question) -> bool:
    """Return whether the process that took the yes has certainly ended."""
    return is_gone(question.taken_by.rpartition("/")[0])


def _known(reader: SqlReader, question: Question, now_ns: int) -> Question:
    # A coding agent runs its tool after our hook has ended; later hooks report the result.
    is_ours = question.host in _RUNNING_HERE
    if question.state != "taken" or not is_ours or not taker_is_gone(question):
        return with_effective_state(question, now_ns)
    # On other hosts a repeated call has another id, and the answer of the first call stays.
    if question.host == "agent" and is_answered(reader, question):
        return replace(question, state="done")
    return with_effective_state(question, now_ns, taker_is_gone=True)


def _closed_ns(question: Question) -> int:
    return max(question.answered_ns, question.taken_ns, question.ended_ns) or question.expires_ns


def _decoded(decode: Callable[[bytes], T], prefix: str, session: str, row: StateRow) -> T | Damaged:
    if row.body is None:
        return Damaged(row.problem_in(session))
    try:
        record = decode(row.body)
    except DecodeError as error:
        return Damaged(row._replace(damage=f"cannot be read: {error}").problem_in(session))
    # The answer must be about the question that the person was shown.
    if row.name != prefix + record.id or session != record.session_id:
        place = f"{record.id!r} of session {record.session_id!r}"
        return Damaged(row._replace(damage=f"says that it is {place}").problem_in(session))
    return record


def _only(kind: str, name: str, read: Callable[[str], Iterator[T | Damaged]]) -> T:
    # A record that fits outranks one that is damaged, and a damaged one outranks none.
    records = list(islice(read(name), FEW)) if name else []
    readable = [record for record in records if not isinstance(record, Damaged)]
    exact = [record for record in readable if record.id == name]
    match exact or readable:
        case [record]:
            return record
        case [_, *_] as several:
            ids = ", ".join([shorten_visible(record.id) for record in several[:3]])
            raise UsageError(f"{name!r} matches several {kind}s ({ids}); give more of the id")
    problems = [record.problem for record in records if isinstance(record, Damaged)]
    if problems:
        raise UsageError("; ".join(problems))
    way_out = "`toolbus approvals --all`" if kind == "question" else "`toolbus approvals grants`"
    raise UsageError(f"no {kind} {name!r} in this store; see {way_out}, with the same --store")

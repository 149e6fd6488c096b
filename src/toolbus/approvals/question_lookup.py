"""Questions and grants of all sessions of a store, found by the beginning of an id."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec.structs import replace

from toolbus.approvals.questions import GRANT_PREFIX, PREFIX, Grant
from toolbus.approvals.records import decode_grant, decode_question
from toolbus.approvals.recovery import with_effective_state
from toolbus.errors import DecodeError
from toolbus.messages.records import ToolMessage
from toolbus.settings.usage_error import UsageError
from toolbus.settings.visible_text import shorten_visible
from toolbus.store.leases import is_gone
from toolbus.store.sql_reader import FEW, SqlReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.approvals.questions import Question
    from toolbus.store.store_reader import StateRow

T = TypeVar("T", "Question", "Grant")

OPEN = frozenset({"pending", "approved", "taken", "unknown", "hosted"})
"""The states of a question that still needs an answer, a run or a result."""

_RUNNING_HERE = frozenset({"agent", "proxy"})
"""The hosts whose process both takes a yes and runs the call."""


class Damaged(NamedTuple):
    """The *problem* of a question or grant that cannot be read."""

    problem: str


def read_questions(
    reader: SqlReader, now_ns: int, prefix: str = ""
) -> Iterator[Question | Damaged]:
    """Yield the questions whose ids begin with *prefix*, in their effective state.

    They come in the order of their ids, a few in memory at a time.
    """
    for session, row in reader.states_like(PREFIX + prefix):
        question = _decoded(decode_question, PREFIX, session, row)
        yield question if isinstance(question, Damaged) else _known(reader, question, now_ns)


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

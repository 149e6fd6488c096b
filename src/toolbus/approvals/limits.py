"""How often a person is asked: what is beyond that is denied, and the person hears of it once.

Counted is in one state of the outermost session, by swaps: so many processes count as one does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from toolbus.approvals.grants import granting_session
from toolbus.approvals.records import questions_of, read_question
from toolbus.errors import DecodeError
from toolbus.events.catalogue import Deny
from toolbus.messages.codec import decoder, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.approvals.questions import Question
    from toolbus.store.protocol import Store

OPEN, HOURLY, DENIALS = 20, 200, 3
"""The limits if none are given."""

COUNTS_NAME = "tally"
HOUR_NS = 3_600 * 10**9
_BEING_WRITTEN_NS = 60 * 10**9
"""For how long a question counts as open that its process has not written yet.

Of two processes at once the one that counts later may have looked at its clock before.
"""


class QuestionLimits(NamedTuple):
    """How many questions a session and those below it may have: waiting, and within an hour.

    After so many *denials* a call is not asked about again in its session. None: no limit. What
    grants answer does not count. *notify* gets a session and why it asks no more, once an hour.
    """

    open: int | None = OPEN
    hourly: int | None = HOURLY
    denials: int | None = DENIALS
    notify: Callable[[str, str], None] | None = None


class OpenQuestion(Struct, frozen=True, array_like=True):
    """A question that was about to be asked at *asked_ns*."""

    session_id: str
    id: str
    asked_ns: int


class QuestionCounts(Struct, frozen=True, omit_defaults=True):
    """Questions that may be *open*, and how many were *asked* since *hour_ns*."""

    open: tuple[OpenQuestion, ...] = ()
    hour_ns: int = 0
    asked: int = 0
    is_told: bool = False


_decode_counts = decoder(QuestionCounts)


async def admit(store: Store, question: Question, limits: QuestionLimits) -> Deny | None:
    """Count *question*, which is about to be asked; return why nobody is asked after all."""
    denials = limits.denials
    if denials is not None and await _denials_of(store, question) >= denials:
        reason = f"a person has refused this call {denials} times"
        return Deny(f"{reason}, and is not asked again in this session")
    root, now = granting_session(question), question.asked_ns
    if limits.open is None and limits.hourly is None:
        return None
    while True:
        body = await store.read_state(root, COUNTS_NAME)
        counts = _of_this_hour(QuestionCounts() if body is None else _decode_counts(body), now)
        if limits.open is not None and len(counts.open) >= limits.open:
            counts = replace(counts, open=await _still_open(store, counts.open, now))
        reason = _reason(counts, limits)
        counted = replace(counts, is_told=True) if reason else _counted(counts, question, limits)
        if body == encode(counted) or await store.swap_state(
            root, COUNTS_NAME, body, encode(counted)
        ):
            break
    if not reason:
        return None
    if not counts.is_told and limits.notify is not None:
        limits.notify(root, reason)
    return Deny(f"{reason}; go on without this call, or wait until a person was there")


async def release(store: Store, question: Question) -> None:
    """Count *question*, which was not asked after all, no more as one that is open."""
    root = granting_session(question)
    while (body := await store.read_state(root, COUNTS_NAME)) is not None:
        counts = _decode_counts(body)
        rest = tuple([each for each in counts.open if each.id != question.id])
        if rest == counts.open or await store.swap_state(
            root,
            COUNTS_NAME,
            body,
            encode(replace(counts, open=rest, asked=max(0, counts.asked - 1))),
        ):
            return


async def _denials_of(store: Store, question: Question) -> int:
    """Return how often a person has refused the call of *question*, asked about as now."""
    facts = _facts(question)
    earlier = await questions_of(store, question.session_id)
    return sum(each.state == "denied" and _facts(each) == facts for each in earlier)


def _facts(question: Question) -> tuple[str, ...]:
    asked_by = (question.guard, question.rule, question.rules, question.definition)
    return (question.tool, question.digest, *asked_by)


def _of_this_hour(counts: QuestionCounts, now_ns: int) -> QuestionCounts:
    # A clock that was set back does not make the hour longer.
    if -_BEING_WRITTEN_NS < now_ns - counts.hour_ns < HOUR_NS:
        return counts
    return QuestionCounts(open=counts.open, hour_ns=now_ns)


async def _still_open(
    store: Store, questions: tuple[OpenQuestion, ...], now_ns: int
) -> tuple[OpenQuestion, ...]:
    remaining = []
    for each in questions:
        try:
            question = await read_question(store, each.session_id, each.id)
        except DecodeError:
            continue  # Nobody can answer it.
        if question is None:
            is_open = abs(now_ns - each.asked_ns) < _BEING_WRITTEN_NS
        else:
            is_open = question.state == "pending" and now_ns < question.expires_ns
        if is_open:
            remaining.append(each)
    return tuple(remaining)


def _reason(counts: QuestionCounts, limits: QuestionLimits) -> str:
    """Return why no other question is asked, "" if one is."""
    if limits.open is not None and len(counts.open) >= limits.open:
        return f"{len(counts.open)} questions of this session wait for a person, the most that may"
    if limits.hourly is not None and counts.asked >= limits.hourly:
        return f"a person was asked {counts.asked} questions within an hour, the most that may be"
    return ""


def _counted(counts: QuestionCounts, question: Question, limits: QuestionLimits) -> QuestionCounts:
    if any(each.id == question.id for each in counts.open):
        return counts  # Its process was killed before it was written.
    is_open = () if limits.open is None else (_open_question(question),)
    return replace(counts, open=(*counts.open, *is_open), asked=counts.asked + 1)


def _open_question(question: Question) -> OpenQuestion:
    return OpenQuestion(question.session_id, question.id, question.asked_ns)

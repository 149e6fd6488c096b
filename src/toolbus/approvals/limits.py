"""Limits on questions to a person: calls beyond them are denied, with one notification.

The counts are one state of the outermost session, written by swaps, so they are exact across
processes.
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
"""The default limits."""

COUNTS_NAME = "tally"  # As in stores of earlier versions.
HOUR_NS = 3_600 * 10**9
_BEING_WRITTEN_NS = 60 * 10**9
"""Nanoseconds for which a counted question without a record is open; clocks may disagree."""


class QuestionLimits(NamedTuple):
    """The most *open* and *hourly* questions of a session with its sub-agents; None: no limit.

    After *denials* refusals of a call its session does not ask about it again. Questions answered
    by grants do not count. *notify* gets a session and the reason of its limit, once an hour.
    """

    open: int | None = OPEN
    hourly: int | None = HOURLY
    denials: int | None = DENIALS
    notify: Callable[[str, str], None] | None = None


class OpenQuestion(Struct, frozen=True, array_like=True):
    """A question counted at *asked_ns*."""

    session_id: str
    id: str
    asked_ns: int


class QuestionCounts(Struct, frozen=True, omit_defaults=True):
    """The possibly *open* questions, and the number *asked* since *hour_ns*."""

    open: tuple[OpenQuestion, ...] = ()
    hour_ns: int = 0
    asked: int = 0
    is_told: bool = False


_decode_counts = decoder(QuestionCounts)


async def admit(store: Store, question: Question, limits: QuestionLimits) -> Deny | None:
    """Count *question* before it is asked; return a refusal at a limit."""
    # Another process may change the counts in between, so each attempt judges them anew.
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
    return Deny(f"{reason}; continue without this call, or wait for a person's answers")


async def release(store: Store, question: Question) -> None:
    """Remove *question*, which was not asked after all, from the counts."""
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
    """Return the number of refusals of the call of *question* under the same guard and rules."""
    facts = _facts(question)
    earlier = await questions_of(store, question.session_id)
    return sum(each.state == "denied" and _facts(each) == facts for each in earlier)


def _facts(question: Question) -> tuple[str, ...]:
    asked_by = (question.guard, question.rule, question.rules, question.definition)
    return (question.tool, question.digest, *asked_by)


def _of_this_hour(counts: QuestionCounts, now_ns: int) -> QuestionCounts:
    # A clock that was set back does not extend the hour.
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
            continue  # An unreadable question cannot be answered.
        if question is None:
            is_open = abs(now_ns - each.asked_ns) < _BEING_WRITTEN_NS
        else:
            is_open = question.state == "pending" and now_ns < question.expires_ns
        if is_open:
            remaining.append(each)
    return tuple(remaining)


def _reason(counts: QuestionCounts, limits: QuestionLimits) -> str:
    """Return the limit that is reached, "" if none."""
    if limits.open is not None and len(counts.open) >= limits.open:
        return f"{len(counts.open)} questions of this session are pending, the maximum"
    if limits.hourly is not None and counts.asked >= limits.hourly:
        return f"a person was asked {counts.asked} questions within an hour, the maximum"
    return ""


def _counted(counts: QuestionCounts, question: Question, limits: QuestionLimits) -> QuestionCounts:
    if any(each.id == question.id for each in counts.open):
        return counts  # Its process was killed before it wrote the question.
    new = OpenQuestion(question.session_id, question.id, question.asked_ns)
    is_open = counts.open if limits.open is None else (*counts.open, new)
    return replace(counts, open=is_open, asked=counts.asked + 1)

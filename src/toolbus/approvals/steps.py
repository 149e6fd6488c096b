"""The steps of a question's life: each is one swap in the store, so of two at once one counts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from toolbus.approvals.grants import check_span, make_grant
from toolbus.approvals.questions import TRANSITIONS, is_delegated
from toolbus.approvals.records import find_question, read_question, swap_question
from toolbus.errors import FreezeError
from toolbus.messages.immutable import check_text
from toolbus.presence.person import PersonTerminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.approvals.grants import GrantSpan
    from toolbus.approvals.questions import Grant, Question, QuestionSignal
    from toolbus.store.protocol import Store

LONGEST_WORDS = 4_000
"""Letters that an answer may say for a reason, and of who gave it."""

TERMINAL = "terminal"
"""The channel of an answer that a person typed, at a terminal that no agent runs in."""

AnswerStatus: TypeAlias = Literal[
    "accepted",
    "granted",
    "unknown_question",
    "other_digest",
    "already_answered",
    "too_late",
    "asked_elsewhere",
]


class AnswerResult(NamedTuple):
    """What became of an answer: only "accepted" and "granted" have changed anything.

    *question* is as it stands now, None if there is none; *grant* was made with the answer. A
    question that a coding agent puts to its person itself is "asked_elsewhere", and not answered
    here; a yes with a grant is "granted", for the calls that come after it.

    >>> asyncio.run(answer(MemoryStore(), "q1", "", approve=True, by="ann")).status
    'unknown_question'
    """

    status: AnswerStatus
    question_id: str
    question: Question | None = None
    grant: Grant | None = None

    @property
    def text(self) -> str:
        """What the person who answered is told, in one sentence."""
        name, question = f"question {self.question_id!r}", self.question
        if question is None:
            return f"there is no {name}"
        if self.status == "other_digest":
            return f"{name} is about another call than was shown; look at it again"
        if self.status == "already_answered":
            by = f" by {question.answered_by!r}" if question.answered_by else ""
            return f"{name} was answered already{by}, and is {question.state}"
        if self.status == "granted":
            return f"{name} is the agent's own; calls like it run from now on without one"
        if self.status == "asked_elsewhere":
            return f"{name} is the agent's own: answer it there, or grant calls like it"
        if self.status == "too_late":
            return f"{name} is {question.state}: the answer came too late"
        return f"{name} is {question.state}"


async def transition(
    store: Store, question: Question, signal: QuestionSignal, **fields: Any
) -> Question | None:
    """Do what *signal* says, with other *fields*; return the question as it is after that.

    None: its state has no such step, or it is no more what *question* says. Raises `StoreError`,
    after which it may have been done or not.
    """
    state = TRANSITIONS.get(question.state, {}).get(signal)
    if state is None:
        return None
    new = replace(question, state=state, **fields)
    return new if await swap_question(store, question, new) else None


async def deliver(store: Store, question: Question) -> bool:
    """Note that the caller is told of a refusal; False if somebody else did so first."""
    return await swap_question(store, question, replace(question, delivered=True))


async def answer(
    store: Store,
    question_id: str,
    digest: str,
    *,
    approve: bool,
    by: str,
    channel: str | PersonTerminal = "",
    reason: str = "",
    grant: GrantSpan | None = None,
    session_id: str | None = None,
    clock: Callable[[], int] = time.time_ns,
) -> AnswerResult:
    """Answer a question, for a person; every channel's answer comes in here.

    Args:
        store: where the question is kept.
        question_id: which one.
        digest: of the call that the person was shown.
        approve: yes or no.
        by: who answered; not empty.
        channel: where the answer came from; "terminal" is the name of a `PersonTerminal` alone.
        reason: what the model is told of a no.
        grant: with a yes: "session", or for how many seconds, every such call is approved.
        session_id: of the question, if it is known: then no other session is looked through.
        clock: tells nanoseconds since the epoch.

    Raises `FreezeError` for *by*, *channel* or *reason* that cannot be kept, and `StoreError`.

    >>> async def approve(store, question):
    ...     return await answer(store, question.id, question.digest, approve=True, by="ann")
    """
    answered_from = _check_words(by, channel, reason)
    check_span(grant, is_yes=approve)
    question = await find_question(store, question_id, session_id)
    fields = {"answered_by": by, "answered_from": answered_from, "reason": reason}
    signal: QuestionSignal = "approve" if approve else "deny"
    while question is not None:
        now = clock()
        if grant is not None and is_delegated(question) and question.digest == digest:
            return await _grant_alone(store, replace(question, **fields), grant, now)
        if (status := await _refusal(store, question, digest, now)) is not None:
            current = await read_question(store, question.session_id, question_id)
            return AnswerResult(status, question_id, current)
        answered = await transition(store, question, signal, answered_ns=now, **fields)
        if answered is not None:
            made = None if grant is None else await make_grant(store, answered, grant, now)
            return AnswerResult("accepted", question_id, answered, made)
        question = await read_question(store, question.session_id, question_id)
    return AnswerResult("unknown_question", question_id)


async def _grant_alone(
    store: Store, question: Question, grant: GrantSpan, now_ns: int
) -> AnswerResult:
    """Grant calls like that of *question*, which a host asks itself, so it stays as it is."""
    made = await make_grant(store, question, grant, now_ns)
    current = await read_question(store, question.session_id, question.id)
    return AnswerResult("granted", question.id, current, made)


async def _refusal(
    store: Store, question: Question, digest: str, now_ns: int
) -> AnswerStatus | None:
    """Return why an answer to *question* does not count, None if it does."""
    if question.digest != digest:
        return "other_digest"
    if is_delegated(question):
        return "asked_elsewhere"
    if question.state in {"expired", "withdrawn"}:
        return "too_late"
    if question.state != "pending":
        return "already_answered"
    if now_ns < question.expires_ns:
        return None
    await transition(store, question, "expire")
    return "too_late"


def _name_of(channel: str | PersonTerminal) -> str:
    if isinstance(channel, PersonTerminal):
        return TERMINAL
    if isinstance(channel, str) and channel.strip().casefold() == TERMINAL:
        reason = f"{channel!r} is for what a person types at a terminal; name your own channel"
        raise FreezeError(f"{reason}, or use `toolbus approvals`", "$.channel")
    return channel


def _check_words(by: str, channel: str | PersonTerminal, reason: str) -> str:
    """Return the name of *channel*; raises `FreezeError` for words that cannot be kept."""
    answered_from = _name_of(channel)
    for name, text in (("by", by), ("channel", answered_from), ("reason", reason)):
        check_text(text, f"$.{name}")
        if len(text) > LONGEST_WORDS:
            raise FreezeError(f"expected at most {LONGEST_WORDS} letters", f"$.{name}")
    if not by.strip():
        raise FreezeError("expected the name of who answers", "$.by")
    return answered_from

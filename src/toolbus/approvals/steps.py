"""Transitions of a question and answers to it: each is one swap in the store."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from toolbus.approvals.grants import check_span, make_grant
from toolbus.approvals.questions import TRANSITIONS, is_delegated
from toolbus.approvals.records import (
    announce_answer,
    find_question,
    read_question,
    swap_question,
)
from toolbus.errors import FreezeError
from toolbus.messages.immutable import check_text
from toolbus.presence.person import PersonTerminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.approvals.grants import GrantSpan
    from toolbus.approvals.questions import Grant, Question, QuestionSignal
    from toolbus.store.protocol import Store

LONGEST_WORDS = 4_000
"""The most characters of the reason of an answer, and of the name of its person."""

TERMINAL = "terminal"
"""The channel of an answer typed by a person at a terminal without an agent."""

PAGE = "page"
"""The channel of an answer from a page that a code from a person's terminal opened."""


class PersonPage:
    """The page of a person, whose code from a terminal the caller has checked."""


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
    """The result of an answer; only "accepted" and "granted" changed the store.

    *question* is the current question, None if there is none; *grant* was made with the answer. A
    question that a coding agent puts to its own user is "asked_elsewhere", and has no answer here;
    a yes to it with a grant is "granted", for later calls.

    >>> asyncio.run(answer(MemoryStore(), "q1", "", approve=True, by="ann")).status
    'unknown_question'
    """

    status: AnswerStatus
    question_id: str
    question: Question | None = None
    grant: Grant | None = None

    @property
    def text(self) -> str:
        """The result in one sentence, for the person."""
        name, question = f"question {self.question_id!r}", self.question
        if question is None:
            return f"there is no {name}"
        by = f" by {question.answered_by!r}" if question.answered_by else ""
        ends = {
            "other_digest": "is about another call than the one shown; show it again",
            "already_answered": f"was answered already{by}, and is {question.state}",
            "granted": "is the agent's own; similar calls run from now on without a question",
            "asked_elsewhere": "is the agent's own: answer it there, or grant similar calls",
            "too_late": f"is {question.state}: the answer came too late",
        }
        return f"{name} {ends.get(self.status, f'is {question.state}')}"


async def transition(
    store: Store, question: Question, signal: QuestionSignal, **fields: Any
) -> Question | None:
    """Apply *signal* to *question*, with other *fields*; return the new question.

    None: its state has no such transition, or the stored question has changed. After a
    `StoreError` the transition may have been written or not.
    """
    state = TRANSITIONS.get(question.state, {}).get(signal)
    if state is None:
        return None
    new = replace(question, state=state, **fields)
    return new if await swap_question(store, question, new) else None


async def deliver(store: Store, question: Question) -> bool:
    """Record that the caller gets a refusal; return False if it was recorded before."""
    return await swap_question(store, question, replace(question, delivered=True))


async def answer(
    store: Store,
    question_id: str,
    digest: str,
    *,
    approve: bool,
    by: str,
    channel: str | PersonTerminal | PersonPage = "",
    reason: str = "",
    grant: GrantSpan | None = None,
    session_id: str | None = None,
    clock: Callable[[], int] = time.time_ns,
) -> AnswerResult:
    """Answer a question for a person; the answers of all channels come through here.

    Args:
        store: the store of the question.
        question_id: the id of the question.
        digest: the digest of the question as the person saw it.
        approve: yes or no.
        by: the name of the person; not empty.
        channel: the name of the channel; "terminal" and "page" are reserved for a proved person.
        reason: the reason of a no, for the model.
        grant: with a yes: "session", or a number of seconds, to approve similar calls as well.
        session_id: the session of the question, if known; it avoids a search.
        clock: returns nanoseconds since the epoch.

    Raises `FreezeError` for *by*, *channel* or *reason* that cannot be stored, and `StoreError`.

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
        answered = await _announced(store, question, signal, answered_ns=now, **fields)
        if answered is not None:
            made = None if grant is None else await make_grant(store, answered, grant, now)
            return AnswerResult("accepted", question_id, answered, made)
        question = await read_question(store, question.session_id, question_id)
    return AnswerResult("unknown_question", question_id)


async def _announced(
    store: Store, question: Question, signal: QuestionSignal, **fields: Any
) -> Question | None:
    """Apply *signal* as `transition` does, after a marker: a kill leaves no answer without it."""
    await announce_answer(store, question)
    return await transition(store, question, signal, **fields)


async def _grant_alone(
    store: Store, question: Question, grant: GrantSpan, now_ns: int
) -> AnswerResult:
    """Grant calls like that of *question*, which its host asks and which does not change here."""
    made = await make_grant(store, question, grant, now_ns)
    current = await read_question(store, question.session_id, question.id)
    return AnswerResult("granted", question.id, current, made)


async def _refusal(
    store: Store, question: Question, digest: str, now_ns: int
) -> AnswerStatus | None:
    """Return the status of an answer that does not count, None for one that counts."""
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


def _name_of(channel: str | PersonTerminal | PersonPage) -> str:
    if isinstance(channel, PersonTerminal | PersonPage):
        return TERMINAL if isinstance(channel, PersonTerminal) else PAGE
    if isinstance(channel, str) and channel.strip().casefold() in {TERMINAL, PAGE}:
        reason = f"{channel!r} is reserved for a person's terminal or page; use another name"
        raise FreezeError(f"{reason}, or use `toolbus approvals`", "$.channel")
    return channel


def _check_words(by: str, channel: str | PersonTerminal | PersonPage, reason: str) -> str:
    """Return the name of *channel*; raises `FreezeError` for text that cannot be stored."""
    answered_from = _name_of(channel)
    for name, text in (("by", by), ("channel", answered_from), ("reason", reason)):
        check_text(text, f"$.{name}")
        if len(text) > LONGEST_WORDS:
            raise FreezeError(f"expected at most {LONGEST_WORDS} characters", f"$.{name}")
    if not by.strip():
        raise FreezeError("expected the name of the person", "$.by")
    return answered_from

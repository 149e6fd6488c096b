"""`toolbus approvals approve`, `deny`, `review`, `settle` and `revoke`, by a person at a terminal.

A yes counts once the whole question was shown there, and it names the digest of that question. The
terminal is the controlling one, wherever the output goes.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

from toolbus.approvals.display import grant_words, line_rows
from toolbus.approvals.grants import revoke_grant
from toolbus.approvals.question_lookup import (
    Damaged,
    find_grant,
    find_question,
    is_answered,
    read_questions,
    taker_is_gone,
)
from toolbus.approvals.questions import is_delegated
from toolbus.approvals.records import matches_digest, read_question
from toolbus.approvals.steps import answer, transition
from toolbus.cli.output.screen import open_screen
from toolbus.cli.questions.keyboard import Keyboard
from toolbus.cli.questions.question_pages import PageAsks, QuestionPages
from toolbus.cli.questions.typed_answers import (
    Choices,
    TypedAnswer,
    check_reason,
    read_decision,
)
from toolbus.presence.person import person_name, person_terminal
from toolbus.settings.usage_error import UsageError
from toolbus.settings.visible_text import shorten_visible
from toolbus.store.store_factory import open_reader, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from toolbus.approvals.grants import GrantSpan
    from toolbus.approvals.questions import Question
    from toolbus.approvals.steps import AnswerResult
    from toolbus.cli.output.stream import Output
    from toolbus.presence.person import PersonTerminal
    from toolbus.settings.spans import Span
    from toolbus.store.protocol import Store
    from toolbus.store.sql_reader import SqlReader

T = TypeVar("T")
Outcome: TypeAlias = Literal["ran", "never-ran"]

_PAUSE = 0.5
"""Seconds between two checks for new questions."""

_ASKS = PageAsks("approve? [y, n] ", "Enter shows the next page, q ends: ")
_APPROVE_CHOICES = Choices(
    "Any answer but y leaves the question pending.",
    may_grant=False,
    may_skip=True,
    no="leave the question pending; `toolbus approvals deny` refuses the call",
)
_REVIEW_CHOICES = Choices("Enter          skip the question\nCtrl-D or q    end", may_skip=True)
_NEXT_STEPS = {
    True: "the call runs as soon as its agent waits for it, or continues: by a worker of durable "
    "runs, `agent.resume()` or `toolbus run --resume`",
    False: "the call runs when it is made again",
}


class ApprovalTarget(NamedTuple):
    """The question or grant *name* of the store at *address*, and details of the answer."""

    address: str
    name: str
    grant: GrantSpan | None = None
    reason: str = ""
    details: bool = False


def approve(output: Output, target: ApprovalTarget) -> int:
    """Show the question at the terminal, and accept a yes; return 1 if nothing was approved."""
    with person_terminal() as terminal:
        question = _open_question(target)
        words = "" if target.grant is None else grant_words(question, target.grant)

        def notes(width: int) -> list[Span]:
            return [*line_rows(words, width, "changed")]

        pages = QuestionPages(terminal, question, _ASKS, notes, details=target.details)
        typed = asyncio.run(read_decision(Keyboard(terminal), pages, _APPROVE_CHOICES))
        if typed is None or typed.meaning != "yes":
            screen = open_screen(output)
            screen.prose("nothing was answered; the question is still pending", style="changed")
            return 1
        return _answer(output, target, question, terminal, TypedAnswer("yes", grant=target.grant))


def deny(output: Output, target: ApprovalTarget) -> int:
    """Answer the question with a no, whose reason the model reads; return 1 if it is too late."""
    check_reason(target.reason)
    with person_terminal() as terminal:
        question = _open_question(target)
        return _answer(output, target, question, terminal, TypedAnswer("no", target.reason))


def review(output: Output, address: str, *, watch: bool = False) -> int:
    """Put each pending question to the person at the terminal, the oldest first; return 0.

    With *watch* also new questions, until the person ends it.
    """
    asked: set[str] = set()
    with person_terminal() as terminal, open_reader(address, live=True) as reader:
        while not output.lost:
            # Read first: the next round sees a question that is written meanwhile.
            changes = reader.changes
            for name in _pending(reader, asked):
                asked.add(name)
                if not _review_question(output, terminal, ApprovalTarget(address, name)):
                    return 0
            if not watch:
                break
            while not output.lost and reader.changes == changes:
                output.rest(_PAUSE)
    if not asked:
        open_screen(output).line("no pending questions")
    return 0


def settle(output: Output, target: ApprovalTarget, outcome: Outcome) -> int:
    """Record the *outcome* of a call with an unknown result; return 1 for another question."""
    with person_terminal():
        with open_reader(target.address) as reader:
            question = find_question(reader, target.name, time.time_ns())
            has_answer = is_answered(reader, question)
        settled = _in_store(target.address, lambda store: _settle(store, question, outcome))
    screen, name = open_screen(output), f"question {shorten_visible(question.id)}"
    if settled is None:
        known = ", and the session has the answer to its call" if has_answer else ""
        screen.prose(f"{name} is {question.state}{known}: nothing to settle")
        return 1
    word = "ran once" if settled.state == "done" else "never ran"
    screen.prose(f"{name} is {settled.state}: its call {word}", style="good")
    return 0


def revoke(output: Output, target: ApprovalTarget) -> int:
    """Revoke the grant; return 1 if it was revoked before."""
    with person_terminal():
        with open_reader(target.address) as reader:
            grant = find_grant(reader, target.name)
        by = person_name()
        if not grant.revoked_ns:
            work = partial(revoke_grant, session_id=grant.session_id, grant_id=grant.id, by=by)
            grant = _in_store(target.address, work) or grant
    screen, name = open_screen(output), f"grant {shorten_visible(grant.id)}"
    if grant.revoked_by != by:
        screen.prose(f"{name} was revoked by {shorten_visible(grant.revoked_by)} before")
        return 1
    screen.prose(f"{name} is revoked; its calls need approval again", style="good")
    return 0


def _open_question(target: ApprovalTarget) -> Question:
    """Return the question, if an answer can still count; raises `UsageError`."""
    with open_reader(target.address) as reader:
        question = find_question(reader, target.name, time.time_ns())
    name = f"question {shorten_visible(question.id)}"
    if is_delegated(question):
        if target.grant is None:
            way_out = "answer it there, or grant calls like it with --session or --for"
            raise UsageError(f"{name} is asked by the agent itself; {way_out}")
    elif question.state != "pending":
        by = f" by {shorten_visible(question.answered_by)}" if question.answered_by else ""
        raise UsageError(f"{name} is {question.state} already{by}; nothing can be answered")
    if not matches_digest(question):
        reason = "its digest is not that of its arguments: the store was changed"
        raise UsageError(f"{name} cannot be answered: {reason}")
    return question


def _pending(reader: SqlReader, asked: set[str]) -> list[str]:
    """Return the ids of the pending questions that are not in *asked*, the oldest first."""
    pending = [
        (question.asked_ns, question.id)
        for question in read_questions(reader, time.time_ns())
        if not isinstance(question, Damaged)
        and question.state == "pending"
        and question.id not in asked
    ]
    return [name for _, name in sorted(pending)]


def _review_question(output: Output, terminal: PersonTerminal, target: ApprovalTarget) -> bool:
    """Put one question to the person; return whether the review continues."""
    try:
        question = _open_question(target)
    except UsageError as error:  # It was answered elsewhere, or is damaged.
        open_screen(output).whole(str(error), style="bad")
        return True
    asks = PageAsks(
        f"approve {shorten_visible(question.id)}? [y, n, n and a reason, Enter skips, q ends] "
    )
    pages = QuestionPages(terminal, question, asks)
    typed = asyncio.run(read_decision(Keyboard(terminal), pages, _REVIEW_CHOICES))
    if typed is not None and typed.meaning != "next":
        _answer(output, target, question, terminal, typed)
    return typed is not None


def _answer(
    output: Output,
    target: ApprovalTarget,
    question: Question,
    terminal: PersonTerminal,
    typed: TypedAnswer,
) -> int:
    """Answer *question* as it was shown, and print the result; return the exit code."""
    is_yes = typed.meaning == "yes"

    async def work(store: Store) -> AnswerResult:
        return await answer(
            store,
            question.id,
            question.digest,
            approve=is_yes,
            by=person_name(),
            channel=terminal,
            reason=typed.reason,
            grant=typed.grant,
            session_id=question.session_id,
        )

    result = _in_store(target.address, work)
    screen = open_screen(output)
    is_accepted = result.status in {"accepted", "granted"}
    screen.whole(result.text, style="good" if is_accepted else "bad")
    if target.details:
        screen.whole(f"digest {question.digest}", style="dim")
    if result.status == "accepted" and is_yes:
        screen.prose(_NEXT_STEPS[question.host == "agent"])
    if result.grant is not None:
        revoke = f"toolbus approvals --store {shlex.quote(target.address)} revoke {result.grant.id}"
        screen.whole(f"`{revoke}` ends the grant")
    return 0 if is_accepted else 1


async def _settle(store: Store, shown: Question, outcome: Outcome) -> Question | None:
    question = await read_question(store, shown.session_id, shown.id)
    if question is None:
        return None
    is_lost = shown.state != "done" and taker_is_gone(question)
    if question.state == "taken" and is_lost:
        question = await transition(store, question, "lose")
    if question is None:
        return None
    signal: Literal["settle_ran", "settle_never_ran"] = (
        "settle_ran" if outcome == "ran" else "settle_never_ran"
    )
    return await transition(
        store, question, signal, settled_by=person_name(), ended_ns=time.time_ns()
    )


def _in_store(address: str, work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        async with open_store(address) as store:
            return await work(store)

    return asyncio.run(run())

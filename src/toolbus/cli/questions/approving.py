"""`toolbus approvals`: a person at their terminal answers a question that waits, or settles one.

A yes is taken once the whole question was shown there, page by page, and it names the digest that
was shown. The terminal is the controlling one, wherever the output goes.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

from toolbus.approvals.grants import revoke_grant
from toolbus.approvals.questions import is_delegated
from toolbus.approvals.records import digest_of, read_question
from toolbus.approvals.steps import answer, transition
from toolbus.cli.output.screen import open_screen, painted
from toolbus.cli.questions.question_lookup import (
    find_grant,
    find_question,
    is_answered,
    taker_is_gone,
)
from toolbus.cli.questions.shown_question import page_height, question_pages
from toolbus.cli.questions.typed_answers import (
    YES,
    check_reason,
    check_room,
    grant_words,
    person_name,
)
from toolbus.presence.person import person_terminal
from toolbus.settings.usage_error import UsageError
from toolbus.settings.visible_text import brief
from toolbus.store.store_factory import open_reader, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from toolbus.approvals.grants import GrantSpan
    from toolbus.approvals.questions import Question
    from toolbus.cli.output.stream import Output
    from toolbus.presence.person import PersonTerminal
    from toolbus.store.protocol import Store

T = TypeVar("T")
Outcome: TypeAlias = Literal["ran", "never-ran"]

_ASKS, _ASKS_NEXT = "approve? [y, n] ", "Enter shows the next page, q ends: "
_NEXT_OF_AGENT = (
    "the call runs once its agent waits for it, or goes on: "
    "`agent.resume()` or `toolbus run --resume`"
)
_NEXT = "the call runs once it comes again"


class ApprovalTarget(NamedTuple):
    """Which question of the store at *address* is answered, and with a yes what more it allows."""

    address: str
    name: str
    grant: GrantSpan | None = None
    reason: str = ""


def approve(output: Output, asked: ApprovalTarget) -> int:
    """Show the question at the terminal, and take a yes; return 1 if nothing was approved."""
    with person_terminal() as terminal:
        question = open_question(asked)
        consequence = "" if asked.grant is None else grant_words(question, asked.grant)
        is_shown = show_pages(terminal, question, consequence)
        if not (is_shown and (terminal.ask(_ASKS) or "n").strip().lower() in YES):
            open_screen(output).prose("nothing was answered; the question waits", style="changed")
            return 1
        return answer_question(output, asked, question, terminal, is_yes=True)


def deny(output: Output, asked: ApprovalTarget) -> int:
    """Answer the question with a no, whose reason the model reads; return 1 if it came too late."""
    check_reason(asked.reason)
    with person_terminal() as terminal:
        question = open_question(asked)
        return answer_question(output, asked, question, terminal, is_yes=False)


def settle(output: Output, asked: ApprovalTarget, outcome: Outcome) -> int:
    """Say what became of a call whose end nobody knows; return 1 if it is not one."""
    with person_terminal():
        with open_reader(asked.address) as reader:
            question = find_question(reader, asked.name, time.time_ns())
            has_answer = is_answered(reader, question)
        settled = _in_store(asked.address, lambda store: _settle(store, question, outcome))
    screen = open_screen(output)
    if settled is None:
        known = ", and the session has the answer to its call" if has_answer else ""
        screen.prose(f"question {brief(question.id)} is {question.state}{known}: nothing to settle")
        return 1
    word = "ran once" if settled.state == "done" else "never ran"
    screen.prose(f"question {brief(question.id)} is {settled.state}: its call {word}", style="good")
    return 0


def revoke(output: Output, asked: ApprovalTarget) -> int:
    """Revoke the grant; return 1 if it was revoked before."""
    with person_terminal():
        with open_reader(asked.address) as reader:
            grant = find_grant(reader, asked.name)
        by = person_name()
        if not grant.revoked_ns:
            revoked = _in_store(
                asked.address, lambda store: revoke_grant(store, grant.session_id, grant.id, by=by)
            )
            grant = revoked or grant
    screen = open_screen(output)
    if grant.revoked_by != by:
        screen.prose(f"grant {brief(grant.id)} was revoked by {brief(grant.revoked_by)} before")
        return 1
    screen.prose(f"grant {brief(grant.id)} is revoked; what asks is asked again", style="good")
    return 0


def open_question(asked: ApprovalTarget) -> Question:
    """Return the question, if an answer can still count; raises `UsageError`."""
    with open_reader(asked.address) as reader:
        question = find_question(reader, asked.name, time.time_ns())
    if is_delegated(question):
        if asked.grant is None:
            way_out = "answer it there, or grant calls like it with --session or --for"
            raise UsageError(
                f"question {brief(question.id)} is asked by the agent itself; {way_out}"
            )
    elif question.state != "pending":
        by = f" by {brief(question.answered_by)}" if question.answered_by else ""
        state = f"is {question.state} already{by}"
        raise UsageError(f"question {brief(question.id)} {state}; nothing can be answered")
    if question.digest != digest_of(question.tool, question.arguments):
        reason = "its digest is not that of its arguments: the store was changed"
        raise UsageError(f"question {brief(question.id)} cannot be answered: {reason}")
    return question


def show_pages(
    terminal: PersonTerminal, question: Question, consequence: str = "", asks: str = _ASKS
) -> bool:
    """Show the whole question, page by page; return whether the person saw the last one.

    What they are asked then is *asks*. Raises `UsageError` for a terminal that is too small, or
    becomes smaller meanwhile.
    """
    columns, rows = terminal.columns, terminal.rows
    check_room(columns, rows)
    height = page_height(rows, columns, _ASKS_NEXT, asks)
    pages = question_pages(question, columns, height, consequence)
    for number, page in enumerate(pages, 1):
        terminal.write(painted(page))
        if number < len(pages):
            word = terminal.ask(_ASKS_NEXT)
            if word is None or word.strip():
                return False
            if terminal.columns < columns or terminal.rows < rows:
                raise UsageError("the terminal became smaller while the question was shown")
    return True


def answer_question(
    output: Output,
    asked: ApprovalTarget,
    question: Question,
    terminal: PersonTerminal,
    *,
    is_yes: bool,
) -> int:
    """Answer *question* as it was shown, and say what became of that; return the exit code."""
    result = _in_store(
        asked.address,
        lambda store: answer(
            store,
            question.id,
            question.digest,
            approve=is_yes,
            by=person_name(),
            channel=terminal,
            reason=asked.reason,
            grant=asked.grant,
            session_id=question.session_id,
        ),
    )
    screen = open_screen(output)
    is_accepted = result.status in {"accepted", "granted"}
    screen.whole(result.text, style="good" if is_accepted else "bad")
    screen.whole(f"digest {question.digest}", style="dim")
    if result.status == "accepted" and is_yes:
        screen.prose(_NEXT_OF_AGENT if question.host == "agent" else _NEXT)
    if result.grant is not None:
        revoke = f"toolbus approvals --store {shlex.quote(asked.address)} revoke {result.grant.id}"
        screen.whole(f"`{revoke}` takes the grant back")
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
        store = open_store(address)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())

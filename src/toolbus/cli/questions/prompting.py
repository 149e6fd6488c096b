"""Questions at the terminal where an agent runs: put to its person, who answers as anywhere else.

Each is shown whole before a yes is taken, and the answer is written into the store where the
question is kept, with the digest that was shown. So whoever answers first counts.
"""

from __future__ import annotations

import asyncio
import shlex
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from toolbus.approvals.display import line_rows
from toolbus.approvals.records import read_question
from toolbus.approvals.steps import LONGEST_WORDS, answer
from toolbus.cli.questions.edits import FileEdit, find_edit
from toolbus.cli.questions.shown_question import ShownQuestion
from toolbus.cli.questions.terminal_approver import REFUSED
from toolbus.cli.questions.typed_answers import (
    YES,
    TypedAnswer,
    grant_words,
    person_name,
    read_answer,
)
from toolbus.components.capabilities import Concealer
from toolbus.errors import DecodeError, StoreError
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Deny
from toolbus.settings.visible_text import brief
from toolbus.tasks.shield import shield_until_done

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.agent.agent import Agent
    from toolbus.approvals.questions import Question
    from toolbus.bus.ledger.records import HandlerEntry
    from toolbus.cli.output.deferred_output import DeferredOutput
    from toolbus.cli.output.run_report import RunReport
    from toolbus.cli.questions.keyboard import Keyboard
    from toolbus.store.protocol import Store
    from toolbus.tools.calls.gate import ApprovalRequest

_HELP = """\
y              the call runs, once
n              it does not; what you type behind n is read by the model
session        yes, also to all calls like it until the session ends
for 1h         the same for a time: 90s, 30m, 1h or 2d
v              shows the question again, from its first page
Ctrl-C is n. """
_LEAVES = {
    True: "Ctrl-D leaves the question to others: `toolbus approvals`.\n",
    False: "Ctrl-D is n as well.\n",
}


class QuestionPrompt:
    """Puts questions of *store* to the person at *keyboard*; what goes to *side* waits meanwhile.

    The *report* hears of each answer. A call of file tools shows what it makes of its file, which
    must be that when it is written. One that others can answer, for it *is_kept*, may be left.
    """

    def __init__(
        self,
        keyboard: Keyboard,
        side: DeferredOutput,
        report: RunReport,
        store: Store,
        *,
        is_kept: bool,
    ) -> None:
        self._keyboard, self._side, self._report = keyboard, side, report
        self._store, self._is_kept = store, is_kept
        self._agent: Agent | None = None

    def watch(self, agent: Agent) -> None:
        """Show of calls of *agent* who changed them, and what they make of files."""
        self._agent = agent

    async def ask(self, question: Question, asked: ApprovalRequest) -> None:
        """Put *question* to the person, and write their answer into the store.

        Cancelled, it says who has answered elsewhere.
        """
        with self._side.held():
            try:
                typed = await self._settle(question, asked)
            except asyncio.CancelledError:
                await self._say_end(question)
                raise
            if typed is None and self._is_kept:
                self._say("nothing was answered; the question waits: `toolbus approvals`")
                return
            await shield_until_done(partial(self._answer, question, typed or TypedAnswer("no")))

    async def _settle(self, question: Question, asked: ApprovalRequest) -> TypedAnswer | None:
        """Ask until the answer is about the file as it is; None: there was none."""
        edit = await self._edit_of(question, asked)
        while True:
            typed = await self._typed(question, edit)
            if typed is None or typed.meaning != "yes" or edit is None:
                return typed
            latest = await self._edit_of(question, asked)
            if latest == edit:
                edit.confirm()
                return typed
            edit = latest
            self._say("the file has changed meanwhile, so this is another question")

    async def _edit_of(self, question: Question, asked: ApprovalRequest) -> FileEdit | None:
        """Return what the call makes of a file; of an agent below this one nobody knows the files.

        What is hidden in the call is so in the difference as well. A secret that its file keeps
        is no difference.
        """
        if asked.call is None or self._agent is None or asked.scope.lineage:
            return None
        filled = await asked.fill() if question.filled and asked.fill else asked.call
        call = asked.call if isinstance(filled, Deny) else filled
        edit = await asyncio.to_thread(find_edit, self._agent, call)
        if edit is None or not (question.hidden or question.filled):
            return edit
        text = None if question.hidden else await _concealed(edit.difference, asked, self._agent)
        problem = "" if text is not None else "values in the call are hidden"
        return edit._replace(difference=text or "", problem=edit.problem or problem)

    async def _typed(self, question: Question, edit: FileEdit | None) -> TypedAnswer | None:
        """Show the question page by page, and return a yes or a no; None if nothing is typed."""
        keyboard, typed = self._keyboard, TypedAnswer("next")
        keyboard.write("\n")
        shown = ShownQuestion(keyboard, question, self._changers(question.call_id), edit)
        while True:
            shown.respond(typed, f"{_HELP}{_LEAVES[self._is_kept]}")
            line = await keyboard.ask(shown.asks)
            if line is None:
                return None
            typed = read_answer(line)
            if typed.meaning == "no":
                return typed
            if typed.meaning == "yes" and shown.is_seen and await self._agrees(question, typed):
                return typed

    async def _agrees(self, question: Question, typed: TypedAnswer) -> bool:
        """Ask whether what more a grant allows is meant, if one is wanted."""
        if typed.grant is None:
            return True
        self._say(grant_words(question, typed.grant))
        line = await self._keyboard.ask("approve all of that? [y, n] ")
        return (line or "n").strip().lower() in YES

    async def _answer(self, question: Question, typed: TypedAnswer) -> None:
        is_yes = typed.meaning == "yes"
        reason = f"{REFUSED}: {typed.reason}" if typed.reason else REFUSED
        result = await answer(
            self._store,
            question.id,
            question.digest,
            approve=is_yes,
            by=person_name(),
            channel=self._keyboard.terminal,
            reason="" if is_yes else reason[:LONGEST_WORDS],
            grant=typed.grant,
            session_id=question.session_id,
        )
        if result.status != "accepted":
            self._say(result.text)
        elif result.grant is not None and self._is_kept:
            store = shlex.quote(self._report.store or "STORE")
            revoke = f"toolbus approvals --store {store} revoke {result.grant.id}"
            self._say(f"`{revoke}` takes the grant back")
        if result.question is not None:
            self._report.answered(result.question)

    async def _say_end(self, question: Question) -> None:
        """Say why no answer is awaited here any more."""
        current: Question | None = None
        with suppress(StoreError, DecodeError):
            current = await read_question(self._store, question.session_id, question.id)
        if current is None or not current.answered_by:
            self._say("no answer is awaited here any more")
            return
        word = "denied" if current.state == "denied" else "approved"
        where = f" ({brief(current.answered_from)})" if current.answered_from else ""
        self._say(f"{word} by {brief(current.answered_by)}{where}")
        self._report.answered(current)

    def _changers(self, call_id: str) -> list[str]:
        """Return the names of the handlers that changed the call."""
        entries: Sequence[HandlerEntry] = ()
        for record in () if self._agent is None else self._agent.ledger:
            if record.event == TOOL_CALL_BEFORE.name and record.call_id == call_id:
                entries = record.entries
        return [entry.name for entry in entries if entry.status == "changed"]

    def _say(self, text: str) -> None:
        rows = line_rows(text, self._keyboard.columns)
        self._keyboard.write("".join([f"{row.text}\n" for row in rows]))


async def _concealed(text: str, asked: ApprovalRequest, agent: Agent) -> str | None:
    """Return *text* with marks in place of secrets; None if it could not be examined."""
    for component in agent.components:
        if isinstance(component, Concealer):
            concealed = await component.concealed(text, asked.scope)
            if concealed is None:
                return None
            text = concealed
    return text

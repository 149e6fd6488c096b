"""The questions of a run: the guard that asks, and the person at the terminal who answers.

An answer typed here is written into the store of the question, with the digest that was shown, so
the first answer of all channels counts.
"""

from __future__ import annotations

import asyncio
import shlex
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from toolbus.approvals.display import label_rows, line_rows
from toolbus.approvals.records import read_question
from toolbus.approvals.steps import LONGEST_WORDS, answer
from toolbus.approvals.stored import StoredApprovals
from toolbus.cli.output.run_report import NO_TERMINAL
from toolbus.cli.questions.keyboard import open_keyboard
from toolbus.cli.questions.question_pages import ASKS, QuestionPages
from toolbus.cli.questions.terminal_approver import REFUSED
from toolbus.cli.questions.typed_answers import Choices, TypedAnswer, read_decision
from toolbus.components.capabilities import DisplayRedactor
from toolbus.components.components import AgentComponent
from toolbus.components.marks import guard
from toolbus.errors import DecodeError, StoreError
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Ask, Deny, Scope
from toolbus.presence.person import NotInteractiveError, person_name
from toolbus.settings.visible_text import shorten_visible
from toolbus.store.memory import MemoryStore
from toolbus.tasks.shield import shield_until_done
from toolbus.workspace.file_tools import FileTools
from toolbus.workspace.working_folder import FileToolError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AsyncExitStack, ExitStack

    from toolbus.agent.agent import Agent
    from toolbus.approvals.questions import Question
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.ledger.records import HandlerEntry
    from toolbus.cli.output.deferred_output import DeferredOutput
    from toolbus.cli.output.run_report import RunReport
    from toolbus.cli.output.stream import Output
    from toolbus.cli.questions.keyboard import Keyboard
    from toolbus.components.capabilities import CallAllower
    from toolbus.messages.records import ToolCall
    from toolbus.settings.spans import Span
    from toolbus.store.protocol import Store
    from toolbus.tools.calls.approver import Approver
    from toolbus.tools.calls.gate import ApprovalRequest, CallGate
    from toolbus.tools.toolset import Toolset
    from toolbus.workspace.file_changes import FileChange

NOT_READ_ONLY = "it may change something"
_ENDINGS = {
    True: "Ctrl-C is n. Ctrl-D leaves the question to other channels: `toolbus approvals`.",
    False: "Ctrl-C and Ctrl-D are n.",
}


class AskOnWrite(AgentComponent):
    """Asks for approval of each call of a tool that is not marked as read-only.

    The mark counts for tools of this process, but not for the tools of *strangers*, whose servers
    set it themselves. A call that one of *judges*, the person's own components, allows needs no
    approval.
    """

    def __init__(
        self, strangers: Sequence[Toolset] = (), judges: Sequence[CallAllower] = ()
    ) -> None:
        super().__init__()
        self._strangers, self._judges = tuple(strangers), tuple(judges)

    @guard(TOOL_CALL_BEFORE, on_error="closed")
    async def ask(self, ctx: EventContext[ToolCall]) -> Ask | None:
        """Ask, unless the tool is read-only or a rule allows the call."""
        if self._only_reads(ctx):
            return None
        for judge in self._judges:
            if await judge.allows(ctx):
                return None
        return Ask(NOT_READ_ONLY)

    def _only_reads(self, ctx: EventContext[ToolCall]) -> bool:
        name, spec = ctx.value.name, ctx.tool
        is_strange = any(tools.get(name) is not None for tools in self._strangers)
        # A handler may have replaced the tool of this spec by another one.
        if spec is None or spec.name != name or is_strange:
            return False
        return spec.annotations.get("readOnlyHint") is True


class TerminalUser(NamedTuple):
    """The person at the *keyboard*; None without a person, and the *reason* for that."""

    keyboard: Keyboard | None
    reason: str = NO_TERMINAL

    def approver(
        self, side: DeferredOutput, report: RunReport, stored: StoredApprovals | None
    ) -> Approver | CallGate:
        """Return the approver: this person, beside the other channels of *stored* if given."""
        if self.keyboard is not None:
            approvals = stored or StoredApprovals(store=MemoryStore())
            store = approvals.store or MemoryStore()
            prompt = QuestionPrompt(self.keyboard, side, report, store, is_kept=stored is not None)
            return approvals.for_caller(prompt.ask)
        return stored or self._refusing(report)

    def _refusing(self, report: RunReport) -> Approver:
        def refuse(ask: Ask, call: ToolCall | None, _: Scope) -> Deny:
            report.unasked(ask, call, self.reason)
            return Deny(self.reason, ask.prompt)

        return refuse


def find_terminal_user(opened: ExitStack | AsyncExitStack, output: Output) -> TerminalUser:
    """Return the person at the terminal of *output*, for as long as that is *opened*."""
    try:
        return TerminalUser(opened.enter_context(open_keyboard(output)))
    except NotInteractiveError as error:
        return TerminalUser(None, f"approval is needed; {error}")


class FileEdit(NamedTuple):
    """The *change* that the call *call_id* of *files* would make; None if a *problem* hides it.

    *summary* and *difference* are made at once: they take a while for large files.
    """

    files: FileTools
    call_id: str
    change: FileChange | None
    summary: str
    difference: str = ""
    problem: str = ""

    def confirm(self) -> None:
        """Have the call refused if its file differs when it runs."""
        if self.change is not None:
            self.files.expect(self.call_id, self.change)


class QuestionPrompt:
    """Puts questions of *store* to the person at *keyboard*; output of *side* waits meanwhile.

    The *report* knows the agent and gets each answer. A call of file tools is shown with its change
    of the file, and only that change is written. With *is_kept* the person may leave a question to
    other channels.
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

    async def ask(self, question: Question, asked: ApprovalRequest) -> None:
        """Put *question* to the person, and write the answer into the store.

        If cancelled, name the person who answered elsewhere.
        """
        with self._side.held():
            try:
                typed = await self._decide(question, asked)
            except asyncio.CancelledError:
                await self._say_end(question)
                raise
            if typed is None and self._is_kept:
                self._say(
                    "nothing was answered; the question is still pending: `toolbus approvals`"
                )
                return
            await shield_until_done(partial(self._answer, question, typed or TypedAnswer("no")))

    async def _decide(self, question: Question, asked: ApprovalRequest) -> TypedAnswer | None:
        """Ask until the answer is about the current file; None: the person left the question."""
        edit = await self._find_edit(question, asked)
        while True:
            self._keyboard.write("\n")
            notes = partial(self._notes, question, edit)
            pages = QuestionPages(self._keyboard, question, ASKS, notes, place=False)
            typed = await read_decision(self._keyboard, pages, Choices(_ENDINGS[self._is_kept]))
            if typed is None or typed.meaning != "yes" or edit is None:
                return typed
            latest = await self._find_edit(question, asked)
            if latest == edit:
                edit.confirm()
                return typed
            edit = latest
            self._say("the file has changed meanwhile; the question is asked again")

    async def _find_edit(self, question: Question, asked: ApprovalRequest) -> FileEdit | None:
        """Return the change of a file by the call; None for a sub-agent, whose files are unknown.

        Values hidden in the call are hidden in the difference. A secret that the file keeps is not
        a difference.
        """
        # A difference could show what the question hides, so every way to one passes here.
        agent = self._report.agent
        if asked.call is None or agent is None or asked.scope.lineage:
            return None
        filled = await asked.fill() if question.filled and asked.fill else asked.call
        call = asked.call if isinstance(filled, Deny) else filled
        edit = await asyncio.to_thread(_find_edit, agent, call)
        if edit is None or not (question.hidden or question.filled):
            return edit
        text = None if question.hidden else await _redacted(edit.difference, asked, agent)
        problem = "" if text is not None else "values in the call are hidden"
        return edit._replace(difference=text or "", problem=edit.problem or problem)

    def _notes(self, question: Question, edit: FileEdit | None, width: int) -> list[Span]:
        """Return rows on the handlers that changed the call, and on the change of its file."""
        rows: list[Span] = []
        if question.requested_arguments is not None:
            changers = ", ".join(self._changers(question.call_id)) or "the tool's schema"
            rows += label_rows("changed by", changers, width)
        if edit is not None:
            rows += line_rows(f"change of the file: {edit.summary}", width, "changed")
            for name, text in (("the reason", edit.problem), ("the difference", edit.difference)):
                rows += label_rows(name, text, width) if text else ()
        return rows

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
            self._say(
                f"`toolbus approvals --store {store} revoke {result.grant.id}` ends the grant"
            )
        if result.question is not None:
            self._report.answered(result.question)

    async def _say_end(self, question: Question) -> None:
        """Say why the question is not asked here any more."""
        current: Question | None = None
        with suppress(StoreError, DecodeError):
            current = await read_question(self._store, question.session_id, question.id)
        if current is None or not current.answered_by:
            self._say("this question is over")
            return
        word = "denied" if current.state == "denied" else "approved"
        where = f" ({shorten_visible(current.answered_from)})" if current.answered_from else ""
        self._say(f"{word} by {shorten_visible(current.answered_by)}{where}")
        self._report.answered(current)

    def _changers(self, call_id: str) -> list[str]:
        """Return the names of the handlers that changed the call."""
        entries: Sequence[HandlerEntry] = ()
        agent = self._report.agent
        for record in () if agent is None else agent.ledger:
            if record.event == TOOL_CALL_BEFORE.name and record.call_id == call_id:
                entries = record.entries
        return [entry.name for entry in entries if entry.status == "changed"]

    def _say(self, text: str) -> None:
        rows = line_rows(text, self._keyboard.columns)
        self._keyboard.write("".join([f"{row.text}\n" for row in rows]))


def _find_edit(agent: Agent, call: ToolCall) -> FileEdit | None:
    """Return the change that *call* makes to a file; None if it is not one of file tools."""
    offered = agent.tools.get(call.name)
    for files in agent.components:
        if not isinstance(files, FileTools):
            continue
        try:
            change = files.preview(call, offered)
        except FileToolError as error:
            return FileEdit(files, call.id, None, "unknown", problem=str(error))
        if change is not None:
            return FileEdit(files, call.id, change, change.summary, change.difference)
    return None


async def _redacted(text: str, asked: ApprovalRequest, agent: Agent) -> str | None:
    """Return *text* with marks in place of secrets; None if it could not be examined."""
    for component in agent.components:
        if isinstance(component, DisplayRedactor):
            redacted = await component.for_display(text, asked.scope)
            if redacted is None:
                return None
            text = redacted
    return text

"""Who decides about the calls of an agent in a terminal or a pipe: its person, others, nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.approvals.stored import StoredApprovals
from toolbus.cli.output.run_report import NOBODY
from toolbus.cli.questions.keyboard import open_keyboard
from toolbus.cli.questions.prompting import QuestionPrompt
from toolbus.events.catalogue import Ask, Deny, Scope
from toolbus.presence.person import NotInteractiveError
from toolbus.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack, ExitStack

    from toolbus.agent.agent import Agent
    from toolbus.cli.output.deferred_output import DeferredOutput
    from toolbus.cli.output.run_report import RunReport
    from toolbus.cli.output.stream import Output
    from toolbus.cli.questions.keyboard import Keyboard
    from toolbus.messages.records import ToolCall
    from toolbus.tools.calls.approver import Approver
    from toolbus.tools.calls.gate import CallGate


class Deciders(NamedTuple):
    """Who decides, and what is to be shown the *agent* when it is open."""

    approver: Approver | CallGate
    watch: Callable[[Agent], None]


class PersonHere(NamedTuple):
    """The person at the *keyboard*; None if there is none, and *why*."""

    keyboard: Keyboard | None
    why: str = NOBODY

    def deciders(
        self, side: DeferredOutput, report: RunReport, stored: StoredApprovals | None
    ) -> Deciders:
        """Return who decides: this person, and by *stored*, if that is given, others elsewhere."""
        if self.keyboard is not None:
            approvals = stored or StoredApprovals(store=MemoryStore())
            store = approvals.store or MemoryStore()
            prompt = QuestionPrompt(self.keyboard, side, report, store, is_kept=stored is not None)
            return Deciders(approvals.for_caller(prompt.ask), prompt.watch)
        return Deciders(stored or self._refusing(report), _ignore)

    def _refusing(self, report: RunReport) -> Approver:
        def refuse(ask: Ask, call: ToolCall | None, _: Scope) -> Deny:
            report.unasked(ask, call, self.why)
            return Deny(self.why, ask.prompt)

        return refuse


def find_person(opened: ExitStack | AsyncExitStack, output: Output) -> PersonHere:
    """Return the person at the terminal of *output*, as long as that is *opened*."""
    try:
        return PersonHere(opened.enter_context(open_keyboard(output)))
    except NotInteractiveError as error:
        return PersonHere(None, f"approval is needed, and {error}")


def _ignore(_: Agent) -> None:
    return

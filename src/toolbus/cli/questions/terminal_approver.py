"""An approver that asks the person at the terminal of a program about the calls of its agents."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from typing import TYPE_CHECKING

from toolbus.approvals.questions import Question
from toolbus.approvals.records import digest_of
from toolbus.cli.questions.keyboard import Keyboard
from toolbus.cli.questions.question_pages import QuestionPages
from toolbus.cli.questions.typed_answers import Choices, read_decision
from toolbus.events.catalogue import Ask, Deny, Scope
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import EMPTY
from toolbus.presence.person import NotInteractiveError, PersonTerminal
from toolbus.tasks.loops import LoopLock

if TYPE_CHECKING:
    from toolbus.messages.records import ToolCall

REFUSED = "the person refused this call"


class TerminalApprover:
    """An approver for `Agent(approver=TerminalApprover())` that asks at this program's terminal.

    The whole call is shown, page by page, with every character visible; a yes counts only after
    the last page. The event loop goes on meanwhile. Without a terminal, or in a process below an
    agent, each call is refused.

    >>> agent = Agent(ScriptedModel(["hi"]), approver=TerminalApprover())
    """

    def __init__(self) -> None:
        self._lock = LoopLock()

    async def __call__(self, ask: Ask, call: ToolCall | None, scope: Scope) -> bool | Deny:
        """Return the person's answer to *ask*, about *call* or the beginning of a run."""
        async with self._lock.current():
            try:
                terminal = await asyncio.to_thread(PersonTerminal)
            except NotInteractiveError as error:
                return Deny(f"approval is needed; {error}", ask.prompt)
            with closing(terminal):
                keyboard = Keyboard(terminal)
                keyboard.write("\n")
                pages = QuestionPages(keyboard, _question(ask, call, scope), place=False)
                choices = Choices("Ctrl-D is n.", may_grant=False)
                typed = await read_decision(keyboard, pages, choices)
        if typed is not None and typed.meaning == "yes":
            return True
        reason = "" if typed is None else typed.reason
        return Deny(f"{REFUSED}: {reason}" if reason else REFUSED, ask.prompt)


def _question(ask: Ask, call: ToolCall | None, scope: Scope) -> Question:
    name, arguments = ("", EMPTY) if call is None else (call.name, call.arguments)
    return Question(
        id=new_id(),
        session_id=scope.session_id,
        call_id="" if call is None else call.id,
        tool=name,
        arguments=arguments,
        digest=digest_of(name, arguments),
        prompt=ask.prompt,
        rule=ask.rule,
        rules=ask.rules,
        agent_id=scope.agent_id,
        asked_ns=time.time_ns(),
        expires_ns=0,
    )

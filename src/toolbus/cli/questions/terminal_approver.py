"""A person at the terminal of a program, asked about the calls of its agents."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from typing import TYPE_CHECKING

from toolbus.approvals.questions import Question
from toolbus.approvals.records import digest_of
from toolbus.cli.questions.keyboard import Keyboard
from toolbus.cli.questions.shown_question import ShownQuestion
from toolbus.cli.questions.typed_answers import TypedAnswer, read_answer
from toolbus.events.catalogue import Ask, Deny, Scope
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import EMPTY
from toolbus.presence.person import NotInteractiveError, PersonTerminal
from toolbus.tasks.loops import LoopLock

if TYPE_CHECKING:
    from toolbus.messages.records import ToolCall

REFUSED = "the person refused this call"
_HELP = """\
y              the call runs, once
n              it does not; what you type behind n is read by the model
v              shows the question again, from its first page
Ctrl-D is n.
"""


class TerminalApprover:
    """Asks the person at the terminal of this program, for `Agent(approver=TerminalApprover())`.

    The call is shown whole, page by page, each character visible; only then a yes is taken. The
    event loop goes on meanwhile. Without a terminal, or below an agent, each call is refused.

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
                return Deny(f"approval is needed, and {error}", ask.prompt)
            with closing(terminal):
                typed = await _typed(Keyboard(terminal), _question(ask, call, scope))
        if typed.meaning == "yes":
            return True
        return Deny(f"{REFUSED}: {typed.reason}" if typed.reason else REFUSED, ask.prompt)


async def _typed(keyboard: Keyboard, question: Question) -> TypedAnswer:
    """Show *question* page by page; return a yes to all of it, or a no."""
    typed, shown = TypedAnswer("next"), ShownQuestion(keyboard, question, [], None)
    keyboard.write("\n")
    while True:
        shown.respond(typed, _HELP)
        line = await keyboard.ask(shown.asks)
        typed = TypedAnswer("no") if line is None else read_answer(line)
        if typed.grant is not None:
            typed = TypedAnswer("unclear", "a grant needs `StoredApprovals`, see its documentation")
        if typed.meaning == "no" or (typed.meaning == "yes" and shown.is_seen):
            return typed


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

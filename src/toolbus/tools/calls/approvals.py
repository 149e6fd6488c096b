"""Approvals: what guards ask is put to a person, one question at a time.

The seam is `Approvals.decide`: who keeps questions in a store (`toolbus.approvals`) is one as well.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from toolbus.bus.dispatch.callables import is_async, takes
from toolbus.errors import DeadlineError, RegistrationError, ToolbusError
from toolbus.events.catalogue import Ask, Deny, Scope
from toolbus.messages.codec import changed
from toolbus.messages.immutable import thaw
from toolbus.messages.records import ToolCall
from toolbus.tasks.loops import LoopLock
from toolbus.tools.calls.execution import execute

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Mapping, Sequence

    from toolbus.bus.bus import EventBus
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import RunStart, ToolSpec
    from toolbus.store.protocol import Store

Approver: TypeAlias = Callable[[Ask, ToolCall | None, Scope], bool | Deny | Awaitable[bool | Deny]]
"""Decides about a final call (None: about a run): True approves, everything else refuses."""

logger = logging.getLogger("toolbus")


class ApprovalRequest(NamedTuple):
    """What is to be decided: the *call* as its tool would run, None for a run of *text*.

    *guards* are the names of those that ask, *requested* is the call as the model wrote it;
    *earlier* are set when the calls before it ask nobody any more; on *bus* a call passes
    `MESSAGE_PERSIST_BEFORE` before it is stored. *filled* are the JSON paths of arguments that the
    tool gets with other values, which are put in right before it runs. *continued* says that the
    call has begun already, by a yes that was taken, and only goes on: a sub-agent that waited for a
    question of its own.
    *tool* is what its caller knows of its tool, None where nobody here knows it.
    A call that *stays_open* while nobody answers is called again under its id; another one is over
    then, and the same call later has another id.
    """

    ask: Ask
    call: ToolCall | None
    scope: Scope
    bus: EventBus
    requested: ToolCall | None = None
    guards: tuple[str, ...] = ()
    earlier: Sequence[asyncio.Event] = ()
    text: str = ""
    filled: tuple[str, ...] = ()
    continued: bool = False
    stays_open: bool = False
    tool: ToolSpec | None = None


class Permit:
    """A person's yes to one call; this one, of an approver that answers at once, is nothing more.

    `take` is called once, right before the effect and after everything that might prevent it, and
    `end` when the answer to the call was appended, whether the yes was taken or not. *question_id*
    names the question that was answered, if one is kept. One that *came_later*, after a wait,
    attaches to its question again: so handlers can judge the call by what holds now.
    """

    question_id = ""
    came_later = False

    async def take(self, call: ToolCall | None = None, tool: ToolSpec | None = None) -> Deny | None:  # noqa: ARG002 - for who is bound to them
        """Use the yes up, in one atomic step; return why the call may not run after all.

        *call* is what is about to run, a copy that nobody else has, and *tool* its tool's spec.
        """
        return None

    async def end(self) -> None:
        """Say that the call has ended; what was not taken is withdrawn."""


class Pending(NamedTuple):
    """The question *question_id* was not answered yet; *text* is what a model is told of it."""

    question_id: str
    text: str


class ApprovalPendingError(ToolbusError):
    """A tool cannot end before a person has answered the questions of the ids *pending*.

    A tool that raises it leaves its call open, where that can be; the call is made once more when
    its agent is resumed, so it has to go on then where it stopped.
    """

    def __init__(self, pending: tuple[str, ...]) -> None:
        self.pending = pending
        super().__init__(pending)

    def __str__(self) -> str:
        questions = f"question{'s'[: len(self.pending) != 1]} {', '.join(self.pending)}"
        return f"a person must approve what this call wants to do; {questions} waits"


PERMIT = Permit()
"""The yes to a run, and what a call has that nobody is asked about."""

CHANGED_CALL = Deny("the call is another one than was approved; call again to ask anew")
CHANGED_TOOL = Deny("the tool changed since the call was approved; call again to ask anew")


class PermitHere(Permit):
    """The yes of an approver that answers at once, to *call* of *tool* as they were then."""

    def __init__(self, call: ToolCall, tool: ToolSpec | None) -> None:
        self._call, self._tool = copy_of(call), tool

    async def take(self, call: ToolCall | None = None, tool: ToolSpec | None = None) -> Deny | None:
        """Return why *call* may not run: it, or its *tool*, is not what the approver was asked."""
        if call is None or call.name != self._call.name:
            return CHANGED_CALL
        if changed(call.arguments, self._call.arguments):
            return CHANGED_CALL
        return CHANGED_TOOL if changed(definition_of(tool), definition_of(self._tool)) else None


def copy_of(call: ToolCall) -> ToolCall:
    """Return *call* with arguments that nobody else has, for frozen is not out of reach.

    Raises `FreezeError` if they are no JSON any more.
    """
    return replace(call, arguments=thaw(call.arguments))


def definition_of(tool: ToolSpec | None) -> tuple[Any, ...]:
    """Return what a model and a person know of a tool: its name, description and parameters."""
    return () if tool is None else (tool.name, tool.description, tool.input_schema)


def _can_decide(approver: Any) -> bool:
    """Tell whether *approver* can be called; what a class gives back is never a decision."""
    return callable(approver) and not isinstance(approver, type) and takes(approver, 3)


class Approvals:
    """Asks *approver*, sync (in a thread) or async, for at most *timeout* seconds a question.

    Raises `RegistrationError` for what cannot be asked.
    """

    def __init__(self, approver: Approver | None = None, timeout: float | None = None) -> None:
        if approver is not None and not _can_decide(approver):
            reason = "it must be callable with a question, a call and a scope"
            raise RegistrationError(f"approver {approver!r}", reason)
        if timeout is not None and not (type(timeout) in {int, float} and 0 < timeout < inf):
            reason = f"expected a positive number of seconds, not {timeout!r}"
            raise RegistrationError("approval_timeout", reason)
        self._approver, self._timeout = approver, timeout
        self._lock = LoopLock()

    def below(self, above: Approvals | None) -> Approvals:
        """Return who decides for an agent below another one: its own approver, or that one's."""
        return self if self._approver is not None or above is None else above

    def for_host(self, store: Store) -> Approvals:
        """Return these for a host that keeps its sessions in *store*."""
        del store  # Nothing of an answer that is given at once is kept.
        return self

    @property
    def store(self) -> Store | None:
        """Where questions that wait are kept; None: nowhere, for each is answered at once."""
        return None

    async def repair(
        self,
        session_id: str,
        open_calls: Collection[str],
        is_answered: Callable[[str], bool],
        continued: Collection[str] = (),
    ) -> Mapping[str, str]:
        """Say what is known of the questions of a session whose writer is a new one.

        Return those of *open_calls*, which have no message yet, that never ran and may be called
        again, each with the id of its question; "" stands for a run. A question whose yes was
        taken is done if *is_answered* says so of its call, and its end is unknown otherwise; of
        the calls in *continued* it stays as it is. What waits for a call that is answered is
        withdrawn.
        """
        del session_id, open_calls, is_answered, continued
        return {}

    async def waive(self, session_id: str, call_id: str) -> Permit | Deny:
        """Return the permit for a call about which nobody asks, or why it may not run.

        A person may have been asked about it before it was left open: then that counts.
        """
        del session_id, call_id
        return PERMIT

    async def withdraw(self, session_id: str, call_ids: Collection[str] | None = None) -> None:
        """Withdraw what waits in a session: about *call_ids*, or else about anything."""

    async def hand_over(self, asked: ApprovalRequest) -> str | None:
        """Hear that a host puts the question about *asked* to its person itself.

        Return the id under which that is noted, "" if it is not; None: the host need not ask, for
        `decide` has a standing yes.
        """
        del asked
        return ""

    async def decide(self, asked: ApprovalRequest) -> Permit | Pending | Deny:
        """Return the yes to *asked*, why not, or that nobody has answered yet.

        Waits until earlier calls are past their own questions, so that a person gets the
        questions in the order of the calls.
        """
        ask, call, scope = asked.ask, asked.call, asked.scope
        if self._approver is None:
            return Deny("approval is needed, and there is nobody to ask", ask.prompt)
        permit = PERMIT if call is None else PermitHere(call, asked.tool)
        for passed in asked.earlier:
            await passed.wait()
        async with self._lock.here():
            answer = await self._answer(partial(self._approver, ask, call, scope))
        if answer is True:
            return permit
        return answer if isinstance(answer, Deny) else Deny("approval was refused", ask.prompt)

    async def _answer(self, question: Callable[[], Any]) -> Any:
        """Return what the approver says, or why it said nothing."""
        try:
            ending = await execute(
                "the approver", question, is_async=is_async(question), seconds=self._timeout
            )
        except DeadlineError as error:
            return Deny("approval was not given in time", str(error))
        if ending.error is None:
            return ending.value
        logger.error("the approver failed", exc_info=ending.error)
        return Deny("approval failed", f"{type(ending.error).__name__}: {ending.error}")


async def decide_run(
    approvals: Approvals, bus: EventBus, context: EventContext[RunStart]
) -> Pending | Deny | None:
    """Return why the run that *context* asks about does not begin; None: it does.

    That it begins is all that the yes was for, so it is done.
    """
    ask = context.asked or Ask()
    text, guards = context.value.text, context.askers
    request = ApprovalRequest(ask, None, context.scope, bus, guards=guards, text=text)
    decision = await approvals.decide(request)
    if not isinstance(decision, Permit):
        return decision
    refusal = await decision.take()
    await decision.end()
    return refusal

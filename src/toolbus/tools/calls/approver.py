"""A program's approver as a gate: a function that answers at once, one question at a time."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.bus.dispatch.callables import is_async, takes
from toolbus.errors import DeadlineError, RegistrationError
from toolbus.events.catalogue import Ask, Deny, Scope
from toolbus.messages.codec import changed
from toolbus.messages.records import ToolCall
from toolbus.tasks.loops import LoopLock
from toolbus.tools.calls.execution import execute
from toolbus.tools.calls.gate import (
    CHANGED_CALL,
    CHANGED_TOOL,
    CallGate,
    Permit,
    copy_of,
    definition_of,
)

if TYPE_CHECKING:
    from toolbus.events.catalogue import ToolSpec
    from toolbus.tools.calls.gate import ApprovalRequest

Approver: TypeAlias = Callable[[Ask, ToolCall | None, Scope], bool | Deny | Awaitable[bool | Deny]]
"""The decision about a final call (None: about a run): True approves, all else denies."""

logger = logging.getLogger("toolbus")


def check_approver(approver: Any) -> None:
    """Raise `RegistrationError` unless *approver* is callable as an approver; a class is not."""
    if not callable(approver) or isinstance(approver, type) or not takes(approver, 3):
        reason = "it must be callable with a question, a call and a scope"
        raise RegistrationError(f"approver {approver!r}", reason)


def check_timeout(timeout: Any) -> None:
    """Raise `RegistrationError` unless *timeout* is None or a positive number of seconds."""
    if timeout is not None and not (type(timeout) in {int, float} and 0 < timeout < inf):
        reason = f"expected a positive number of seconds, not {timeout!r}"
        raise RegistrationError("approval_timeout", reason)


class ApproverGate(CallGate):
    """A gate that asks *approver*, sync (in a thread) or async, with *timeout* seconds a question.

    Raises `RegistrationError` for an invalid approver.
    """

    def __init__(self, approver: Approver, timeout: float | None = None) -> None:
        check_approver(approver)
        self._approver, self._timeout = approver, timeout
        self._lock = LoopLock()

    async def ask(self, asked: ApprovalRequest) -> Permit | Deny:
        """Return the approver's approval or denial, once the earlier calls have asked."""
        ask, call, scope = asked.ask, asked.call, asked.scope
        # A copy now: a handler may change the arguments in place meanwhile.
        permit = ImmediatePermit(None if call is None else copy_of(call), asked.tool)
        for passed in asked.earlier:
            await passed.wait()
        async with self._lock.current():
            answer = await self._answer(partial(self._approver, ask, call, scope))
        if answer is True:
            return permit
        return answer if isinstance(answer, Deny) else Deny("approval was refused", ask.prompt)

    async def _answer(self, question: Callable[[], Any]) -> Any:
        """Return the answer of the approver, or a denial if it failed or was too slow."""
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


class ImmediatePermit(Permit):
    """An approver's approval of *call* of *tool*, both as they were shown."""

    def __init__(self, call: ToolCall | None, tool: ToolSpec | None) -> None:
        self._call, self._tool = call, tool

    async def take(self, call: ToolCall | None = None, tool: ToolSpec | None = None) -> Deny | None:
        """Return a denial if *call* or *tool* differs from the approved one."""
        if self._call is None:
            return None
        if call is None or changed(
            (call.name, call.arguments), (self._call.name, self._call.arguments)
        ):
            return CHANGED_CALL
        return CHANGED_TOOL if changed(definition_of(tool), definition_of(self._tool)) else None


def gate_of(approver: Approver | CallGate, timeout: float | None = None) -> CallGate:
    """Return *approver* as a gate; raises `RegistrationError` for an invalid one."""
    return approver if isinstance(approver, CallGate) else ApproverGate(approver, timeout)

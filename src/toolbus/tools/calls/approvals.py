"""Approvals: what guards ask is put to a person, one question at a time."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.bus.dispatch.callables import is_async, takes
from toolbus.errors import DeadlineError, RegistrationError
from toolbus.events.catalogue import Ask, Deny, Scope
from toolbus.messages.records import ToolCall
from toolbus.tasks.loops import LoopLock
from toolbus.tools.calls.execution import execute

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

Approver: TypeAlias = Callable[[Ask, ToolCall | None, Scope], bool | Deny | Awaitable[bool | Deny]]
"""Decides about a final call (None: about a run): True approves, everything else refuses."""

logger = logging.getLogger("toolbus")


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

    async def refusal(
        self, ask: Ask, call: ToolCall | None, scope: Scope, earlier: Sequence[asyncio.Event] = ()
    ) -> Deny | None:
        """Return None if *ask* is approved, else why not.

        Waits until *earlier* calls are past their own questions, so that a person gets the
        questions in the order of the calls.
        """
        if self._approver is None:
            return Deny("approval is needed, and there is nobody to ask", ask.prompt)
        for passed in earlier:
            await passed.wait()
        async with self._lock.here():
            answer = await self._answer(partial(self._approver, ask, call, scope))
        if answer is True:
            return None
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

"""Approvals: what guards ask is put to a person, one question at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.dispatch.bindings import is_async
from toolbus.dispatch.deadlines import Stuck, in_thread, within
from toolbus.errors import DeadlineError
from toolbus.events import Ask, Deny, Scope
from toolbus.locks import LoopLock
from toolbus.messages import ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence

Approver: TypeAlias = Callable[
    [Ask, ToolCall | None, Scope], bool | Deny | Awaitable[bool | Deny]
]
"""Decides about a final call (None: about a run): True approves, everything else refuses."""

logger = logging.getLogger("toolbus")


class Approvals:
    """Asks *approver*, sync (in a thread) or async, for at most *timeout* seconds a question."""

    def __init__(self, approver: Approver | None = None, timeout: float | None = None) -> None:
        self._approver, self._timeout = approver, timeout
        self._lock, self._stuck = LoopLock(), Stuck()

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
            try:
                answer = await self._ask(self._approver, ask, call, scope)
            except DeadlineError as error:
                return Deny("approval was not given in time", str(error))
            except Exception as error:
                logger.exception("the approver failed")
                return Deny("approval failed", f"{type(error).__name__}: {error}")
        if answer is True:
            return None
        return answer if isinstance(answer, Deny) else Deny("approval was refused", ask.prompt)

    async def _ask(
        self, approver: Approver, ask: Ask, call: ToolCall | None, scope: Scope
    ) -> Any:
        if is_async(approver):
            return await within(self._timeout, _awaited(approver(ask, call, scope)))
        answer = await in_thread(
            approver, ask, call, scope, seconds=self._timeout, stuck=self._stuck
        )
        return await within(self._timeout, answer) if asyncio.iscoroutine(answer) else answer


async def _awaited(answer: Any) -> Any:
    return await answer

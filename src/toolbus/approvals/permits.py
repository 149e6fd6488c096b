"""Permits by an approval in a store: taken once, right before the effect, and then ended."""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from toolbus.approvals.grants import covers, granting_session, read_grant
from toolbus.approvals.records import call_key, pointer_name, read_question
from toolbus.approvals.steps import deliver, transition
from toolbus.errors import DecodeError, StoreError
from toolbus.events.catalogue import Deny
from toolbus.messages.ids import new_id
from toolbus.store.leases import this_process
from toolbus.tools.calls.gate import Permit

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.approvals.bound_calls import BoundCall
    from toolbus.approvals.questions import Question, QuestionSignal
    from toolbus.events.catalogue import ToolSpec
    from toolbus.messages.records import ToolCall
    from toolbus.store.protocol import Store

logger = logging.getLogger("toolbus")

EXPIRED = "approval was not given in time"
FAILED = "approval failed: its record cannot be read or written"
NEVER_RAN = "toolbus: the approval was taken, and the call ended before its tool ran"
_AGAIN = "call again to ask anew"


def refusal_of(question: Question | None, *, stays_open: bool) -> Deny:
    """Return the refusal for a caller whose question is not approved, or not any more."""
    if question is None or question.state == "withdrawn":
        return Deny(f"the question was withdrawn; {_AGAIN}")
    if question.state == "denied":
        return Deny(question.reason or "approval was refused", question.prompt)
    if question.state == "expired":
        return Deny(EXPIRED, question.prompt)
    if stays_open:
        return Deny("the call may have run already, and does not run again")
    return Deny(f"its approval was used by the same call before; {_AGAIN}")


class StorePermit(Permit):
    """The base of permits by a *question* in *store*.

    A failure of the store denies the call, and is logged.
    """

    def __init__(self, store: Store, question: Question, clock: Callable[[], int]) -> None:
        self.question_id = question.id
        self._store, self._question, self._clock = store, question, clock
        self._taken_by = f"{this_process()}/{new_id()}"

    async def take(self, call: ToolCall | None = None, tool: ToolSpec | None = None) -> Deny | None:
        """Use the permit, in one atomic step; return a refusal if the call may not run."""
        try:
            return await self._take(call, tool)
        except (StoreError, DecodeError) as error:
            logger.error("question %s: %s", self.question_id, error)  # noqa: TRY400 - it says all
            return Deny(FAILED, str(error))

    async def end(self) -> None:
        """Record that the call has ended; a failure is logged."""
        try:
            await self._end()
        except (StoreError, DecodeError) as error:
            logger.error("question %s: %s", self.question_id, error)  # noqa: TRY400 - it says all

    @abstractmethod
    async def _take(self, call: ToolCall | None, tool: ToolSpec | None) -> Deny | None:
        """Take; raises `StoreError` and `DecodeError`, as `_end` does."""

    @abstractmethod
    async def _end(self) -> None:
        """End."""

    async def _current(self) -> Question | None:
        return await read_question(self._store, self._question.session_id, self.question_id)


class StoredPermit(StorePermit):
    """The approval of *question*, for the one call of *binding*.

    An approval taken by an earlier run of the call is not taken again when the call continues.
    """

    def __init__(
        self,
        store: Store,
        question: Question,
        binding: BoundCall,
        clock: Callable[[], int],
        *,
        came_later: bool = False,
    ) -> None:
        super().__init__(store, question, clock)
        self.came_later, self._binding = came_later, binding
        self._is_taken = question.state == "taken"
        self._may_be_taken = False
        if self._is_taken:
            self._taken_by = question.taken_by

    async def _take(self, call: ToolCall | None, tool: ToolSpec | None) -> Deny | None:
        refusal = None if call is None else self._binding.refusal_of(call, tool)
        if refusal is not None or self._is_taken:
            return refusal
        refusal = await self._take_yes()
        self._is_taken = refusal is None
        return refusal

    async def _take_yes(self) -> Deny | None:
        question = await self._current()
        if question is None or question.state != "approved":
            return refusal_of(question, stays_open=self._binding.stays_open)
        now = self._clock()
        if now >= question.expires_ns:
            expired = await transition(self._store, question, "expire")
            if expired is not None:
                await deliver(self._store, expired)
            return Deny(EXPIRED, question.prompt)
        if not self._binding.fits(question):
            return Deny("its approval is for another call")
        if question.grant and not await self._is_granted(question, now):
            await transition(self._store, question, "withdraw")
            return Deny(f"the grant that approved it has ended; {_AGAIN}")
        self._may_be_taken = True
        # The id of the call shows later whether it was answered.
        fields = {"taken_by": self._taken_by, "taken_ns": now, "call_id": self._binding.call_id}
        if await transition(self._store, question, "take", **fields) is not None:
            return None
        return refusal_of(await self._current(), stays_open=self._binding.stays_open)

    async def _is_granted(self, question: Question, now_ns: int) -> bool:
        grant = await read_grant(self._store, granting_session(question), question.grant)
        return grant is not None and covers(grant, question, now_ns)

    async def _end(self) -> None:
        question = await self._current()
        ended: dict[str, Any] = {"ended_ns": self._clock()}
        if question is None:
            return
        if question.state in {"pending", "approved"}:
            await transition(self._store, question, "withdraw", **ended)
        elif question.state == "taken" and question.taken_by == self._taken_by:
            if self._is_taken:
                await transition(self._store, question, "end", **ended)
            elif self._may_be_taken:
                # The caller may be cancelled, or lose the store, right after the step was written.
                lost = await transition(self._store, question, "lose")
                if lost is not None:
                    ended["settled_by"] = NEVER_RAN
                    await transition(self._store, lost, "settle_never_ran", **ended)


class ReleasedPermit(StorePermit):
    """A permit for one run of a call whose question may be unanswered: no guard asks any more."""

    _taken: Question | None = None

    async def _take(self, call: ToolCall | None, tool: ToolSpec | None) -> Deny | None:
        del call, tool  # The permit is not bound to them.
        question, now = await self._current(), self._clock()
        if question is None or question.state not in {"pending", "approved"}:
            return refusal_of(question, stays_open=True)
        if now >= question.expires_ns:
            await transition(self._store, question, "expire", delivered=True)
            return Deny(EXPIRED, question.prompt)
        step: QuestionSignal = "take" if question.state == "approved" else "release"
        fields = {"taken_by": self._taken_by, "taken_ns": now}
        self._taken = await transition(self._store, question, step, **fields)
        if self._taken is None:
            return refusal_of(await self._current(), stays_open=True)
        return None

    async def _end(self) -> None:
        if self._taken is not None:
            await transition(self._store, self._taken, "end", ended_ns=self._clock())


async def released_permit(
    store: Store, session_id: str, call_id: str, question_id: str, clock: Callable[[], int]
) -> Permit | Deny | None:
    """Return the permit of a call with an earlier question, when no guard asks any more.

    The permit takes the question before the call runs. None: the question is gone. Raises
    `StoreError` and `DecodeError`.
    """
    question = await read_question(store, session_id, question_id)
    if question is None:
        # A pointer without its question would mean that the call never ran.
        name = pointer_name(call_key(call_id))
        await store.swap_state(session_id, name, await store.read_state(session_id, name), None)
        return None
    if question.state in {"pending", "approved"}:
        return ReleasedPermit(store, question, clock)
    if question.state in {"denied", "expired"}:
        await deliver(store, question)
    return refusal_of(question, stays_open=True)

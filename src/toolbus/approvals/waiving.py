"""Open calls about which a person was asked before, and nobody asks any more when they go on.

Such a call may run, so what is known of it must say so before it does: its question is taken.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from toolbus.approvals.permits import EXPIRED, FAILED, refusal_of
from toolbus.approvals.records import (
    call_key,
    pointer_name,
    read_question,
)
from toolbus.approvals.steps import deliver, take_step
from toolbus.errors import DecodeError, StoreError
from toolbus.events.catalogue import Deny
from toolbus.messages.ids import new_id
from toolbus.store.processes import this_process
from toolbus.tools.calls.gate import Permit

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.approvals.questions import Question
    from toolbus.events.catalogue import ToolSpec
    from toolbus.messages.records import ToolCall
    from toolbus.store.protocol import Store

logger = logging.getLogger("toolbus")


async def waive(
    store: Store, session_id: str, call_id: str, question_id: str, clock: Callable[[], int]
) -> Permit | Deny | None:
    """Return the permit for a call that waited for the question, or why it may not run.

    None: the question is gone. Raises `StoreError` and `DecodeError`.
    """
    question = await read_question(store, session_id, question_id)
    if question is None:
        # With the pointer, it would seem never to have run.
        name = pointer_name(call_key(call_id))
        await store.swap_state(session_id, name, await store.read_state(session_id, name), None)
        return None
    if question.state in {"pending", "approved"}:
        return WaivedPermit(store, question, clock)
    if question.state in {"denied", "expired"}:
        await deliver(store, question)
    return refusal_of(question, stays_open=True)


class WaivedPermit(Permit):
    """The leave to run a call once, though *question* may have no answer: nobody asks any more."""

    def __init__(self, store: Store, question: Question, clock: Callable[[], int]) -> None:
        self.question_id = question.id
        self._store, self._question, self._clock = store, question, clock
        self._taken: Question | None = None

    async def take(self, call: ToolCall | None = None, tool: ToolSpec | None = None) -> Deny | None:  # noqa: ARG002 - it is bound to neither
        """Take the question, answered or not; return why the call may not run after all."""
        try:
            return await self._take()
        except (StoreError, DecodeError) as error:
            logger.error("question %s: %s", self.question_id, error)  # noqa: TRY400 - it says all
            return Deny(FAILED, str(error))

    async def end(self) -> None:
        """Say that the call has ended. A failure is logged."""
        if self._taken is None:
            return
        try:
            await take_step(self._store, self._taken, "end", ended_ns=self._clock())
        except (StoreError, DecodeError) as error:
            logger.error("question %s: %s", self.question_id, error)  # noqa: TRY400 - it says all

    async def _take(self) -> Deny | None:
        question, now = await self._current(), self._clock()
        if question is None or question.state not in {"pending", "approved"}:
            return refusal_of(question, stays_open=True)
        if now >= question.expires_ns:
            await take_step(self._store, question, "expire", delivered=True)
            return Deny(EXPIRED, question.prompt)
        taken_by = f"{this_process()}/{new_id()}"
        self._taken = await take_step(
            self._store,
            question,
            "take" if question.state == "approved" else "waive",
            taken_by=taken_by,
            taken_ns=now,
        )
        if self._taken is None:
            return refusal_of(await self._current(), stays_open=True)
        return None

    async def _current(self) -> Question | None:
        return await read_question(self._store, self._question.session_id, self.question_id)

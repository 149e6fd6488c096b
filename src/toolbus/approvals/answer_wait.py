"""A call that waits for the answer to its question, for a while, whoever gives it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from toolbus.approvals.grants import find_grant
from toolbus.approvals.records import read_question
from toolbus.approvals.steps import LONGEST_WORDS, answer, transition
from toolbus.bus.dispatch.callables import is_async
from toolbus.errors import DecodeError, StoreError
from toolbus.events.catalogue import Deny
from toolbus.tasks.loops import LoopLock
from toolbus.tasks.shield import ContainedTask, shield_until_done
from toolbus.tools.calls.execution import execute

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from toolbus.approvals.questions import Question
    from toolbus.store.protocol import Store
    from toolbus.tools.calls.approver import Approver
    from toolbus.tools.calls.gate import ApprovalRequest

    QuestionAsker: TypeAlias = Callable[[Question, ApprovalRequest], Awaitable[bool | Deny | None]]
    """Puts a question about a call to a person; None: it has no answer, or has written it down."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
"""Seconds between two looks into the store."""

_SHARE = 0.005
"""Seconds that each call which waits adds to the pauses of all: the store is asked as often."""

logger = logging.getLogger("toolbus")


class Waiters:
    """How many calls of this process wait for each question, and how many may wait in *total*.

    *stops* counts how often all of them were told to wait no longer.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.total = self.stops = 0

    def enter(self, question_id: str) -> None:
        """Count one more."""
        self._counts[question_id] = self._counts.get(question_id, 0) + 1

    def leave(self, question_id: str) -> bool:
        """Count one less; tell whether that was the only one."""
        count = self._counts.pop(question_id) - 1
        if count:
            self._counts[question_id] = count
        return not count


class AnswerWait:
    """Waits *seconds*, of the monotonic clock, for the answer to the questions of one caller.

    An *approver*, or an *asker*, is asked as well, and waited for, in the turn that *lock* gives
    it; its answer is one by *name*. *clock*, in nanoseconds since the epoch, decides what has
    expired.
    """

    def __init__(
        self,
        approver: Approver | None,
        lock: LoopLock,
        seconds: float,
        clock: Callable[[], int],
        *,
        asker: QuestionAsker | None = None,
        name: str = "approver",
    ) -> None:
        self._approver, self._lock = approver, lock
        self._seconds, self._clock = seconds, clock
        self._waiters = Waiters()
        self._asker, self._name = asker, name
        self._gone: asyncio.Event | None = None

    @property
    def has_left(self) -> bool:
        """Whether nobody waits here any more for questions that stay."""
        return self._gone is not None and self._gone.is_set()

    def for_caller(
        self,
        asker: QuestionAsker | None,
        name: str,
        seconds: float | None,
        gone: asyncio.Event | None = None,
    ) -> AnswerWait:
        """Return one that asks *asker*, by that *name*, in the place of an approver.

        It waits *seconds*, None: as many as this one, and not once *gone* is set: then questions
        stay, also if it is cancelled. Both know of each other's waiting calls.
        """
        seconds = self._seconds if seconds is None else seconds
        made = AnswerWait(None, LoopLock(), seconds, self._clock, asker=asker, name=name)
        made._waiters, made._gone = self._waiters, gone
        return made

    @contextmanager
    def deciding(self) -> Iterator[int]:
        """Count a call that may wait, before others can see its question; give the `stops`."""
        self._waiters.total += 1
        try:
            yield self._waiters.stops
        finally:
            self._waiters.total -= 1

    async def until_answered(
        self, store: Store, question: Question, asked: ApprovalRequest, stops: int
    ) -> Question:
        """Return *question* as it is once it was answered, or when this has waited long enough.

        It waits no longer once there are more than *stops*. Cancelled, it withdraws the question,
        if no other call of this process waits for it.
        """
        asking: ContainedTask[None] | None = None
        self._waiters.enter(question.id)
        cancelled = None
        try:
            if (ask := self._way_to_ask(question, asked)) is not None:
                asking = ContainedTask(partial(self._ask, ask, store, question, asked))
            return await self._watch(store, question, asking, stops)
        except asyncio.CancelledError as error:
            cancelled = error
            raise
        finally:
            if asking is not None:
                asking.cancel()
            is_last = self._waiters.leave(question.id)
            if is_last and cancelled is not None and not self.has_left:
                await shield_until_done(partial(self.withdraw, store, question))

    def stop(self) -> bool:
        """Let all calls that wait now wait no longer; return whether there are any."""
        self._waiters.stops += 1
        return self._waiters.total > 0

    async def granted(self, store: Store, question: Question) -> Question:
        """Return *question*, approved if a grant says yes to it."""
        now = self._clock()
        if question.state != "pending" or now >= question.expires_ns:
            return question
        grant = await find_grant(store, question, now)
        if grant is None:
            return question
        approved = await transition(
            store,
            question,
            "approve",
            grant=grant.id,
            answered_by=grant.granted_by,
            answered_from=grant.granted_from,
            answered_ns=now,
        )
        return approved or await _current(store, question)

    async def _watch(
        self, store: Store, question: Question, asking: ContainedTask[None] | None, stops: int
    ) -> Question:
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self._seconds, _FIRST_PAUSE
        while question.state == "pending" and self._waiters.stops == stops:
            seconds = max(pause, self._waiters.total * _SHARE)
            if self._clock() >= question.expires_ns:
                await transition(store, question, "expire")
            elif self.has_left:
                break
            elif asking is not None:
                # Before the store is read: what it has answered meanwhile stands there.
                if await asking.wait(seconds):
                    asking.result()  # An exit, or an error of the store, is raised here.
                    asking = None
            elif (remaining := deadline - loop.time()) > 0:
                await asyncio.sleep(min(seconds, remaining))
            else:
                break
            pause = min(pause * 1.5, _LONGEST_PAUSE)
            question = await self.granted(store, await _current(store, question))
        return question

    def _way_to_ask(self, question: Question, asked: ApprovalRequest) -> Callable[[], Any] | None:
        if self._asker is not None:
            return partial(self._asker, question, asked)
        if self._approver is not None:
            return partial(self._approver, asked.ask, asked.call, asked.scope)
        return None

    async def _ask(
        self, ask: Callable[[], Any], store: Store, question: Question, asked: ApprovalRequest
    ) -> None:
        """Put *question* to the approver, in its turn, and write the answer into it."""
        for passed in asked.earlier:
            await passed.wait()
        async with self._lock.current():
            if (await _current(store, question)).state != "pending":
                return
            ending = await execute("the approver", ask, is_async=is_async(ask), seconds=None)
        if ending.error is not None:
            logger.error("the approver failed; the question waits", exc_info=ending.error)
            return
        if ending.value is None and self._asker is not None:
            return
        is_reasoned = isinstance(ending.value, Deny)
        await answer(
            store,
            question.id,
            question.digest,
            approve=ending.value is True,
            by=self._name,
            channel=self._name,
            reason=ending.value.reason[:LONGEST_WORDS] if is_reasoned else "",
            session_id=question.session_id,
            clock=self._clock,
        )

    async def withdraw(self, store: Store, question: Question) -> None:
        """Withdraw *question*, for nobody waits for it any more; a failure is logged."""
        try:
            current = await _current(store, question)
            await transition(store, current, "withdraw", ended_ns=self._clock())
        except (StoreError, DecodeError) as error:
            logger.error("question %s: %s", question.id, error)  # noqa: TRY400 - it says all


async def _current(store: Store, question: Question) -> Question:
    """Return *question* as it stands in the store; what was deleted there is withdrawn."""
    current = await read_question(store, question.session_id, question.id)
    return current or replace(question, state="withdrawn")

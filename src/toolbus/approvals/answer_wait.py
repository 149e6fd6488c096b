"""The wait of a call for the answer to its question, from any channel."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
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
    """Puts a question about a call to a person; None: no answer, or one already stored."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
"""Seconds between two reads of the store."""

_SHARE = 0.005
"""Seconds that each waiting call adds to every pause, so that the rate of reads stays the same."""

logger = logging.getLogger("toolbus")


class Waiters:
    """The waiting calls of this process: counts by question, and in *total*.

    *stops* counts the requests that all of them stop waiting.
    """

    def __init__(self) -> None:
        self.by_question: Counter[str] = Counter()
        self.total = self.stops = 0

    def leave(self, question_id: str) -> bool:
        """Count one call less; return whether it was the last for the question."""
        self.by_question[question_id] -= 1
        return not self.by_question[question_id] and not self.by_question.pop(question_id)


class AnswerWait:
    """A wait of *seconds*, of the monotonic clock, for answers to the questions of one caller.

    An *approver* or an *asker* is called as well, one question at a time under *lock*, and awaited;
    its answer is recorded as given by *name*. Questions expire by *clock*, in nanoseconds since the
    epoch.
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
        """Whether the caller has left: its questions stay pending, and no call waits for them."""
        return self._gone is not None and self._gone.is_set()

    def for_caller(
        self,
        asker: QuestionAsker | None,
        name: str,
        seconds: float | None,
        gone: asyncio.Event | None = None,
    ) -> AnswerWait:
        """Return a wait that calls *asker*, under that *name*, in place of an approver.

        It waits *seconds* (None: as long as this one), but not after *gone* is set: then its
        questions stay pending, even if it is cancelled. Both share their counts of waiting calls.
        """
        seconds = self._seconds if seconds is None else seconds
        made = AnswerWait(None, LoopLock(), seconds, self._clock, asker=asker, name=name)
        made._waiters, made._gone = self._waiters, gone
        return made

    @contextmanager
    def counted(self) -> Iterator[int]:
        """Count a call before its question is visible in the store; yield the current `stops`."""
        self._waiters.total += 1
        try:
            yield self._waiters.stops
        finally:
            self._waiters.total -= 1

    async def wait_for_answer(
        self, store: Store, question: Question, request: ApprovalRequest, stops: int
    ) -> Question:
        """Return *question* after its answer, or unanswered after the wait.

        A later stop than *stops* ends the wait. A cancellation withdraws the question, unless
        another call of this process waits for it.
        """
        prompt: ContainedTask[None] | None = None
        self._waiters.by_question[question.id] += 1
        cancelled = None
        try:
            if (ask := self._prompter(question, request)) is not None:
                prompt = ContainedTask(partial(self._ask, ask, store, question, request))
            return await self._watch(store, question, prompt, stops)
        except asyncio.CancelledError as error:
            cancelled = error
            raise
        finally:
            if prompt is not None:
                prompt.cancel()
            is_last = self._waiters.leave(question.id)
            if is_last and cancelled is not None and not self.has_left:
                await shield_until_done(partial(self.withdraw, store, question))

    def stop(self) -> bool:
        """End the wait of all current calls; return whether there are any."""
        self._waiters.stops += 1
        return self._waiters.total > 0

    async def granted(self, store: Store, question: Question) -> Question:
        """Return *question*, approved if a grant covers it."""
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
        self, store: Store, question: Question, prompt: ContainedTask[None] | None, stops: int
    ) -> Question:
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self._seconds, _FIRST_PAUSE
        while question.state == "pending" and self._waiters.stops == stops:
            seconds = max(pause, self._waiters.total * _SHARE)
            if self._clock() >= question.expires_ns:
                await transition(store, question, "expire")
            elif self.has_left:
                break
            elif prompt is not None:
                # Before the store is read, because the answer is written there.
                if await prompt.wait(seconds):
                    prompt.result()  # Raises `SystemExit`, `KeyboardInterrupt` or `StoreError`.
                    prompt = None
            elif (remaining := deadline - loop.time()) > 0:
                await asyncio.sleep(min(seconds, remaining))
            else:
                break
            pause = min(pause * 1.5, _LONGEST_PAUSE)
            question = await self.granted(store, await _current(store, question))
        return question

    def _prompter(self, question: Question, request: ApprovalRequest) -> Callable[[], Any] | None:
        if self._asker is not None:
            return partial(self._asker, question, request)
        if self._approver is not None:
            return partial(self._approver, request.ask, request.call, request.scope)
        return None

    async def _ask(
        self, ask: Callable[[], Any], store: Store, question: Question, request: ApprovalRequest
    ) -> None:
        """Put *question* to the approver, one at a time, and write the answer to the store."""
        for passed in request.earlier:
            await passed.wait()
        async with self._lock.current():
            if (await _current(store, question)).state != "pending":
                return
            ending = await execute("the approver", ask, is_async=is_async(ask), seconds=None)
        if ending.error is not None:
            logger.error("the approver failed; the question is pending", exc_info=ending.error)
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
        """Withdraw *question*, which no call waits for; a failure is logged."""
        try:
            current = await _current(store, question)
            await transition(store, current, "withdraw", ended_ns=self._clock())
        except (StoreError, DecodeError) as error:
            logger.error("question %s: %s", question.id, error)  # noqa: TRY400 - it says all


async def _current(store: Store, question: Question) -> Question:
    """Return the stored version of *question*; a deleted question counts as withdrawn."""
    current = await read_question(store, question.session_id, question.id)
    return current or replace(question, state="withdrawn")

"""Calls that are made together: they run at the same time, and are answered in their order."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.bus.grace import Grace, current_grace
from toolbus.tasks.shielding import EXITS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from toolbus.events.catalogue import ToolCallOutcome
    from toolbus.messages.records import Message
    from toolbus.tools.calls.call import CallInProgress

Work: TypeAlias = "Callable[[], Coroutine[Any, Any, None]]"

Appended: TypeAlias = "Message | BaseException"
"""A message as it was appended, or the error that kept it out."""

_inside: ContextVar[bool] = ContextVar("toolbus_inside_call", default=False)
"""Whether this context is inside a call."""

logger = logging.getLogger("toolbus")


class CallBatch:
    """Takes *calls* to their ends, each in a task, and answers them in their order.

    *report* returns the outcome of a call that has ended, and tells the observers; *answer* appends
    its message, and returns the outcome as the model reads it. *append* appends the messages of
    all calls that are ready at the same time, for `answer`. With *passes_waiting*, a call that
    waits for a person, which may take long, holds up nobody: those behind it are answered first.

    A call that is alone is answered in its own task. Once stopped, a call has the time of grace;
    if it has not ended then, it is answered all the same, and its task is left behind.
    """

    def __init__(
        self,
        calls: Sequence[CallInProgress],
        report: Callable[[CallInProgress], ToolCallOutcome],
        answer: Callable[
            [CallInProgress, ToolCallOutcome, Appended | None], Awaitable[ToolCallOutcome]
        ],
        append: Callable[
            [Mapping[CallInProgress, ToolCallOutcome]], Awaitable[dict[CallInProgress, Appended]]
        ]
        | None = None,
        *,
        passes_waiting: bool = False,
    ) -> None:
        self._calls, self._report, self._answer, self._append = calls, report, answer, append
        self._passes_waiting = passes_waiting
        self._remaining = list(calls)
        self._ended: dict[CallInProgress, ToolCallOutcome] = {}
        self._answered: dict[CallInProgress, ToolCallOutcome] = {}
        self._errors: list[BaseException] = []
        self._grace = current_grace() or Grace()
        self._tasks: list[tuple[asyncio.Task[None], Work]] = []
        self._news: asyncio.Future[None] | None = None
        self._all_answered: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def run(self) -> tuple[ToolCallOutcome, ...]:
        """Return the outcomes of all calls, in order, once each call has its answer.

        Being cancelled stops the calls, and goes on when they are answered.
        """
        if len(self._calls) > 1:
            for call in self._calls:
                call.on_waiting = self._wake
                self._start(partial(self._end, call))
            self._start(self._answer_all)
        elif self._calls:
            self._start(self._end_and_answer)
        cancelled = None
        while self._remaining:
            try:
                await self._wait()
            except asyncio.CancelledError as error:
                cancelled = error
                self.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._tasks.clear()  # They hold this batch, which holds all that the calls carry.
        if cancelled is not None:
            raise cancelled
        if self._errors:
            self._raise_first()
        return tuple([self._answered[call] for call in self._calls])

    def stop(self) -> None:
        """Cancel the calls; after the time of grace, those that have not ended are left behind."""
        for call in self._calls:
            call.stop()
        self._grace.begin()
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._grace.remaining, self._leave_behind)

    def _start(self, work: Work) -> None:
        # Eager tasks inside each other's first step would grow the stack.
        if sys.version_info >= (3, 12) and not _inside.get():
            loop = asyncio.get_running_loop()
            task = asyncio.Task(self._within(work), loop=loop, eager_start=True)
        else:
            task = asyncio.create_task(self._within(work))
        self._tasks.append((task, work))

    async def _within(self, work: Work) -> None:
        """Do *work* in the context of a task, which is its own."""
        _inside.set(True)
        self._grace.hold()
        await work()

    async def _wait(self) -> None:
        """Wait until all calls are answered; return earlier if a task has to begin once more."""
        # Most work ends in its first step: then one turn of the loop is enough.
        await asyncio.sleep(0)
        if not self._remaining:
            return
        # Cancelled before its first step, as the end of a program may do to every task.
        lost = [(task, work) for task, work in self._tasks if task.cancelled()]
        for task, work in lost:
            self._tasks.remove((task, work))
            self.stop()
            self._start(work)
        if not lost:
            self._all_answered = asyncio.get_running_loop().create_future()
            await self._all_answered

    async def _end_and_answer(self) -> None:
        call = self._calls[0]
        await self._end(call)
        if not call.is_left_behind and call in self._ended:
            await self._answer_one(call)

    async def _end(self, call: CallInProgress) -> None:
        """Take *call* to its end, whatever is cancelled meanwhile, and tell the observers."""
        try:
            await call.walk()
            if not call.is_left_behind:
                self._ended[call] = self._report(call)
        except GeneratorExit:
            raise  # Its loop was closed: nothing can be waited for.
        except BaseException as error:  # noqa: BLE001 - its siblings are answered first
            if not call.is_left_behind:
                self._fail(error)
                self._remaining.remove(call)
        call.on_waiting = None  # It holds this batch, too.
        self._wake()

    async def _answer_all(self) -> None:
        """Answer each call as soon as it has ended, and those before it are answered."""
        while self._remaining:
            ready = self._ready()
            if ready:
                appended = await self._append_ready(ready)
                for call in ready:
                    await self._answer_one(call, appended.get(call))
                continue
            self._news = asyncio.get_running_loop().create_future()
            try:
                await self._news
            except asyncio.CancelledError:
                continue  # As the end of a program cancels all tasks: the calls end by that.

    async def _append_ready(
        self, ready: Sequence[CallInProgress]
    ) -> dict[CallInProgress, Appended]:
        """Append the messages of calls that are ready at the same time, if there are several."""
        if self._append is None or len(ready) == 1:
            return {}
        try:
            return await self._append({call: self._ended[call] for call in ready})
        except GeneratorExit:
            raise  # As above.
        except BaseException as error:  # noqa: BLE001 - as above
            return dict.fromkeys(ready, error)

    async def _answer_one(self, call: CallInProgress, appended: Appended | None = None) -> None:
        try:
            self._answered[call] = await self._answer(call, self._ended[call], appended)
        except GeneratorExit:
            raise  # As above.
        except BaseException as error:  # noqa: BLE001 - as above
            self._fail(error)
        if call.error is not None:
            self._fail(call.error)
        self._remaining.remove(call)
        self._wake()

    def _ready(self) -> list[CallInProgress]:
        """Return the calls that can be answered now: those before them are answered, or wait."""
        ready = []
        for call in self._remaining:
            if call in self._ended:
                ready.append(call)
            elif not (self._passes_waiting and call.waits):
                break
        return ready if self._append is not None else ready[:1]

    def _leave_behind(self) -> None:
        """End the calls that do not listen to their cancellation, so that they are answered."""
        left_behind = [call for call in self._calls if call.leave_behind()]
        for call in left_behind:
            self._ended[call] = self._report(call)
        if left_behind and len(self._calls) == 1:
            self._start(self._answer_all)  # The call's own task answers it no more.
        self._wake()

    def _wake(self) -> None:
        """Wake whatever waits for a call that has ended, that waits, or that is answered."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
        if self._all_answered is not None and not (self._remaining or self._all_answered.done()):
            self._all_answered.set_result(None)

    def _fail(self, error: BaseException) -> None:
        """Keep *error* until all calls are answered; an exit stops them."""
        if all(error is not other for other in self._errors):
            self._errors.append(error)
        if isinstance(error, EXITS):
            self.stop()

    def _raise_first(self) -> None:
        """Raise the error that the caller must get, an exit before others, and log the others."""
        self._errors.sort(key=lambda error: isinstance(error, Exception))
        for other in self._errors[1:]:
            logger.error("one more error of the same tool calls", exc_info=other)
        raise self._errors[0]

"""Work that begins at once, in a task of its own: what never waits needs no turn of the loop.

Python 3.12 has tasks like that; these are for 3.11 too, and others still get their turns. The
functions of asyncio that say which task runs are those that its page "Extending" names.
"""

from __future__ import annotations

import asyncio
import threading
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Coroutine
from contextvars import copy_context
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

T = TypeVar("T")

MOST_IN_A_ROW = 64
"""How often work is waited for without a turn of the loop, so that others do not starve."""

MOST_NESTED = 8
"""How deep work begins at once inside work that does: each level takes room on the stack."""


EXITS = (KeyboardInterrupt, SystemExit)
"""What ends the loop if a task raises it."""


class Begun(Generic[T]):
    """Work that has begun in *task*; once it has *ended*, nobody needs to wait for the task.

    It has ended if it never waited for anything. It runs in a copy of the context of whoever
    began it, as any task does. Its exit (`KeyboardInterrupt`, `SystemExit`) reaches whoever waits
    for it, as any error; if it is *alone*, and nobody waits, that ends the loop.
    """

    __slots__ = ("_steps", "task")

    def __init__(self, coroutine: Coroutine[Any, Any, T], *, alone: bool = False) -> None:
        loop, context = asyncio.get_running_loop(), copy_context()
        steps = self._steps = _Steps(coroutine, alone=alone)
        left: Any = steps
        task: asyncio.Task[T] = asyncio.Task(left, loop=loop, context=context)
        self.task = task
        current = asyncio.current_task(loop)
        if _turns.nested >= MOST_NESTED:
            return
        # It is the current task from the first step on, since that may open a timeout or a
        # group of tasks, and these hold on to the task that they belong to.
        if current is not None:
            _leave_task(loop, current)
        _enter_task(loop, task)
        _turns.nested += 1
        try:
            context.run(steps.begin)
        finally:
            _turns.nested -= 1
            _leave_task(loop, task)
            if current is not None:
                _enter_task(loop, current)

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for the result; cancelling who waits cancels the work."""
        if not self._steps.ended:
            yield from self.task
        return self._steps.result()

    def result(self) -> T:
        """Return the result of what has ended, or raise what it raised."""
        if not self._steps.ended:
            self.task.result()
        return self._steps.result()

    @property
    def ended(self) -> bool:
        """Whether it ended in its first step."""
        return self._steps.ended


async def to_the_end(
    begun: Begun[T], on_cancel: Callable[[], object] = lambda: None, patience: float = inf
) -> T:
    """Return what *begun* returns; being cancelled does not reach it.

    *on_cancel* is called each time; once the work has ended, `CancelledError` goes on, or
    *patience* seconds after the first time: then it is left behind.
    """
    if begun.ended:
        _turns.in_a_row += 1
        if _turns.in_a_row < MOST_IN_A_ROW:
            return await begun
    task, cancelled, deadline = begun.task, None, inf
    while not task.done():
        try:
            if not await end_of(task, deadline):
                break
        except asyncio.CancelledError as error:
            cancelled = error
            deadline = min(deadline, asyncio.get_running_loop().time() + patience)
            on_cancel()
    if cancelled is None:
        return await begun
    task.add_done_callback(forget)
    raise cancelled


async def end_of(task: asyncio.Task[Any], deadline: float = inf) -> bool:
    """Wait until *task* has ended, or the loop's time is *deadline*; tell whether it has ended.

    Cancelling this does not reach it.
    """
    # What `asyncio.wait({task})` does, for one task at a third of the price.
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake(_: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    task.add_done_callback(wake)
    timer = None if deadline == inf else loop.call_at(deadline, wake)
    try:
        await waiter
    finally:
        task.remove_done_callback(wake)
        if timer is not None:
            timer.cancel()
    return task.done()


def forget(task: asyncio.Future[Any]) -> None:
    """Ask for the error of *task*, which asyncio would report as never retrieved."""
    if not task.cancelled():
        task.exception()


class _Turns(threading.local):
    """What the loop of a thread has let pass, and how deep work is nested there."""

    in_a_row = nested = 0


_turns = _Turns()


@Coroutine.register
class _Steps(Generic[T]):
    """What the task of begun work runs: the steps of *coroutine* that are left."""

    __slots__ = ("_alone", "_coroutine", "_error", "_handed", "_value", "_wish", "ended")

    def __init__(self, coroutine: Coroutine[Any, Any, T], *, alone: bool) -> None:
        self._coroutine, self._wish, self._value, self._error = coroutine, None, None, None
        self._alone, self._handed, self.ended = alone, True, False

    _wish: Any
    _value: Any
    _error: BaseException | None

    def begin(self) -> None:
        """Take the first step; what that waits for is handed to the task in its own turn."""
        try:
            wish = self._wish = self._coroutine.send(None)
            self._handed = False
            if asyncio.isfuture(wish):
                # The mark of a future that is about to be waited for: until it is handed over,
                # others may wait for it.
                wish._asyncio_future_blocking = False  # noqa: SLF001 - asyncio's protocol
        except StopIteration as stop:
            self._value, self.ended = stop.value, True
        except BaseException as error:  # noqa: BLE001 - it is for whoever waits
            self._error, self.ended = error, not (self._alone and isinstance(error, EXITS))

    def result(self) -> T:
        """Return what the coroutine returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def send(self, value: object) -> Any:
        """Go on; the task calls it."""
        if self.ended:
            # The loop has come round to what ended long ago.
            _turns.in_a_row = 0
            raise StopIteration
        if self._error is not None:
            raise self._error
        return self._go(self._coroutine.send, value) if self._handed else self._hand_over()

    def throw(self, error: BaseException) -> Any:
        """Go on with *error*; the task calls it."""
        if self.ended:
            raise StopIteration
        if self._error is not None:
            raise self._error
        # A task that is cancelled cancels what it waits for, and the error comes from there.
        if not self._handed and asyncio.isfuture(self._wish) and self._wish.cancel():
            return self._hand_over()
        self._handed = True
        return self._go(self._coroutine.throw, error)

    def _go(self, step: Callable[[Any], Any], given: object) -> Any:
        """Take a *step*; an exit is kept for whoever waits, since in a task it ends the loop.

        So it passes every `finally` on its way to the caller's task, and ends the loop there.
        """
        try:
            return step(given)
        except StopIteration as stop:
            self._value = stop.value
            raise
        except EXITS as error:
            if self._alone:
                raise
            self._error = error
            raise StopIteration from None

    def _hand_over(self) -> Any:
        self._handed = True
        if asyncio.isfuture(self._wish):
            self._wish._asyncio_future_blocking = True  # noqa: SLF001 - as above
        return self._wish

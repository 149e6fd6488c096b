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
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextvars import Context

T = TypeVar("T")

MOST_IN_A_ROW = 64
"""How often work is waited for without a turn of the loop, so that others do not starve."""

MOST_NESTED = 8
"""How deep work begins at once inside work that does: each level takes room on the stack."""


class Begun(Generic[T]):
    """Work that has begun in *task*; once it has *ended*, nobody needs to wait for the task.

    It has ended if it never waited for anything. It runs in a copy of the context of whoever
    began it, as any task does. If it is *movable*, it may leave its task to what it begins, see
    `begin_here`, and go on in another one: it must not hold on to `asyncio.current_task()`.
    """

    __slots__ = ("_context", "_steps", "task")

    task: asyncio.Task[T]

    def __init__(self, coroutine: Coroutine[Any, Any, T], *, movable: bool = False) -> None:
        loop, context = asyncio.get_running_loop(), copy_context()
        # Who may lend the task needs a context apart from the task's: no two enter the same.
        steps = _Steps(coroutine, context if movable else None)
        self._context = context
        self._go_on(steps, copy_context() if movable else context)
        task = self.task
        current = asyncio.current_task(loop)
        if current is None or _turns.nested >= MOST_NESTED:
            return
        # It is the current task from the first step on, since that may open a timeout or a
        # group of tasks, and these hold on to the task that they belong to.
        _leave_task(loop, current)
        _enter_task(loop, task)
        _turns.nested += 1
        outer, _turns.movable = _turns.movable, self if movable else None
        try:
            context.run(steps.begin)
        finally:
            _turns.movable = outer
            _turns.nested -= 1
            _leave_task(loop, task)
            _enter_task(loop, current)

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for the result; cancelling who waits cancels the work."""
        return self._steps.result() if self._steps.ended else (yield from self.task)

    @property
    def ended(self) -> bool:
        """Whether it ended in its first step."""
        return self._steps.ended

    def cancel(self) -> None:
        """Cancel it, in whatever task it goes on."""
        self.task.cancel()

    def lend(self, coroutine: Coroutine[Any, Any, Any]) -> Begun[Any]:
        """Do what `begin_here` does, in the first step of this work."""
        lent: Begun[Any] = object.__new__(Begun)
        context = copy_context()
        steps = lent._steps = _Steps(coroutine, context)
        _turns.movable = None
        context.run(steps.begin)
        if steps.ended and not self.task.cancelling():
            _turns.movable = self
            return lent
        lent.task, lent._steps = self.task, self._steps
        self._go_on(self._steps.leave_to(steps), self._context)
        return lent

    def _go_on(self, steps: _Steps[T], context: Context) -> None:
        """Take *steps* in a new task."""
        self._steps, left = steps, cast("Coroutine[Any, Any, T]", steps)
        self.task = asyncio.Task(left, loop=asyncio.get_running_loop(), context=context)


def begin_here(coroutine: Coroutine[Any, Any, T]) -> Begun[T]:
    """Begin *coroutine* in the current task, if that belongs to movable work in its first step.

    What never waits needs no task of its own then, and has none. What waits keeps the task in
    which it began, and the movable work goes on in a new one.
    """
    outer = _turns.movable
    return Begun(coroutine) if outer is None else outer.lend(coroutine)


def current_work() -> Begun[Any] | asyncio.Task[Any] | None:
    """Return what cancels whoever calls this, also after it was moved to another task."""
    return _turns.movable or asyncio.current_task()


async def to_the_end(begun: Begun[T], on_cancel: Callable[[], object] = lambda: None) -> T:
    """Return what *begun* returns; being cancelled does not reach it.

    *on_cancel* is called each time; once the work has ended, `CancelledError` goes on.
    """
    if begun.ended:
        _turns.in_a_row += 1
        if _turns.in_a_row < MOST_IN_A_ROW:
            return await begun
    task, cancelled = begun.task, None
    while not task.done():
        try:
            await end_of(task)
        except asyncio.CancelledError as error:
            cancelled = error
            on_cancel()
    if cancelled is None:
        return await begun
    if not task.cancelled():
        task.exception()  # Unasked, asyncio would report it as never retrieved.
    raise cancelled


async def end_of(task: asyncio.Task[Any]) -> None:
    """Wait until *task* has ended; cancelling this does not reach it."""
    # What `asyncio.wait({task})` does, for one task at a third of the price.
    waiter = asyncio.get_running_loop().create_future()

    def wake(_: object) -> None:
        if not waiter.done():
            waiter.set_result(None)

    task.add_done_callback(wake)
    try:
        await waiter
    finally:
        task.remove_done_callback(wake)


class _Turns(threading.local):
    """What the loop of a thread has let pass, and how deep work is nested there."""

    in_a_row = nested = 0
    # The movable work that is in its first step, and in its own task.
    movable: Begun[Any] | None = None


_turns = _Turns()


@Coroutine.register
class _Steps(Generic[T]):
    """What the task of begun work runs: the steps of *coroutine* that are left.

    They are taken in *context*, None if that is the task's own.
    """

    __slots__ = ("_context", "_coroutine", "_error", "_handed", "_heir", "_value", "_wish", "ended")

    def __init__(self, coroutine: Coroutine[Any, Any, T], context: Context | None = None) -> None:
        self._coroutine, self._context = coroutine, context
        self._wish = self._value = self._error = self._heir = None
        self._handed, self.ended = True, False

    _heir: _Steps[Any] | None
    _wish: Any
    _value: Any
    _error: BaseException | None

    def begin(self) -> None:
        """Take the first step; what that waits for is handed to the task in its own turn."""
        try:
            wish = self._coroutine.send(None)
        except BaseException as error:  # noqa: BLE001 - it is for whoever waits
            # In this step the task may have been left to others.
            (self._heir or self).end(error)
            return
        (self._heir or self).wait_for(wish)

    def wait_for(self, wish: Any) -> None:
        """Keep what the first step waits for."""
        self._wish, self._handed = wish, False
        if asyncio.isfuture(wish):
            # The mark of a future that is about to be waited for: until it is handed over,
            # others may wait for it.
            wish._asyncio_future_blocking = False  # noqa: SLF001 - asyncio's protocol

    def end(self, error: BaseException) -> None:
        """Keep what the first step ended with."""
        if isinstance(error, StopIteration):
            self._value, self.ended = error.value, True
            return
        # An exit is raised in the task's own turn, where it ends the loop.
        self._error, self.ended = error, not isinstance(error, KeyboardInterrupt | SystemExit)

    def leave_to(self, other: _Steps[Any]) -> _Steps[T]:
        """Become *other*, in its first step; return what the task took steps of until now."""
        heir: _Steps[T] = _Steps(self._coroutine)
        for name in ("_context", "_coroutine", "_error", "_handed", "_value", "_wish", "ended"):
            setattr(self, name, getattr(other, name))
        self._heir = heir
        return heir

    def result(self) -> T:
        """Return what the first step ended with, or raise it."""
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
        return self._go_on(self._coroutine.send, value) if self._handed else self._hand_over()

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
        return self._go_on(self._coroutine.throw, error)

    def _go_on(self, step: Callable[[Any], Any], value: object) -> Any:
        return step(value) if self._context is None else self._context.run(step, value)

    def _hand_over(self) -> Any:
        self._handed = True
        if asyncio.isfuture(self._wish):
            self._wish._asyncio_future_blocking = True  # noqa: SLF001 - as above
        return self._wish

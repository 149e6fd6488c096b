"""Work in a task of its own, shielded from the cancellation of its caller."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

EXITS = (KeyboardInterrupt, SystemExit)
"""The errors of a task that end the loop at once."""


async def outlast(
    end: asyncio.Future[None], on_cancel: Callable[[], object]
) -> asyncio.CancelledError | None:
    """Wait until *end* is done, despite cancellation; return the last cancellation.

    Each cancellation calls *on_cancel*, which must bring about the end: it cancels the work, and
    sets a time after which the work is left behind. Other tasks get a turn meanwhile, even if the
    end has come already; a scope of anyio, which cancels in each turn, is not waited for then.
    """
    cancelled = None
    while cancelled is None or not end.done():
        try:
            # Most work ends in its first step, for which one turn of the loop is enough.
            await asyncio.sleep(0)
            if not end.done():
                await asyncio.wait({end})
            break
        except asyncio.CancelledError as error:
            cancelled = error
            on_cancel()
    return cancelled


class ContainedTask(Generic[T]):
    """Runs *work* in *task*; *ended* is done once the work has ended, or was left behind.

    `KeyboardInterrupt` and `SystemExit` reach the waiting caller, like any error. In a plain task
    they would end the loop at once, before the `finally` blocks of the waiting callers.

    A task that is cancelled before its first step, as at the end of a program, has not run at all:
    the work begins once more, unless it was cancelled by `cancel`.

    With *eager*, Python 3.12 and later take the first step at once. Each eager task inside
    another one's first step grows the stack, so recursive work must not be eager.
    """

    __slots__ = ("_exit", "_timer", "_work", "ended", "is_cancelled", "task")

    task: asyncio.Task[Any]

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]], *, eager: bool = False) -> None:
        loop = asyncio.get_running_loop()
        self._work: Callable[[], Coroutine[Any, Any, T]] | None = work
        self.ended: asyncio.Future[None] = loop.create_future()
        self._exit: BaseException | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.is_cancelled = False
        if eager and sys.version_info >= (3, 12):
            self.task = asyncio.Task(self._run(), loop=loop, eager_start=True)
        else:
            self.task = loop.create_task(self._run())
        self.task.add_done_callback(self._when_done)

    @property
    def is_left_behind(self) -> bool:
        """Whether the work goes on without a waiting caller."""
        return self.ended.done() and not self.task.done()

    def cancel(self) -> None:
        """Cancel the task for good: work that has not begun will not begin."""
        self.is_cancelled = True
        self.task.cancel()

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        """Call *act* in *seconds*, in place of an earlier call, unless the work ends before."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.ended.done():
            self._timer = asyncio.get_running_loop().call_later(seconds, act)

    def leave_behind(self) -> None:
        """End the wait for the work; a later error of it is dropped."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.ended.done():
            self.ended.set_result(None)

    def result(self) -> T:
        """Return the result of ended work, or raise its error."""
        if self._exit is not None:
            raise self._exit
        result: T = self.task.result()
        return result

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end, at most *seconds*; return whether it came.

        A cancellation of the caller does not reach the task.
        """
        await asyncio.sleep(0)  # As in `outlast`.
        if not self.ended.done():
            await asyncio.wait({self.ended}, timeout=seconds)
        return self.ended.done()

    async def _run(self) -> T | None:
        work, self._work = self._work, None  # Ended work is not kept.
        assert work is not None  # noqa: S101 - it begins once
        try:
            return await work()
        except EXITS as error:
            self._exit = error
            return None
        finally:
            # A closed loop drops its coroutines, and no caller waits there.
            if not self.ended.get_loop().is_closed():
                self.leave_behind()

    def _when_done(self, task: asyncio.Task[Any]) -> None:
        if self._work is None:
            if not task.cancelled():
                task.exception()  # Unread, asyncio would report it as never retrieved.
        elif self.is_cancelled:
            self.leave_behind()
        else:
            self.task = task.get_loop().create_task(self._run())
            self.task.add_done_callback(self._when_done)


async def shield_until_done(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return the result of *work*, in a task of its own that a cancellation does not reach.

    The `CancelledError` is raised once the work has ended.
    """
    running = ContainedTask(work)
    cancelled = await outlast(running.ended, lambda: None)
    if cancelled is not None:
        raise cancelled
    return running.result()


def forget(task: asyncio.Future[Any]) -> None:
    """Read the error of *task*, which asyncio would report as never retrieved."""
    if not task.cancelled():
        task.exception()

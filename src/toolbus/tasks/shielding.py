"""Work in a task of its own that a cancellation of its waiting caller does not reach."""

from __future__ import annotations

import asyncio
import sys
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

EXITS = (KeyboardInterrupt, SystemExit)
"""The errors that end the loop at once if a task raises them."""


class ContainedTask(Generic[T]):
    """Runs *work* in *task*; an exit is raised to the waiting caller, as any error is.

    Out of a plain task an exit ends the loop there and then, before the waiting callers have
    passed their `finally`; this way it passes them all on its way to the loop's own caller.

    With *eager*, Python 3.12 and later take the first step at once. Each eager task inside
    another one's first step grows the stack, so recursive work is not to be eager.
    """

    __slots__ = ("_exit", "has_begun", "task")

    task: asyncio.Task[Any]

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]], *, eager: bool = False) -> None:
        self._exit: BaseException | None = None
        self.has_begun = False
        running = self._run(work)
        if eager and sys.version_info >= (3, 12):
            loop = asyncio.get_running_loop()
            self.task = asyncio.Task(running, loop=loop, eager_start=True)
        else:
            self.task = asyncio.create_task(running)

    def result(self) -> T:
        """Return the result of ended work, or raise its error."""
        if self._exit is not None:
            raise self._exit
        result: T = self.task.result()
        return result

    async def wait(
        self, seconds: float | None = None, interrupt: asyncio.Future[Any] | None = None
    ) -> bool:
        """Wait for the end, at most *seconds* or until *interrupt*; return whether it came.

        Being cancelled does not reach the task.
        """
        # Most work ends in its first step: then one turn of the loop is enough, and no callback.
        await asyncio.sleep(0)
        if not self.task.done():
            futures = {self.task} if interrupt is None else {self.task, interrupt}
            await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return self.task.done()

    async def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        self.has_begun = True
        try:
            return await work()
        except EXITS as error:
            self._exit = error
            return None


async def shield_until_done(
    work: Callable[[], Coroutine[Any, Any, T]],
    on_cancel: Callable[[asyncio.Task[Any]], object] = lambda _: None,
    patience: float = inf,
) -> T:
    """Return the result of *work*, in a task of its own; a cancellation does not reach it.

    *on_cancel* gets the task each time; once the work has ended, `CancelledError` goes on, or
    *patience* seconds after the first time: then the work is left behind.

    Work whose task is cancelled before its first step, as the end of a program may do to every
    task, has not run at all; it begins once more.
    """
    running, cancelled, deadline = ContainedTask(work), None, inf
    loop = asyncio.get_running_loop()
    while not running.task.done():
        try:
            if not await running.wait(
                None if deadline == inf else max(0.0, deadline - loop.time())
            ):
                break
        except asyncio.CancelledError as error:
            cancelled = error
            deadline = min(deadline, loop.time() + patience)
            on_cancel(running.task)
        if running.task.cancelled() and not running.has_begun:
            running = ContainedTask(work)
    if cancelled is None:
        return running.result()
    running.task.add_done_callback(forget)
    raise cancelled


def forget(task: asyncio.Future[Any]) -> None:
    """Ask for the error of *task*, which asyncio would report as never retrieved."""
    if not task.cancelled():
        task.exception()

"""Work in a task of its own that a cancellation of those who wait for it does not reach."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

T = TypeVar("T")

EXITS = (KeyboardInterrupt, SystemExit)
"""What ends the loop at once if a task raises it."""


class ContainedTask(Generic[T]):
    """Runs *work* in *task*; an exit is raised to whoever waits for it, as any error is.

    Out of a plain task an exit ends the loop there and then, before those who wait for the task
    have passed their `finally`; this way it passes them all on its way to the loop's own caller.
    """

    __slots__ = ("_exit", "has_begun", "task")

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._exit: BaseException | None = None
        self.has_begun = False
        self.task: asyncio.Task[Any] = asyncio.create_task(self._run(work))

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for the result; cancelling who waits cancels the work."""
        yield from self.task
        return self.result()

    def result(self) -> T:
        """Return the result of what has ended, or raise what it raised."""
        if self._exit is not None:
            raise self._exit
        result: T = self.task.result()
        return result

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
    """Return what *work* returns, in a task of its own; being cancelled does not reach it.

    *on_cancel* gets the task each time; once the work has ended, `CancelledError` goes on, or
    *patience* seconds after the first time: then the work is left behind.

    Work whose task is cancelled before its first step, as the end of a program may do to every
    task, has not run at all; it begins once more.
    """
    loop = asyncio.get_running_loop()
    running, cancelled, seconds = ContainedTask(work), None, None
    deadline = inf
    while not running.task.done():
        try:
            if not (await asyncio.wait({running.task}, timeout=seconds))[0]:
                running.task.add_done_callback(forget)
                break
        except asyncio.CancelledError as error:
            cancelled = error
            deadline = min(deadline, loop.time() + patience)
            on_cancel(running.task)
        seconds = None if deadline == inf else max(0.0, deadline - loop.time())
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

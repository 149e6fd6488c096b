"""The tasks in which an agent works just now, and how all of them are stopped."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.bus.grace import GRACE, Grace
from toolbus.errors import ClosedError, DispatchError
from toolbus.tasks.shielding import shield_until_done

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")
logger = logging.getLogger("toolbus")


class TaskSet:
    """The tasks of *owner*, which can stop them.

    Once a task is cancelled, its handlers have *grace* seconds left.
    """

    def __init__(self, owner: str, grace: float = GRACE) -> None:
        self._owner, self.grace, self._stopped = owner, grace, False
        self._tasks: dict[asyncio.Task[Any], Grace] = {}
        self._inside: ContextVar[bool] = ContextVar("toolbus_task_set", default=False)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what *work* returns, in a task; cancelling this cancels it and waits for its end.

        Raises `ClosedError` if it was stopped.
        """
        grace, cancelled = Grace(self.grace), False

        def cancel(task: asyncio.Task[Any]) -> None:
            nonlocal cancelled
            cancelled = True
            task.cancel()
            grace.begin()

        async def registered() -> T:
            if self._stopped or cancelled:
                work.close()
                raise asyncio.CancelledError
            task = asyncio.current_task()
            assert task is not None  # noqa: S101 - this is a coroutine
            self._tasks[task] = grace
            self._inside.set(True)
            try:
                return await work
            finally:
                self._tasks.pop(task, None)

        try:
            with grace.here():
                return await shield_until_done(registered, cancel, self._patience)
        except asyncio.CancelledError:
            if cancelled or not self._stopped:
                raise
            raise ClosedError(self._owner) from None

    def check_open(self) -> None:
        """Raise `ClosedError` if the tasks were stopped."""
        if self._stopped:
            raise ClosedError(self._owner)

    def check_outside(self) -> None:
        """Raise `DispatchError` inside of the tasks, which would wait for their own end."""
        if self._tasks and self._inside.get():
            raise DispatchError("aclose", "a run would wait for its own end; call it outside")

    async def stop(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        self._stopped = True
        loop = asyncio.get_running_loop()
        # What a closed loop has left behind never ends.
        here = {task: grace for task, grace in self._tasks.items() if task.get_loop() is loop}
        for task, grace in here.items():
            task.cancel()
            grace.begin()
        if here:
            _, pending = await asyncio.wait(here, timeout=self._patience)
            if count := len(pending):
                logger.warning("%s leaves %d runs behind that do not end", self._owner, count)

    @property
    def _patience(self) -> float:
        """Seconds in which what was cancelled ends, unless it does not listen."""
        return 2 * self.grace + 1

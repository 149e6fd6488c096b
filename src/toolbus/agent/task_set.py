"""The tasks of an agent, their cancellation, and the steps of its close."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.bus.grace import CURRENT, GRACE, Grace
from toolbus.errors import ClosedError, DispatchError
from toolbus.tasks.shield import ContainedTask, outlast

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")
logger = logging.getLogger("toolbus")


class TaskSet:
    """The tasks of *owner*; a cancelled task has *grace* seconds for its handlers."""

    def __init__(self, owner: str, grace: float = GRACE) -> None:
        self._owner, self.grace, self._stopped = owner, grace, False
        # A task still running after this time ignores its cancellation, and is left behind.
        self._patience = 2 * grace + 1
        self._running: dict[ContainedTask[Any], Grace] = {}
        self._inside: ContextVar[bool] = ContextVar("toolbus_task_set", default=False)

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of *work* in a task; a cancellation cancels it, and waits for its end.

        Raises `ClosedError` if the set was stopped.
        """
        self.check_open()
        grace = Grace(self.grace)
        running = ContainedTask(partial(self._within, grace, work))
        self._running[running] = grace
        try:
            cancelled = await outlast(running.ended, partial(self._cancel, running))
        finally:
            self._running.pop(running, None)
        if cancelled is not None:
            raise cancelled
        if running.is_left_behind:
            raise ClosedError(self._owner)
        try:
            return running.result()
        except asyncio.CancelledError:
            if not self._stopped:
                raise
            raise ClosedError(self._owner) from None

    async def _within(self, grace: Grace, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        CURRENT.set(grace)
        self._inside.set(True)
        return await work()

    def _cancel(self, running: ContainedTask[Any]) -> None:
        if not running.is_cancelled:
            running.later(self._patience, running.leave_behind)
            self._running[running].begin()
        running.cancel()

    def check_open(self) -> None:
        """Raise `ClosedError` if the set was stopped."""
        if self._stopped:
            raise ClosedError(self._owner)

    def check_outside(self) -> None:
        """Raise `DispatchError` inside one of the tasks, which would wait for its own end."""
        if self._running and self._inside.get():
            raise DispatchError("aclose", "a run would wait for its own end; call it outside")

    async def stop(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        self._stopped = True
        loop = asyncio.get_running_loop()
        # Tasks of a closed loop never end.
        here = [running for running in self._running if running.ended.get_loop() is loop]
        for running in here:
            self._cancel(running)
        if here:
            await asyncio.wait({running.ended for running in here})
        if count := sum(running.is_left_behind for running in here):
            logger.warning("%s leaves %d runs behind, which do not end", self._owner, count)


class Closing:
    """The steps that close *what*: each is taken, even if another one fails.

    After a cancellation, all remaining steps have *grace* seconds together.
    """

    def __init__(self, what: str, grace: float) -> None:
        self._what, self._grace = what, Grace(grace)
        self._errors: list[BaseException] = []

    @property
    def is_cancelled(self) -> bool:
        """Whether a cancellation has come."""
        return self._grace.has_begun

    async def step(
        self, step: Callable[[], Coroutine[Any, Any, object]], *, in_haste: bool = True
    ) -> None:
        """Take *step*; after a cancellation, skip it unless *in_haste*."""
        if self.is_cancelled and not in_haste:
            return
        running = ContainedTask(step)
        if (cancelled := await self._grace.outlast(running)) is not None:
            self._errors.append(cancelled)
        if running.is_left_behind:
            logger.warning("a step in closing %s did not end in time", self._what)
            return
        try:
            running.result()
        except BaseException as error:  # noqa: BLE001 - raised when all steps were taken
            self._errors.append(error)

    def end(self) -> None:
        """Raise an error of the steps: a cancellation or an exit, or else the first error."""
        self._errors.sort(key=lambda error: isinstance(error, Exception))
        for other in self._errors[1:]:
            if not isinstance(other, asyncio.CancelledError):
                logger.error("one more error while %s was closed", self._what, exc_info=other)
        if self._errors:
            raise self._errors[0]

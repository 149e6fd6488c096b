"""What an agent is doing just now, and how all of it is stopped."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.bus.grace import GRACE, Grace
from toolbus.errors import ClosedError, DispatchError
from toolbus.tasks.eager import Begun, to_the_end

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")
logger = logging.getLogger("toolbus")


class TaskSet:
    """Work under way, each piece in a task of its own, so that *who* can stop it.

    Once a piece is cancelled, its handlers have *grace* seconds left.
    """

    def __init__(self, who: str, grace: float = GRACE) -> None:
        self._who, self.grace, self._stopped = who, grace, False
        self._pieces: dict[asyncio.Task[Any], Grace] = {}
        self._inside: ContextVar[bool] = ContextVar("toolbus_work", default=False)

    async def do(self, piece: Coroutine[Any, Any, T]) -> T:
        """Return what *piece* returns; cancelling this cancels it and waits for its end.

        Raises `ClosedError` if it was stopped.
        """
        grace, cancelled = Grace(self.grace), False
        with grace.here():
            begun = Begun(self._marked(piece, grace))

        def cancel() -> None:
            nonlocal cancelled
            cancelled = True
            begun.task.cancel()
            grace.begin()

        try:
            return await to_the_end(begun, cancel, self._patience)
        except asyncio.CancelledError:
            if cancelled or not self._stopped:
                raise
            raise ClosedError(self._who) from None

    def check_outside(self) -> None:
        """Raise `DispatchError` inside of the work, which would wait for its own end."""
        if self._pieces and self._inside.get():
            raise DispatchError("aclose", "a run would wait for its own end; call it outside")

    async def stop(self) -> None:
        """Cancel all of it, and wait until it has ended."""
        self._stopped = True
        loop = asyncio.get_running_loop()
        # What a closed loop has left behind never ends.
        pieces = {task: one for task, one in self._pieces.items() if task.get_loop() is loop}
        for task, grace in pieces.items():
            task.cancel()
            grace.begin()
        if pieces:
            _, left = await asyncio.wait(pieces, timeout=self._patience)
            if left:
                logger.warning("%s leaves %d runs behind that do not end", self._who, len(left))

    @property
    def _patience(self) -> float:
        """Seconds in which what was cancelled ends, unless it does not listen."""
        return 2 * self.grace + 1

    async def _marked(self, piece: Coroutine[Any, Any, T], grace: Grace) -> T:
        if self._stopped:
            piece.close()
            raise ClosedError(self._who)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - it was begun in one
        self._pieces[task] = grace
        self._inside.set(True)
        try:
            return await piece
        finally:
            self._pieces.pop(task, None)

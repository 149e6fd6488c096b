"""What an agent is doing just now, and how all of it is stopped."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.eager import Begun, to_the_end
from toolbus.errors import ClosedError, DispatchError

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class Work:
    """Work under way, each piece in a task of its own, so that *who* can stop it."""

    def __init__(self, who: str) -> None:
        self._who, self._stopped = who, False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._inside: ContextVar[bool] = ContextVar("toolbus_work", default=False)

    async def do(self, piece: Coroutine[Any, Any, T]) -> T:
        """Return what *piece* returns; cancelling this cancels it and waits for its end.

        Raises `ClosedError` if it was stopped.
        """
        begun, cancelled = Begun(self._marked(piece)), False

        def cancel() -> None:
            nonlocal cancelled
            cancelled = True
            begun.task.cancel()

        try:
            return await to_the_end(begun, cancel)
        except asyncio.CancelledError:
            if cancelled or not self._stopped:
                raise
            raise ClosedError(self._who) from None

    def check_outside(self) -> None:
        """Raise `DispatchError` inside of the work, which would wait for its own end."""
        if self._tasks and self._inside.get():
            raise DispatchError("aclose", "a run would wait for its own end; call it outside")

    async def stop(self) -> None:
        """Cancel all of it, and wait until it has ended."""
        self._stopped = True
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _marked(self, piece: Coroutine[Any, Any, T]) -> T:
        if self._stopped:
            piece.close()
            raise ClosedError(self._who)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - it was begun in one
        self._tasks.add(task)
        self._inside.set(True)
        try:
            return await piece
        finally:
            self._tasks.discard(task)

"""A bound for what a cancellation or a close waits for: handlers that hang longer are cut off."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.bus.dispatch.failures import answerable
from toolbus.errors import DeadlineError, RegistrationError
from toolbus.tasks.loops import holding
from toolbus.tasks.shielding import ContainedTask

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractContextManager

T = TypeVar("T")

GRACE = 5.0
"""Seconds that handlers, tools and observers have left after a cancellation or a close."""

SLICE = 0.05
"""Seconds that a handler has at least, also when the grace is over before it began."""

CUTS = 5
"""How often a dispatch is cut off before it is given up: it has handlers that do not listen."""


class Grace:
    """The time that the handlers of one piece of work have left, from `begin` on."""

    def __init__(self, seconds: float = GRACE) -> None:
        self.seconds = seconds
        self._waits: set[Wait] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: float | None = None

    def begin(self) -> None:
        """Count from now on; a second time changes nothing."""
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self.seconds
            self._look_again()

    def here(self) -> AbstractContextManager[Grace | None]:
        """Hold for what is dispatched in a block, also by tasks that begin in it."""
        return holding(_current, self)

    async def wait(self, running: ContainedTask[T]) -> T:
        """Return what *running* returns, or raise `DeadlineError` if it is given up.

        Cancelling this cancels it, and waits for its end just as long.
        """
        wait, cancelled = Wait(running.task), None
        self._waits.add(wait)
        self._look_again()
        try:
            while not wait.over.done():
                try:
                    await asyncio.wait({wait.over})
                except asyncio.CancelledError as error:
                    cancelled = error
                    running.task.cancel()
                    self.begin()
        finally:
            self._waits.discard(wait)
        if cancelled is not None:
            raise cancelled
        if not running.task.done():
            raise DeadlineError(self.seconds)
        return running.result()

    def _look_again(self) -> None:
        """Look after those that wait when the time is up, and as long as there are any."""
        if self._deadline is None or self._timer is not None or not self._waits:
            return
        loop = asyncio.get_running_loop()
        soon = max(self._deadline, loop.time() + SLICE)
        self._timer = loop.call_at(soon, self._cut)

    def _cut(self) -> None:
        self._timer = None
        for wait in tuple(self._waits):
            wait.cut()
        self._look_again()


class Wait:
    """Somebody waits for the dispatch in *task*; it is *over* when that ends or is given up."""

    __slots__ = ("_cuts", "_since", "over", "task")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        loop = asyncio.get_running_loop()
        self.task, self._since, self._cuts = task, loop.time(), 0
        self.over: asyncio.Future[None] = loop.create_future()
        task.add_done_callback(self._end)

    def cut(self) -> None:
        """Cut off the handler that runs now, if it had its time; its failure policy decides."""
        now = asyncio.get_running_loop().time()
        if now - self._since < SLICE:
            return
        self._since, self._cuts = now, self._cuts + 1
        if self._cuts > CUTS:
            self._end(self.task)
            return
        # Nobody cancels the dispatch, so to it the cancellation is one of the handler's own.
        self.task.cancel("cut off after its time of grace")
        self.task.uncancel()

    def _end(self, _: object) -> None:
        if not self.over.done():
            self.over.set_result(None)


async def within_grace(dispatch: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what *dispatch* returns; once the work around it is cancelled, its time is bounded.

    A handler that is ended by a cancellation of its own making has failed, as its policy says.
    Raises `DeadlineError` if its handlers do not even end when they are cut off.
    """
    return await (_current.get() or Grace()).wait(ContainedTask(partial(_answerable, dispatch)))


async def _answerable(dispatch: Callable[[], Coroutine[Any, Any, T]]) -> T:
    answerable.set(True)
    return await dispatch()


def current_grace() -> Grace | None:
    """Return the grace that holds here, None if there is none."""
    return _current.get()


def check_grace(seconds: Any) -> float:
    """Return *seconds*; raises `RegistrationError` for what is no bound."""
    if type(seconds) in {int, float} and 0 <= seconds < inf:
        return float(seconds)
    raise RegistrationError("grace", f"expected a number of seconds, got {seconds!r}")


_current: ContextVar[Grace | None] = ContextVar("toolbus_grace", default=None)

"""A bound for dispatches that a cancellation or a close waits for: hanging handlers are cut off."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.bus.dispatch.failures import answerable
from toolbus.errors import DeadlineError, RegistrationError
from toolbus.tasks.loops import holding
from toolbus.tasks.shielding import ContainedTask, forget

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractContextManager

    from toolbus.bus.bus import EventBus
    from toolbus.events.catalogue import Event

T = TypeVar("T")

GRACE = 5.0
"""Seconds that handlers, tools and observers have left after a cancellation or a close."""

SLICE = 0.05
"""Seconds that a handler has at least, also when the grace is over before it began."""

CUTS = 5
"""How often a dispatch is cut off before it is given up: its handlers ignore cancellations."""


class Grace:
    """The time that the handlers of one piece of work have left, from `begin` on."""

    def __init__(self, seconds: float = GRACE) -> None:
        self.seconds = seconds
        self._deadline = inf
        self._started: asyncio.Future[None] | None = None

    def begin(self) -> None:
        """Count from now on; a second time changes nothing."""
        if self._deadline == inf:
            self._deadline = asyncio.get_running_loop().time() + self.seconds
            if self._started is not None:
                self._started.set_result(None)

    def here(self) -> AbstractContextManager[Grace | None]:
        """Hold for the dispatches in a block, also in tasks that begin in it."""
        return holding(_current, self)

    async def wait(self, running: ContainedTask[Any]) -> None:
        """Wait until *running* has ended, or its time is up."""
        loop = asyncio.get_running_loop()
        if self._deadline == inf:
            self._started = self._started or loop.create_future()
            await running.wait(interrupt=self._started)
        if not running.task.done():
            await running.wait(max(SLICE, self._deadline - loop.time()))


async def within_grace(
    bus: EventBus, event: Event, dispatch: Callable[[], Coroutine[Any, Any, T]]
) -> T:
    """Return the result of *dispatch*, which is of *event*; a cancelled caller waits in bounds.

    Once the work around it is cancelled, each handler that hangs is cut off, and has failed as
    its policy says. Raises `DeadlineError` if the handlers ignore even that.
    """
    if not bus.awaits(event):
        with holding(answerable, True):  # noqa: FBT003 - the variable's value
            return await dispatch()
    grace = _current.get() or Grace()
    running = ContainedTask(partial(_answerable, dispatch), eager=True)
    task, cancelled, cuts = running.task, None, 0
    while not task.done() and cuts <= CUTS:
        try:
            await grace.wait(running)
        except asyncio.CancelledError as error:
            cancelled = error
            grace.begin()
            task.cancel()
        else:
            if not task.done():
                # Nobody cancels the dispatch: to it the cancellation is one of the handler's own.
                cuts += 1
                task.cancel("cut off after its time of grace")
                task.uncancel()
    if task.done() and cancelled is None:
        return running.result()
    task.add_done_callback(forget)
    raise cancelled or DeadlineError(grace.seconds)


async def _answerable(dispatch: Callable[[], Coroutine[Any, Any, T]]) -> T:
    answerable.set(True)
    return await dispatch()


def current_grace() -> Grace | None:
    """Return the grace that holds here, None if there is none."""
    return _current.get()


def check_grace(seconds: Any) -> float:
    """Return *seconds*; raises `RegistrationError` if they are not a bound."""
    if type(seconds) in {int, float} and 0 <= seconds < inf:
        return float(seconds)
    raise RegistrationError("grace", f"expected a number of seconds, got {seconds!r}")


_current: ContextVar[Grace | None] = ContextVar("toolbus_grace", default=None)

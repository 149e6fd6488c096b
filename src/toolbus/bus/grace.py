"""The grace period: a bound on dispatches that a cancellation or a close waits for."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.bus.dispatch.failures import answerable
from toolbus.errors import DeadlineError, RegistrationError
from toolbus.tasks.loops import reset_context
from toolbus.tasks.shield import ContainedTask, outlast

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from toolbus.bus.bus import EventBus
    from toolbus.events.catalogue import Event

T = TypeVar("T")
logger = logging.getLogger("toolbus")

GRACE = 5.0
"""The seconds for handlers, tools and observers after a cancellation or a close."""

LEAST = 0.05
"""The minimum of seconds for any work, even if the grace was over before it began."""


class Grace:
    """The time that the handlers of one task still have, counted from `begin` on."""

    def __init__(self, seconds: float = GRACE) -> None:
        self.seconds = seconds
        self._deadline = inf
        self._bounded: set[ContainedTask[Any]] = set()

    def begin(self) -> None:
        """Start the count, idempotently."""
        if not self.has_begun:
            self._deadline = asyncio.get_running_loop().time() + self.seconds
            for running in self._bounded:
                self._limit(running)

    @property
    def has_begun(self) -> bool:
        """Whether the count has started."""
        return self._deadline != inf

    @property
    def remaining(self) -> float:
        """The remaining seconds once the count has started, at least `LEAST`."""
        return max(LEAST, self._deadline - asyncio.get_running_loop().time())

    async def outlast(self, running: ContainedTask[Any]) -> asyncio.CancelledError | None:
        """Wait for *running* in bounds, despite cancellation; return the last cancellation.

        A cancellation is passed on to *running* and starts the count. At its end a hanging handler
        in *running* is cut off; a task that hangs even then is left behind.
        """

        def stop() -> None:
            self.begin()
            running.cancel()

        self._bounded.add(running)
        if self.has_begun:
            self._limit(running)
        try:
            return await outlast(running.ended, stop)
        finally:
            self._bounded.discard(running)

    def _limit(self, running: ContainedTask[Any]) -> None:
        running.later(self.remaining, partial(self._cut_off, running))

    def _cut_off(self, running: ContainedTask[Any]) -> None:
        # The dispatch is not cancelled: to it the cancellation comes from the handler.
        running.task.cancel("cut off after its grace period")
        running.task.uncancel()
        running.later(LEAST, running.leave_behind)


async def within_grace(
    bus: EventBus,
    event: Event,
    dispatch: Callable[[], Coroutine[Any, Any, T]],
    *,
    sheltered: bool = False,
) -> T:
    """Return the result of *dispatch*, of *event*; bound the wait of a cancelled caller.

    After the surrounding task is cancelled, a hanging handler is cut off, which is a failure under
    its policy. A dispatch that hangs even then is left behind: raises `DeadlineError`. A
    *sheltered* caller is never cancelled, or does not wait after a cancellation: no task is needed.
    """
    if sheltered or not bus.awaits(event):
        token = answerable.set(True)
        try:
            return await dispatch()
        finally:
            reset_context(answerable, token)
    grace = CURRENT.get() or Grace()
    running = ContainedTask(partial(_answerable, dispatch), eager=True)
    if running.ended.done():
        return running.result()  # Done in its first step, so it has not waited at all.
    cancelled = await grace.outlast(running)
    if running.is_left_behind:
        logger.warning("a handler of %r does not end, and is left behind", event.name)
        raise cancelled or DeadlineError(grace.seconds)
    if cancelled is not None:
        raise cancelled
    return running.result()


async def _answerable(dispatch: Callable[[], Coroutine[Any, Any, T]]) -> T:
    answerable.set(True)
    return await dispatch()


def check_grace(seconds: Any) -> float:
    """Return *seconds*; raises `RegistrationError` unless they are finite and not negative."""
    if type(seconds) in {int, float} and 0 <= seconds < inf:
        return float(seconds)
    raise RegistrationError("grace", f"expected a number of seconds, got {seconds!r}")


CURRENT: ContextVar[Grace | None] = ContextVar("toolbus_grace", default=None)
"""The grace of the current task."""

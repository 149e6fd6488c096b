"""A time limit for a user's function, also for one that never awaits."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextvars import copy_context
from inspect import isawaitable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from toolbus.components.state import replay_place, temporary_place

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class TimeIsUp(BaseException):  # not an `Exception`, so that code under test does not catch it
    """A call exceeded its time limit."""


class Stopwatch:
    """A runner of sync and async functions, for at most *limit* seconds each.

    In the main thread and outside an event loop an alarm interrupts any code, even a regular
    expression. Elsewhere a function runs in a thread of its own, which is abandoned when its time
    is up; a regular expression with catastrophic backtracking cannot be stopped there.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, function: Callable[[], Any]) -> Any:
        """Return the result of *function*, awaited if necessary; raises `TimeIsUp`."""
        began = perf_counter()
        try:
            result = self._alarmed(function) if _can_be_alarmed() else self._apart(function)
        except TimeIsUp:
            # The loop may contain interrupted tasks: the next call gets a new one.
            self.close()
            self._loop = None
            raise
        if perf_counter() - began > self.limit:
            raise TimeIsUp
        return result

    def close(self) -> None:
        """Close the event loop, if any."""
        if self._loop is not None and not self._loop.is_running():
            self._loop.close()
            self._loop = None

    def _alarmed(self, function: Callable[[], Any]) -> Any:
        """Run *function* here; an alarm interrupts it, repeatedly if it swallows the exception."""
        armed, began, others, every = True, perf_counter(), 0.0, 0.0

        def ring(*_: object) -> None:
            if armed:
                raise TimeIsUp

        former = signal.signal(signal.SIGALRM, ring)
        try:
            # Later than the limit of awaited code, which ends in an orderly way.
            others, every = signal.setitimer(signal.ITIMER_REAL, self.limit + 1, 1)
            return self._settle(function)
        finally:
            # No call before this line: the alarm may raise in any call and skip the rest.
            armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, former)
            # Restore an earlier alarm, such as a test's own limit.
            if others:
                remaining = max(others - (perf_counter() - began), 0.001)
                signal.setitimer(signal.ITIMER_REAL, remaining, every)

    def _settle(self, function: Callable[[], Any]) -> Any:
        # A copy of the context needs no reset, which an alarm could skip.
        return copy_context().run(self._rehearsed, function)

    def _rehearsed(self, function: Callable[[], Any]) -> Any:
        # Each call begins without stored state, so its result does not depend on earlier calls.
        replay_place.set(temporary_place("checked"))
        result = function()
        if not isawaitable(result):
            return result
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(self._awaited(result))

    async def _awaited(self, awaitable: Awaitable[Any]) -> Any:
        limit = asyncio.timeout(self.limit)
        try:
            async with limit:
                return await awaitable
        except TimeoutError:
            if limit.expired():
                raise TimeIsUp from None
            raise

    def _apart(self, function: Callable[[], Any]) -> Any:
        outcome: list[Any] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                outcome.append(self._settle(function))
            except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
                errors.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(self.limit + 1)
        if thread.is_alive():
            raise TimeIsUp
        for error in errors:
            raise error
        return outcome[0]


def _can_be_alarmed() -> bool:
    if threading.current_thread() is not threading.main_thread():
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False

"""Limits of text and time for one scan, and the error of a scan that exceeds them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import monotonic, thread_time
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

T = TypeVar("T")

SLICE = 0.005
"""Seconds after which a scan yields to the other tasks of its event loop."""

_UNIT = 1_000_000
"""The number of characters that a limit's seconds refer to."""


class UnexaminedError(Exception):
    """The scan of a record was not completed, for *reason*: the record must not pass."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class ScanLimits(Struct, frozen=True):
    """Limits of one scan: *chars* of text, and *seconds* of work by *clock*.

    The seconds hold for a million characters or fewer: the work is linear in the text.
    """

    chars: int
    seconds: float
    # Processor time: the load of a machine must not decide about a result.
    clock: Callable[[], float] = thread_time

    def check(self, spent: float, chars: int = 0) -> None:
        """Raise `UnexaminedError` if more seconds are *spent* than *chars* of text may take."""
        seconds = self.seconds * max(1.0, chars / _UNIT)
        if spent > seconds:
            reason = f"scanning it takes longer than {seconds:g} seconds"
            raise UnexaminedError(reason)


@coroutine
def turn() -> Generator[None, None, None]:
    """Give the `WorkBudget` of a scan the chance to yield to other tasks."""
    yield


class WorkBudget:
    """The text and time that one scan has used of its *limits*.

    The scan is a coroutine that awaits `turn` where it may yield to other tasks.
    """

    def __init__(self, limits: ScanLimits) -> None:
        self._limits, self._spent, self._since = limits, 0.0, limits.clock()
        self.chars = 0

    def read(self, chars: int, times: int = 1) -> None:
        """Count *chars*. Raises `UnexaminedError` above *times* the limit."""
        self.chars += chars
        if self.chars > self._limits.chars * times:
            reason = f"it is too large: more than {self._limits.chars * times:,} characters"
            raise UnexaminedError(reason)

    def check(self) -> None:
        """Raise `UnexaminedError` if the time is used up."""
        now = self._limits.clock()
        self._spent, self._since = self._spent + now - self._since, now
        self._limits.check(self._spent, self.chars)

    def step(self, work: Coroutine[Any, Any, T]) -> tuple[T] | None:
        """Run *work* to its next turn, and return its result in a tuple if it ends before.

        Raises `UnexaminedError` if *work* takes too long.
        """
        result: tuple[T] | None = None
        try:
            work.send(None)
        except StopIteration as end:
            result = (end.value,)
        self.check()
        return result

    async def spend(
        self, work: Coroutine[Any, Any, T], lock: AbstractContextManager[Any] | None = None
    ) -> T:
        """Return the result of *work*, run under *lock* in slices between other tasks.

        Raises `UnexaminedError` if *work* takes too long, not counting the other tasks.
        """
        lock, until = lock or nullcontext(), monotonic() + SLICE
        try:
            while True:
                with lock:
                    self._since = self._limits.clock()
                    if (result := self.step(work)) is not None:
                        return result[0]
                if monotonic() > until:
                    await asyncio.sleep(0)
                    until = monotonic() + SLICE
        finally:
            with lock:
                work.close()


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of *work*, run without yielding to other tasks."""
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            result: T = end.value
            return result

"""What one examination may take, and what is said when that is not enough."""

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
"""Seconds after which the other tasks of a loop have their turn."""

_UNIT = 1_000_000
"""Characters for which the seconds of a limit are."""


class UnexaminedError(Exception):
    """A record was not examined to its end, for *reason*: it must not pass."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class ScanLimits(Struct, frozen=True):
    """What one examination may take: *chars* of text, and *seconds* of work by *clock*.

    The seconds are for a million characters, or fewer: the work is linear in the text.
    """

    chars: int
    seconds: float
    # The processor's time: what others make of a machine decides over no result.
    clock: Callable[[], float] = thread_time

    def check(self, spent: float, chars: int = 0) -> None:
        """Raise `UnexaminedError` if more seconds are *spent* than *chars* of text may take."""
        seconds = self.seconds * max(1.0, chars / _UNIT)
        if spent > seconds:
            reason = f"to look through it takes longer than {seconds:g} seconds"
            raise UnexaminedError(reason)


@coroutine
def turn() -> Generator[None, None, None]:
    """Let the `WorkBudget` of an examination decide whether others have their turn now."""
    yield


class WorkBudget:
    """What one examination has taken of its *limits*: *chars* of text, and seconds of its own work.

    Its work is a coroutine that awaits `turn` where others may have their turn.
    """

    def __init__(self, limits: ScanLimits) -> None:
        self._limits, self._spent, self._since = limits, 0.0, limits.clock()
        self.chars = 0

    def read(self, chars: int, times: int = 1) -> None:
        """Count *chars*; raises `UnexaminedError` for more than *times* as many as there may be."""
        self.chars += chars
        if self.chars > self._limits.chars * times:
            reason = f"it is too large: more than {self._limits.chars * times:,} characters"
            raise UnexaminedError(reason)

    def check(self) -> None:
        """Raise `UnexaminedError` if the time is up."""
        now = self._limits.clock()
        self._spent, self._since = self._spent + now - self._since, now
        self._limits.check(self._spent, self.chars)

    def step(self, work: Coroutine[Any, Any, T]) -> tuple[T] | None:
        """Take *work* to its next turn, and return its result, in a tuple, if it ends before.

        Raises `UnexaminedError` if it takes too long.
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
        """Return the result of *work*, which holds *lock*; meanwhile the event loop turns.

        Raises `UnexaminedError` if it takes too long; the turns of others do not count.
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
    """Return the result of *work*, without a turn for others."""
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            result: T = end.value
            return result

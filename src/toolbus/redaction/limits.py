"""What one examination may take, and what is said when that is not enough."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time
from types import coroutine
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Generator

SLICE = 0.005
"""Seconds after which the other tasks of a loop have their turn."""

_UNIT = 1_000_000
"""Characters for which the seconds of a limit are."""


@coroutine
def turn() -> Generator[None, None, None]:
    """Let the driver of an examination decide whether others have their turn now."""
    yield


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

"""Stand-ins for clock and ids, so that a test sees the same facts each time."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class FakeClock:
    """A clock that stands still until it is told to go on; counts nanoseconds.

    >>> clock = FakeClock()
    >>> before = clock()
    >>> clock.advance(2.5)
    >>> clock() - before
    2500000000
    """

    def __init__(self, now_ns: int = 1_000) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        """Return the time."""
        return self.now_ns

    def advance(self, seconds: float) -> None:
        """Go on by *seconds*."""
        self.now_ns += round(seconds * 1e9)


def counting_ids(prefix: str = "id") -> Callable[[], str]:
    """Return a maker of ids: "id-1", "id-2" and so on.

    >>> ids = counting_ids("m")
    >>> ids(), ids()
    ('m-1', 'm-2')
    """
    numbers = count(1)
    return lambda: f"{prefix}-{next(numbers)}"

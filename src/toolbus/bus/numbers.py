"""Numbers for those who stand in a row on one bus, whichever agent they belong to."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Numbers:
    """Gives each who asks the number after the last one that somebody has, the first 1."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: list[int] = []

    def take(self, owner: object) -> tuple[int, Callable[[], object]]:
        """Return a number, and what gives it back; it goes with its *owner*, too."""
        number = self._taken[-1] + 1 if self._taken else 1
        self._taken.append(number)
        give_back = weakref.finalize(owner, self._taken.remove, number)
        give_back.atexit = False
        return number, give_back

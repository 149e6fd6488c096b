"""How deep an event is dispatched inside itself: counted, so that a circle of handlers ends."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar
from types import CellType
from typing import TYPE_CHECKING

from toolbus.dispatch.turns import CROWD, MAX_DEPTH
from toolbus.errors import DispatchDepthError

if TYPE_CHECKING:
    from contextvars import Token


class Level:
    """A dispatch inside others, *depth* in all; a task that it leaves behind outlives it."""

    __slots__ = ("depth", "over")

    def __init__(self, depth: int) -> None:
        self.depth, self.over = depth, False


class Nesting:
    """Counts the dispatches of an event inside each other, as far as that is needed.

    *busy* is how many of them are under way, whoever began them: never fewer than are inside each
    other, since under the GIL no thread is interrupted while it adds one. So only from `CROWD` on
    the depth itself is counted, by a context variable, which tasks and threads inherit.
    """

    __slots__ = ("_level", "_name", "busy")

    def __init__(self, name: str) -> None:
        self._name, self.busy = name, CellType(0)
        self._level: ContextVar[Level | None] = ContextVar(name, default=None)

    @property
    def depth(self) -> int:
        """How many dispatches are counted around here; what has ended counts no more."""
        level = self._level.get()
        return 0 if level is None or level.over else level.depth

    def enter(self) -> tuple[Level, Token[Level | None]]:
        """Go one level deeper."""
        if (depth := self.depth) >= MAX_DEPTH - CROWD:
            raise DispatchDepthError(self._name, MAX_DEPTH)
        level = Level(depth + 1)
        return level, self._level.set(level)

    def leave(self, entered: tuple[Level, Token[Level | None]]) -> None:
        """Come back."""
        level, token = entered
        level.over = True
        # A coroutine that its loop left behind is closed in a foreign context.
        with suppress(ValueError):
            self._level.reset(token)

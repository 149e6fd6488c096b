"""How deep an event is dispatched inside itself: counted, so that a circle of handlers ends."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

from toolbus.dispatch.turns import MAX_DEPTH
from toolbus.errors import DispatchDepthError

if TYPE_CHECKING:
    from contextvars import Token

Level: TypeAlias = "tuple[list[int], Token[list[int] | None]]"


class Nesting:
    """Counts the dispatches of an event inside each other, by a context variable.

    So it goes with tasks and threads. The variable holds a list of one number, the depth, which
    is 0 once that dispatch is over: a task that outlives it starts afresh.
    """

    __slots__ = ("_level", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._level: ContextVar[list[int] | None] = ContextVar(name, default=None)

    @property
    def depth(self) -> int:
        """How many dispatches there are around here; what has ended counts no more."""
        level = self._level.get()
        return 0 if level is None else level[0]

    def enter(self) -> Level:
        """Go one level deeper; raises `DispatchDepthError`."""
        around = self._level.get()
        depth = 0 if around is None else around[0]
        if depth >= MAX_DEPTH:
            raise DispatchDepthError(self._name, MAX_DEPTH)
        level = [depth + 1]
        return level, self._level.set(level)

    def leave(self, entered: Level) -> None:
        """Come back."""
        level, token = entered
        level[0] = 0
        try:  # noqa: SIM105 - `suppress` costs as much as all of this
            self._level.reset(token)
        except ValueError:
            pass  # A coroutine that its loop left behind is closed in a foreign context.

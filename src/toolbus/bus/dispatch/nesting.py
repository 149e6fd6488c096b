"""How deep an event is dispatched inside itself: counted, so that a circle of handlers ends."""

from __future__ import annotations

from contextvars import ContextVar

from msgspec import Struct

from toolbus.bus.dispatch.turns import MAX_DEPTH
from toolbus.errors import DispatchDepthError


class Level(Struct):
    """A dispatch inside others, *depth* in all; *around* is the next one outside.

    Whoever leaves it says that it is *over*: a task that outlives it is not inside any more.
    """

    depth: int
    around: Level | None
    over: bool = False


class Nesting:
    """Counts the dispatches of an event inside each other, by a context variable.

    So the count goes with tasks and threads. The variable is never set back, since what is over
    does not count: a dispatch may well end in another context than it began.
    """

    __slots__ = ("_latest", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._latest: ContextVar[Level | None] = ContextVar(name, default=None)

    def enter(self) -> Level:
        """Go one level deeper; raises `DispatchDepthError`."""
        around = self._latest.get()
        while around is not None and around.over:
            around = around.around
        depth = 0 if around is None else around.depth
        if depth >= MAX_DEPTH:
            raise DispatchDepthError(self._name, MAX_DEPTH)
        level = Level(depth + 1, around)
        self._latest.set(level)
        return level

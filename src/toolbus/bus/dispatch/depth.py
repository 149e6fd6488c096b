"""The depth of nested dispatches, limited so that a cycle of handlers ends."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from toolbus.errors import DispatchDepthError

if TYPE_CHECKING:
    from toolbus.events.catalogue import Event

MAX_DEPTH = 16
"""The maximum depth of dispatches of one event inside each other."""


class Level:
    """A dispatch, or the turn of a queued observer, *depth* levels deep at its *place*.

    A level that is *over* does not count: a task may outlive the handler that started it.
    """

    __slots__ = ("around", "depth", "event", "over", "place")

    def __init__(self, place: object, event: Event, depth: int, around: Level | None) -> None:
        self.place, self.event, self.depth, self.around = place, event, depth, around
        self.over = False


current_level: ContextVar[Level | None] = ContextVar("toolbus_level", default=None)
"""The innermost level of this context. Tasks and threads inherit it, so it is never reset."""


def enter(place: object, event: Event) -> Level:
    """Enter the next level; raises `DispatchDepthError`.

    The dispatch that marked the channel busy has no level (see `Dispatch`): this is the second.
    """
    level = next_level(place, event, first=2)
    current_level.set(level)
    return level


def next_level(place: object, event: Event, first: int = 1) -> Level:
    """Return the next level of *place* and *event* in this context; raises `DispatchDepthError`."""
    outer = around = _active(current_level.get())
    while outer is not None and not (outer.place is place and outer.event is event):
        outer = _active(outer.around)
    depth = first if outer is None else outer.depth + 1
    if depth > MAX_DEPTH:
        raise DispatchDepthError(event.name, MAX_DEPTH)
    return Level(place, event, depth, around)


def is_inside(place: object) -> bool:
    """Return whether this context is inside a level of *place*."""
    level = _active(current_level.get())
    while level is not None and level.place is not place:
        level = _active(level.around)
    return level is not None


def _active(level: Level | None) -> Level | None:
    while level is not None and level.over:
        level = level.around
    return level

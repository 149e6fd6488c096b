"""Turns of async observers: which one a task belongs to, and how many led to it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.errors import DispatchDepthError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from contextvars import Context

    from toolbus.events.catalogue import Event

T = TypeVar("T")

MAX_DEPTH = 16
"""How often an event may be dispatched inside itself."""


class Turn:
    """An observer's turn, as its context variables show it; a task it leaves behind outlives it.

    *hops* counts, per event, the turns that dispatched one another until it came to this one.
    """

    __slots__ = ("hops", "over", "place")

    def __init__(self, place: object, hops: Mapping[Event, int]) -> None:
        self.place, self.hops, self.over = place, hops, False

    def mark(self, variables: Context) -> None:
        """Make it the turn that *variables* show."""
        variables.run(_turn.set, self)


_turn: ContextVar[Turn | None] = ContextVar("toolbus_turn", default=None)


def current() -> Turn | None:
    """Return the turn inside of which this runs, None if there is none or it is over."""
    turn = _turn.get()
    return None if turn is None or turn.over else turn


def next_turn(place: object, event: Event) -> Turn:
    """Return the turn of an observer at *place* to whom *event* is dispatched here."""
    turn = current()
    hops = {} if turn is None else turn.hops
    count = hops.get(event, 0)
    if count >= MAX_DEPTH:
        raise DispatchDepthError(event.name, MAX_DEPTH)
    return Turn(place, {**hops, event: count + 1})


async def take(function: Callable[..., Coroutine[Any, Any, T]], *args: object) -> T:
    """Return what *function* returns; with that the turn inside of which this runs is over."""
    try:
        return await function(*args)
    finally:
        # At once, and not when whoever shows the event hears of it: tasks that were left behind
        # run before that.
        if (turn := current()) is not None:
            turn.over = True

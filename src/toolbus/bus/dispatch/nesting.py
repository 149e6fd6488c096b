"""How deep an event is dispatched inside itself: counted, so that a circle of handlers ends."""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from toolbus.errors import DispatchDepthError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from contextvars import Context

    from toolbus.events.catalogue import Event

T = TypeVar("T")

MAX_DEPTH = 16
"""How often an event may be dispatched inside itself."""

PERMITS = MAX_DEPTH // 2
"""How many dispatches of an event may be under way before it is asked which is inside which."""


class Level(Struct):
    """A dispatch inside others, *depth* in all; *around* is the next one outside.

    Whoever leaves it says that it is *over*: a task that outlives it is not inside any more.
    """

    depth: int
    around: Level | None
    over: bool = False


class Nesting:
    """Stops an event that is dispatched inside itself without end.

    While few are under way none can be deep: each takes one of the *permits*, and puts it back (a
    deque, whose `pop` and `append` are safe among threads). Who finds none is a level in a context
    variable, which goes with tasks and threads, so that many at once are not taken for deep. The
    variable is never set back, since what is over does not count: a dispatch may well end in
    another context than it began.
    """

    __slots__ = ("_latest", "_name", "permits")

    def __init__(self, name: str) -> None:
        self._name = name
        self.permits: deque[None] = deque([None] * PERMITS)
        self._latest: ContextVar[Level | None] = ContextVar(name, default=None)

    def enter(self) -> Level:
        """Go one level deeper; raises `DispatchDepthError`."""
        around = self._latest.get()
        while around is not None and around.over:
            around = around.around
        depth = 0 if around is None else around.depth
        if depth >= MAX_DEPTH - PERMITS:
            raise DispatchDepthError(self._name, MAX_DEPTH)
        level = Level(depth + 1, around)
        self._latest.set(level)
        return level


class ObserverTurn:
    """An async observer's turn, as its context variables show it; tasks it leaves outlive it.

    *place* are the queues that it stands in. *hops* counts, per event, the turns that dispatched
    one another until it came to this one.
    """

    __slots__ = ("hops", "over", "place")

    def __init__(self, place: object, hops: Mapping[Event, int]) -> None:
        self.place, self.hops, self.over = place, hops, False

    def mark(self, variables: Context) -> None:
        """Make it the turn that *variables* show."""
        variables.run(_turn.set, self)


_turn: ContextVar[ObserverTurn | None] = ContextVar("toolbus_turn", default=None)


def current_turn() -> ObserverTurn | None:
    """Return the turn inside of which this runs, None if there is none or it is over."""
    turn = _turn.get()
    return None if turn is None or turn.over else turn


def next_turn(place: object, event: Event) -> ObserverTurn:
    """Return the turn of an observer at *place* to whom *event* is dispatched here."""
    turn = current_turn()
    hops = {} if turn is None else turn.hops
    count = hops.get(event, 0)
    if count >= MAX_DEPTH:
        raise DispatchDepthError(event.name, MAX_DEPTH)
    return ObserverTurn(place, {**hops, event: count + 1})


async def in_turn(function: Callable[..., Coroutine[Any, Any, T]], *args: object) -> T:
    """Return what *function* returns; with that the turn inside of which this runs is over."""
    try:
        return await function(*args)
    finally:
        # At once, and not when whoever shows the event hears of it: tasks that were left behind
        # run before that.
        if (turn := current_turn()) is not None:
            turn.over = True

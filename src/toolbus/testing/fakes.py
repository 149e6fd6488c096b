"""Fakes of clock and ids, and a recorder of a bus's dispatches."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.bus import EventBus
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.events.catalogue import Event


class FakeClock:
    """A clock in nanoseconds that only `advance` moves.

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
        """Move the clock forward by *seconds*."""
        self.now_ns += round(seconds * 1e9)


def counting_ids(prefix: str = "id") -> Callable[[], str]:
    """Return a generator function of ids: "id-1", "id-2" and so on.

    >>> ids = counting_ids("m")
    >>> ids(), ids()
    ('m-1', 'm-2')
    """
    numbers = count(1)
    return lambda: f"{prefix}-{next(numbers)}"


class Recorder:
    """A tap that collects a record of every dispatch on *bus*, with its values, until closed.

    It changes nothing, not even whether an event has handlers.

    >>> bus = EventBus()
    >>> handle = bus.guard(events.TOOL_CALL_BEFORE, lambda ctx: Deny("no"))
    >>> with Recorder(bus) as recorder:
    ...     context = asyncio.run(bus.apply(events.TOOL_CALL_BEFORE, ToolCall(name="deploy")))
    >>> [record.outcome for record in recorder.records]
    ['denied']
    """

    def __init__(self, bus: EventBus) -> None:
        self.records: list[DispatchRecord] = []
        self._end = bus.tap(self.records.append, values=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def names(self) -> list[str]:
        """The names of the events, in the order of the ends of their dispatches."""
        return [record.event for record in self.records]

    def of(self, event: Event) -> list[DispatchRecord]:
        """Return the records of *event*."""
        return [record for record in self.records if record.event == event.name]

    def values(self, event: Event) -> list[Any]:
        """Return the values with which *event* was dispatched."""
        return [record.value for record in self.of(event)]

    def results(self, event: Event) -> list[Any]:
        """Return the values after the handlers of *event*."""
        return [record.result for record in self.of(event)]

    def close(self) -> None:
        """Stop collecting."""
        self._end()

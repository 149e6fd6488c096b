"""A recorder that collects what a bus dispatched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from toolbus.bus.bus import EventBus
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.events.catalogue import Event


class Recorder:
    """Collects a record of every dispatch on *bus*, with its values, until it is closed.

    It is a tap: it changes nothing, not even whether an event has handlers.

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
        """The names of the events, in the order in which their dispatches ended."""
        return [record.event for record in self.records]

    def of(self, event: Event) -> list[DispatchRecord]:
        """Return the records of *event*."""
        return [record for record in self.records if record.event == event.name]

    def values(self, event: Event) -> list[Any]:
        """Return the values with which *event* was dispatched."""
        return [record.value for record in self.of(event)]

    def results(self, event: Event) -> list[Any]:
        """Return the values as the handlers of *event* left them."""
        return [record.result for record in self.of(event)]

    def close(self) -> None:
        """Stop collecting."""
        self._end()

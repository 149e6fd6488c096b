"""Events by bubus."""

from __future__ import annotations

import logging
from itertools import count as counting

from benchmarks.handlers import functions
from benchmarks.harness import Contender

_numbers = counting()


def observe_async(count: int) -> Contender:
    """Build `await bus.dispatch`; each event is new, as it can be dispatched once."""
    import bubus

    logging.getLogger("bubus").setLevel(logging.CRITICAL)

    class Seen(bubus.BaseEvent):
        value: int

    bus = bubus.EventBus(name=f"Bench{next(_numbers)}", max_history_size=10)
    sources = (f"async def handler(value): return {at}" for at in range(count))
    for source in sources:
        # It tells handlers apart by their names, so these must have some.
        (handler,) = functions(1, source)
        handler.__name__ = f"handler_{id(handler)}"
        bus.on(Seen, handler)
    names = {"dispatch": bus.dispatch, "Seen": Seen}
    lacks = "no priorities; a queue and a task between"
    return Contender("bubus", "await dispatch(Seen(value=1))", names, lacks, count)

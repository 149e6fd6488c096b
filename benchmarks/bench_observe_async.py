"""Telling async observers one after another, and waiting for them."""

from __future__ import annotations

from benchmarks.handlers import ASYNC, functions, observe_loop_async
from benchmarks.harness import LOOP, OURS, Contender, Rig, table
from benchmarks.peers import contenders
from toolbus import EventBus
from toolbus.events import ObserveEvent

SEEN = ObserveEvent("bench:seen", int, awaited=True)
COUNTS = (0, 1, 3, 10, 100)


@table("ns")
def bench_observe_async(rig: Rig) -> None:
    """Awaiting async observers costs little more than a loop that awaits them."""
    for count in COUNTS:
        builds = [
            (LOOP, lambda count=count: loop(count)),
            (OURS, lambda count=count: ours(count)),
            *contenders("observe_async", count),
        ]
        rig.race(f"{count} handlers", builds)


def loop(count: int) -> Contender:
    """Build the loop that awaits *count* handlers."""
    names = {"loop": observe_loop_async, "handlers": functions(count, ASYNC)}
    return Contender(LOOP, "await loop(handlers, 1)", names, "everything", count)


def ours(count: int) -> Contender:
    """Build `bus.observe` with *count* handlers."""
    bus = EventBus()
    for handler in functions(count, ASYNC):
        bus.on(SEEN, handler)
    names = {"observe": bus.observe, "SEEN": SEEN}
    return Contender(OURS, "await observe(SEEN, 1)", names, "", count)

"""Telling sync observers: a plain loop, us, and what others offer for it."""

from __future__ import annotations

from benchmarks.handlers import functions, observe_loop
from benchmarks.harness import LOOP, OURS, Contender, Rig, table
from benchmarks.peers import contenders
from toolbus import EventBus
from toolbus.events import ObserveEvent

SEEN = ObserveEvent("bench:seen", int)
COUNTS = (0, 1, 3, 10, 100)


@table("ns")
def bench_observe_sync(rig: Rig) -> None:
    """Telling sync observers costs little more than a loop over them, with every promise kept."""
    for count in COUNTS:
        builds = [
            (LOOP, lambda count=count: loop(count)),
            (OURS, lambda count=count: ours(count)),
            *contenders("observe_sync", count),
        ]
        rig.race(f"{count} handlers", builds)


def loop(count: int) -> Contender:
    """Build the loop over *count* handlers."""
    names = {"loop": observe_loop, "handlers": functions(count)}
    return Contender(LOOP, "loop(handlers, 1)", names, "everything", count)


def ours(count: int) -> Contender:
    """Build `bus.do` with *count* handlers."""
    bus = EventBus()
    for handler in functions(count):
        bus.on(SEEN, handler)
    return Contender(OURS, "do(SEEN, 1)", {"do": bus.do, "SEEN": SEEN}, "", count)

"""The verbs that transform, with handlers that have no opinion, beside a loop that reduces."""

from __future__ import annotations

from benchmarks.handlers import ASYNC, functions, reduce_loop, reduce_loop_async
from benchmarks.harness import LOOP, OURS, Contender, Rig, table
from toolbus import EventBus
from toolbus.events import TransformEvent

CHANGED = TransformEvent("bench:changed", int)
COUNTS = (0, 1, 3, 10, 100)


@table("ns")
def bench_apply_sync(rig: Rig) -> None:
    """`bus.apply_sync` costs little more than a loop over the same sync handlers."""
    for count in COUNTS:
        builds = [
            (LOOP, lambda count=count: loop(count)),
            (OURS, lambda count=count: apply_sync(count)),
        ]
        rig.race(f"{count} handlers", builds)


@table("ns")
def bench_apply(rig: Rig) -> None:
    """`await bus.apply` costs little more than a loop that awaits the same handlers."""
    for count in COUNTS:
        builds = [
            (LOOP, lambda count=count: loop_async(count)),
            (OURS, lambda count=count: apply(count)),
        ]
        rig.race(f"{count} handlers", builds)


def loop(count: int) -> Contender:
    """Build the loop that reduces over *count* handlers."""
    names = {"loop": reduce_loop, "handlers": functions(count)}
    return Contender(LOOP, "loop(handlers, 1)", names, "everything", count)


def loop_async(count: int) -> Contender:
    """Build the same loop with async handlers."""
    names = {"loop": reduce_loop_async, "handlers": functions(count, ASYNC)}
    return Contender(LOOP, "await loop(handlers, 1)", names, "everything", count)


def apply_sync(count: int) -> Contender:
    """Build `bus.apply_sync` with *count* handlers."""
    bus = EventBus()
    for handler in functions(count):
        bus.on(CHANGED, handler)
    names = {"apply": bus.apply_sync, "CHANGED": CHANGED}
    return Contender(OURS, "apply(CHANGED, 1)", names, "", count)


def apply(count: int) -> Contender:
    """Build `bus.apply` with *count* handlers."""
    bus = EventBus()
    for handler in functions(count, ASYNC):
        bus.on(CHANGED, handler)
    names = {"apply": bus.apply, "CHANGED": CHANGED}
    return Contender(OURS, "await apply(CHANGED, 1)", names, "", count)

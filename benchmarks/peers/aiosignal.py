"""Signals by aiosignal."""

from __future__ import annotations

from benchmarks.handlers import functions
from benchmarks.harness import Contender


def observe_async(count: int) -> Contender:
    """Build `await signal.send`."""
    import aiosignal

    signal = aiosignal.Signal(None)
    signal.extend(functions(count, "async def handler(value): pass"))
    signal.freeze()
    lacks = "a failure stops the rest; no priorities; frozen, so nobody can join or leave"
    return Contender("aiosignal", "await send(1)", {"send": signal.send}, lacks, count)

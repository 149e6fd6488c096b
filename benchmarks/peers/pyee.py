"""Event emitters by pyee."""

from __future__ import annotations

from benchmarks.handlers import functions
from benchmarks.harness import Contender


def observe_sync(count: int) -> Contender:
    """Build `emitter.emit`."""
    import pyee

    emitter = pyee.EventEmitter()
    for handler in functions(count):
        emitter.add_listener("seen", handler)
    lacks = "a failure stops the rest; no priorities"
    return Contender("pyee", 'emit("seen", 1)', {"emit": emitter.emit}, lacks, count)


def observe_async(count: int) -> Contender:
    """Build `emit`, and the wait for the tasks that it makes."""
    from pyee.asyncio import AsyncIOEventEmitter

    emitter = AsyncIOEventEmitter()
    for handler in functions(count, "async def handler(value): pass"):
        emitter.add_listener("seen", handler)
    names = {"emit": emitter.emit, "complete": emitter.wait_for_complete}
    lacks = "one task per handler, not one after another; no priorities"
    return Contender("pyee", 'emit("seen", 1); await complete()', names, lacks, count)

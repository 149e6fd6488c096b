"""Signals by blinker, on which our own bus stands."""

from __future__ import annotations

from benchmarks.handlers import functions
from benchmarks.harness import Contender

LACKS = "no order; a failure stops the rest"


def observe_sync(count: int) -> Contender:
    """Build `signal.send`."""
    import blinker

    signal = blinker.Signal()
    handlers = functions(count, "def handler(sender, value): pass")
    for handler in handlers:
        signal.connect(handler)
    names = {"send": signal.send, "keep": handlers}
    return Contender("blinker", "send(None, value=1)", names, LACKS, count)


def observe_async(count: int) -> Contender:
    """Build `await signal.send_async`."""
    import blinker

    signal = blinker.Signal()
    handlers = functions(count, "async def handler(sender, value): pass")
    for handler in handlers:
        signal.connect(handler)
    names = {"send": signal.send_async, "keep": handlers}
    return Contender("blinker", "await send(None, value=1)", names, LACKS, count)

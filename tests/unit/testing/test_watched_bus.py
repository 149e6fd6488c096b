"""What `specs` should not mention of the bus of a test."""

import asyncio
import logging

from toolbus.events.catalogue import RUN_AFTER, RunResult
from toolbus.testing import watched_bus
from toolbus.testing.watched_bus import ADVICE, WatchedBus

DONE = RunResult(status="ok")


def test_failures_of_other_buses_do_not_count():
    async def slow(ctx):
        raise ValueError("spoilt")

    async def show(bus):
        bus.on(RUN_AFTER, slow)
        bus.do(RUN_AFTER, DONE)
        await bus.drain()

    mine, other = WatchedBus(), WatchedBus()
    asyncio.run(show(other.bus))
    found = mine.problems(), other.problems()
    mine.close()
    other.close()

    assert found == ([], ["handler 'slow' of 'run:after': raised an error", ADVICE])


def test_what_still_waits_is_told(monkeypatch):
    monkeypatch.setattr(watched_bus, "PATIENCE", 0.05)
    loop, watched = asyncio.new_event_loop(), WatchedBus()

    async def show():
        watched.bus.on(RUN_AFTER, see)
        watched.bus.do(RUN_AFTER, DONE)

    async def see(ctx):
        return None

    # Its loop stands still, and is not closed, as between the steps of a test runner.
    loop.run_until_complete(show())
    told = watched.problems()
    loop.run_until_complete(watched.bus.drain())
    loop.close()
    watched.close()

    assert told == [
        "1 events still wait for async observers; end the test with `await bus.drain()`"
    ]
    assert not watched.problems()


def test_the_log_is_let_go():
    before = logging.getLogger("toolbus").handlers.copy()

    watched = WatchedBus()
    during = logging.getLogger("toolbus").handlers.copy()
    watched.close()

    assert len(during) == len(before) + 1
    assert logging.getLogger("toolbus").handlers == before

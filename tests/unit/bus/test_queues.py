"""What `specs` should not mention of `toolbus.bus.queues`: loops and tasks that go unasked."""

import asyncio
import threading
from contextlib import suppress

import pytest

from toolbus.bus import queues
from toolbus.bus.bus import EventBus
from toolbus.bus.dispatch import bindings
from toolbus.errors import NoLoopError
from toolbus.events.catalogue import ObserveEvent

NOTE = ObserveEvent("note", str)
OTHER = ObserveEvent("other", str)


def others():
    """Return all tasks of the loop but the test's own."""
    return asyncio.all_tasks() - {asyncio.current_task()}


async def until(condition):
    """Let the loop run until *condition* holds."""
    while not condition():
        await asyncio.sleep(0)


async def test_a_queue_moves_again_after_all_tasks_were_cancelled():
    bus, seen, block = EventBus(), [], asyncio.Event()

    @bus.on(NOTE)
    async def watch(ctx):
        seen.append(ctx.value)
        await block.wait()

    for word in "abc":
        bus.do(NOTE, word)
    await until(lambda: seen)
    for task in others():
        task.cancel()
    await until(lambda: bus.pending == 2)

    assert seen == ["a"]
    block.set()
    await bus.drain()
    assert (seen, bus.pending) == (["a", "b", "c"], 0)


async def test_a_queue_moves_again_after_its_task_was_cancelled_unbegun():
    bus, seen = EventBus(), []

    @bus.on(NOTE)
    async def watch(ctx):
        seen.append(ctx.value)

    bus.do(NOTE, "a")
    await until(others)
    for task in others():
        task.cancel()
    await until(lambda: not others())

    assert seen == []
    bus.do(NOTE, "b")
    await bus.drain()
    assert seen == ["a", "b"]


async def test_a_drain_goes_on_after_all_other_tasks_were_cancelled():
    bus, seen, block = EventBus(), [], asyncio.Event()

    @bus.on(NOTE)
    async def watch(ctx):
        seen.append(ctx.value)
        await block.wait()

    bus.do(NOTE, "a")
    bus.do(NOTE, "b")
    await until(lambda: seen)
    served = others()
    drain = asyncio.ensure_future(bus.drain())
    await asyncio.sleep(0)
    for task in served:
        task.cancel()
    block.set()
    await drain

    assert seen == ["a", "b"]


async def test_cancelling_the_server_cancels_the_observer():
    bus, seen = EventBus(), []

    @bus.on(NOTE)
    async def watch(ctx):
        seen.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("ended")

    bus.do(NOTE, "a")
    await until(lambda: seen)
    (server,) = [task for task in others() if "_show_all" in repr(task)]
    server.cancel()
    await until(lambda: len(seen) == 2)

    assert seen == ["begun", "ended"]


def test_a_loop_that_is_closed_without_notice_is_counted():
    bus, seen, block = EventBus(), [], []

    @bus.on(NOTE)
    async def watch(ctx):
        seen.append(ctx.value)
        if not block:
            block.append(asyncio.get_running_loop().create_future())
            await block[0]

    async def dispatch():
        for word in "ab":
            bus.do(NOTE, word)
        await until(lambda: seen)

    async def drain():
        await bus.drain()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(dispatch())
    tasks = asyncio.all_tasks(loop)
    loop.close()
    asyncio.run(drain())

    assert seen == ["a"]
    assert (bus.pending, bus.lost) == (0, 2)
    # What the closed loop left behind is ended here, so that it troubles no other test.
    for task in tasks:
        task._log_destroy_pending = False
        with suppress(RuntimeError):
            task.get_coro().close()


async def test_a_loop_that_closes_while_an_event_is_queued_is_served_later(monkeypatch):
    bus, seen = EventBus(), []

    @bus.on(NOTE)
    async def watch(ctx):
        seen.append(ctx.value)

    async with bus:
        loop = asyncio.get_running_loop()
        call_soon = loop.call_soon_threadsafe

        def refuse(*_):
            raise RuntimeError

        monkeypatch.setattr(loop, "call_soon_threadsafe", refuse)
        bus.do(NOTE, "a")
        assert bus.pending == 1
        monkeypatch.setattr(loop, "call_soon_threadsafe", call_soon)
        bus.do(NOTE, "b")
        await bus.drain()

    assert seen == ["a", "b"]


def test_a_stopped_loop_keeps_its_events():
    bus, seen = EventBus(), []

    @bus.on(NOTE)
    async def watch(ctx):
        seen.append(ctx.value)

    async def enter():
        await bus.__aenter__()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(enter())
    bus.do(NOTE, "a")
    assert bus.pending == 1
    loop.run_until_complete(bus.drain())
    loop.close()

    assert seen == ["a"]
    with pytest.raises(NoLoopError):
        bus.do(NOTE, "b")


async def test_a_queue_is_forgotten_when_it_is_empty():
    bus = EventBus()

    async def watch(ctx):
        return None

    for _ in range(3):
        with bus.on(NOTE, watch):
            bus.do(NOTE, "a")
        await bus.drain()

    assert list(bus._queues._loops.values()) == [{}]


async def test_a_queued_event_is_seen_after_its_subscription_was_cancelled():
    bus, seen = EventBus(), []

    async def watch(ctx):
        seen.append(ctx.value)

    with bus.on(NOTE, watch):
        bus.do(NOTE, "a")
    bus.do(NOTE, "b")
    await bus.drain()

    assert seen == ["a"]


async def test_an_observer_that_hangs_is_passed_over(monkeypatch, caplog):
    assert bindings.OBSERVER_TIMEOUT == 30
    monkeypatch.setattr(bindings, "OBSERVER_TIMEOUT", 0.01)
    bus, seen, release, thread = EventBus(), [], threading.Event(), []

    @bus.on(NOTE)
    async def watch(ctx):
        seen.append(ctx.value)
        await asyncio.Event().wait()

    @bus.on(NOTE, thread=True)
    def block(ctx):
        thread.append(threading.current_thread())
        release.wait()

    bus.do(NOTE, "a")
    bus.do(NOTE, "b")
    await bus.drain()

    assert seen == ["a", "b"]
    assert bus.stuck == 2
    texts = sorted(record.getMessage() for record in caplog.records)
    assert texts == [
        f"handler {name!r} of 'note' timed out after 0.01 s (DeadlineError)"
        for name in ("block", "block", "watch", "watch")
    ]
    release.set()
    for one in thread:
        one.join()


async def test_an_observer_of_one_bus_may_drain_another():
    one, other, seen = EventBus(), EventBus(), []

    @other.on(NOTE)
    async def watch(ctx):
        seen.append(ctx.value)

    @one.on(NOTE)
    async def relay(ctx):
        other.do(NOTE, ctx.value)
        await other.drain()
        seen.append("drained")

    one.do(NOTE, "a")
    await one.drain()

    assert seen == ["a", "drained"]


async def test_an_observer_that_is_cancelled_does_not_stop_its_queue():
    bus, seen = EventBus(), []

    @bus.on(NOTE)
    async def watch(ctx):
        seen.append(ctx.value)
        raise asyncio.CancelledError

    bus.do(NOTE, "a")
    bus.do(NOTE, "b")
    await bus.drain()

    assert seen == ["a", "b"]


async def test_pending_counts_all_queues():
    bus, release = EventBus(), asyncio.Event()
    for event in (NOTE, OTHER):

        @bus.on(event)
        async def watch(ctx):
            await release.wait()

        bus.do(event, "a")
        bus.do(event, "b")

    assert bus.pending == 4
    release.set()
    await bus.drain()
    assert bus.pending == 0


def test_two_threads_make_one_set_of_queues(monkeypatch):
    bus, made = EventBus(), []
    barrier = threading.Barrier(2)

    class Slow(queues.Queues):
        def __init__(self):
            super().__init__()
            made.append(self)

    monkeypatch.setattr(queues, "Queues", Slow)

    def make():
        barrier.wait()
        bus._used_queues()

    threads = [threading.Thread(target=make) for _ in range(2)]
    with bus._create_lock:
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join()

    assert len(made) == 1
    assert bus._used_queues() is made[0]

"""The worker's loop, with an engine that does nothing: what it calls, and when it ends."""

import asyncio

import pytest

from toolbus.durable.engine import QueueLimits, WorkflowInfo
from toolbus.durable.holds import mark_expiry
from toolbus.durable.runs import DurableRun, swap_run
from toolbus.durable.slots import WorkerSlot, claim_slot, slot_name
from toolbus.durable.worker import QueueWorker, serve
from toolbus.store.memory import MemoryStore


class Idle:
    """An engine that runs nothing, and keeps what it was asked for in *calls*."""

    workers = None

    def __init__(self, running=(), started=None):
        self.calls, self.running, self.started = [], running, started

    async def open(self):
        self.calls.append("open")

    async def start(self, slot, workflow, queue):
        self.calls.append(f"start {slot}")
        if self.started:
            raise self.started

    async def cancel(self, workflow_id):
        self.calls.append(f"cancel {workflow_id}")

    async def workflows(self, states=(), *, queue="", limit=1000):
        return tuple([each for each in self.running if each.queue == queue])

    async def stop(self, seconds):
        self.calls.append(f"stop {seconds}")


def workflow(slot, queue="q"):
    return WorkflowInfo(
        id=f"w-{slot}",
        arguments=(f"run-{slot}", "1"),
        queue=queue,
        state="running",
        slot=slot,
        version="1",
    )


async def test_a_worker_works_until_it_is_stopped():
    store, engine, stop, ready = MemoryStore(), Idle(), asyncio.Event(), []

    def note(slot):
        ready.append(slot)
        stop.set()

    kept = await serve(None, store, engine, QueueLimits(name="q"), stop, grace=3, ready=note)

    assert kept
    assert ready == ["worker:q:1"]
    assert engine.calls == ["open", "start worker:q:1", "stop 3"]
    assert (await claim_slot(store, "q")).name == "worker:q:1"


async def test_a_stop_keeps_the_slot_until_the_calls_have_ended():
    class Slow(Idle):
        async def stop(self, seconds):
            await asyncio.sleep(seconds)

    store, stop = MemoryStore(), asyncio.Event()
    limits, options = QueueLimits(name="q"), {"grace": 0.6, "lease": 0.3}
    worker = asyncio.create_task(
        serve(None, store, Slow(), limits, stop, ready=lambda _: stop.set(), **options)
    )

    await stop.wait()
    await asyncio.sleep(0.45)

    assert not await WorkerSlot(store, slot_name("q", 1)).take()
    assert await worker


async def test_a_worker_that_lost_its_slot_leaves_its_runs_alone():
    now = 1_000
    store = MemoryStore(clock=lambda: now * 10**9)
    engine, stop = Idle(), asyncio.Event()
    ready = asyncio.Event()
    limits = QueueLimits(name="q")
    worker = asyncio.create_task(
        serve(None, store, engine, limits, stop, lease=0.03, ready=lambda _: ready.set())
    )
    await ready.wait()

    now += 100
    assert await WorkerSlot(store, slot_name("q", 1), 30).take()

    assert not await worker
    assert engine.calls == ["open", "start worker:q:1"]


async def test_a_worker_whose_engine_does_not_start_gives_its_slot_back():
    store, engine = MemoryStore(), Idle(started=OSError("no room"))

    with pytest.raises(OSError, match="no room"):
        await serve(None, store, engine, QueueLimits(name="q"), asyncio.Event(), ready=print)

    assert (await claim_slot(store, "q")).name == "worker:q:1"


async def test_dead_workers_alone_are_renewed():
    store = MemoryStore()
    own, alive = [await claim_slot(store, "q") for _ in range(2)]
    names = [own.name, alive.name, "worker:q:7", "worker:q:9"]
    engine = Idle([*map(workflow, names), workflow("worker:other:1", "other")])
    worker = QueueWorker(store, engine, "q", own)
    worker.running.add((f"run-{own.name}", "1"))

    await worker.renew_lost()

    assert sorted(engine.calls) == [f"cancel w-worker:q:{number}" for number in (7, 9)]
    free = [await claim_slot(store, "q") for _ in range(5)]
    assert free[-1].name == "worker:q:7"  # The dead slots were given back.


async def test_an_answer_that_cannot_be_queued_delays_no_renewal():
    class Broken(Idle):
        async def enqueue(self, call):
            raise ValueError

    store = MemoryStore()
    run = DurableRun(id="r", session_id="s", queue="q", word="held")
    await swap_run(store, None, run)
    await mark_expiry(store, run)
    engine = Broken([workflow("worker:q:7")])
    worker = QueueWorker(store, engine, "q", await claim_slot(store, "q", 0))

    care = asyncio.create_task(worker.look_after())
    while not engine.calls:
        await asyncio.sleep(0.01)
    care.cancel()

    assert engine.calls == ["cancel w-worker:q:7"]


async def test_a_workflow_without_a_task_is_lost_at_the_second_look():
    store = MemoryStore()
    own = await claim_slot(store, "q")
    engine = Idle([workflow(own.name)])
    worker = QueueWorker(store, engine, "q", own)

    await worker.renew_lost()
    assert engine.calls == []
    await worker.renew_lost()
    assert engine.calls == [f"cancel w-{own.name}"]

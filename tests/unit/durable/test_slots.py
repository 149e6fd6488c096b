"""The slots of workers: who holds one, and when it is lost."""

from toolbus.durable.slots import WorkerSlot, claim_slot, slot_name
from toolbus.errors import StoreError
from toolbus.store.memory import MemoryStore


class Ticking:
    """A clock in seconds for workers, and in nanoseconds for the store."""

    now = 1_000.0

    def __call__(self):
        return self.now

    def nanoseconds(self):
        return round(self.now * 1e9)


class Unreachable(MemoryStore):
    """A store that fails while it is not *up*."""

    up = True

    async def open_session(self, session_id, holder, seconds):
        if not self.up:
            raise StoreError("memory", "the server is down")
        return await super().open_session(session_id, holder, seconds)


def worlds():
    clock = Ticking()
    return Unreachable(clock=clock.nanoseconds), clock


async def held(store, clock, name="worker:q:1"):
    slot = WorkerSlot(store, name, 30, clock)
    assert await slot.take()
    return slot


async def test_workers_claim_the_lowest_free_slots():
    store = MemoryStore()
    first, second = [await claim_slot(store, "q") for _ in range(2)]
    other = await claim_slot(store, "other")

    await first.release()
    third = await claim_slot(store, "q")

    names = [slot.name for slot in (first, second, other, third)]
    assert names == ["worker:q:1", "worker:q:2", "worker:other:1", "worker:q:1"]


async def test_an_expired_slot_is_free():
    store, clock = worlds()
    await held(store, clock)

    assert not await WorkerSlot(store, slot_name("q", 1), 30, clock).take()
    clock.now += 30
    assert await WorkerSlot(store, slot_name("q", 1), 30, clock).take()


async def test_a_kept_slot_does_not_expire():
    store, clock = worlds()
    slot = await held(store, clock)

    for _ in range(10):
        clock.now += 10
        assert await slot.extend()

    assert not await WorkerSlot(store, slot.name, 30, clock).take()


async def test_a_slot_that_another_worker_holds_is_lost():
    store, clock = worlds()
    slot = await held(store, clock)
    clock.now += 31
    await held(store, clock)

    assert not await slot.extend()


async def test_a_slot_outlives_a_server_that_is_down_for_less_than_its_lease():
    store, clock = worlds()
    slot = await held(store, clock)

    store.up = False
    clock.now += 10
    assert await slot.extend()
    store.up = True
    clock.now += 10
    assert await slot.extend()


async def test_a_slot_is_lost_with_a_server_that_stays_down():
    store, clock = worlds()
    slot = await held(store, clock)
    store.up = False

    clock.now += 31
    assert not await slot.extend()

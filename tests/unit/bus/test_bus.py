"""What `specs` should not mention of `toolbus.bus`: blinker's corners, threads, lost coroutines."""

import asyncio
import contextvars
import gc
import logging
import threading
from collections import Counter
from contextlib import suppress
from itertools import count

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from toolbus.bus import channels
from toolbus.bus.bus import EventBus
from toolbus.bus.dispatch.depth import MAX_DEPTH, enter, next_level
from toolbus.bus.dispatch.details import Rejected
from toolbus.bus.subscriptions import Subscribable
from toolbus.errors import DispatchDepthError
from toolbus.events.catalogue import ObserveEvent, Scope, TransformEvent

ANY = TransformEvent("any", object)
WORD = TransformEvent("word", str)
NOTE = ObserveEvent("note", str)


# --- subscriptions, against a model --------------------------------------------------------------


class Subscriptions(RuleBasedStateMachine):
    """Handlers come and go while threads dispatch; the model is a sorted list."""

    subscriptions = Bundle("subscriptions")

    def __init__(self):
        super().__init__()
        self.bus, self.model, self.numbers = EventBus(), {}, count()

    @rule(target=subscriptions, priority=st.integers(-1, 1), guard=st.booleans())
    def subscribe(self, priority, guard):
        number = next(self.numbers)

        def handler(ctx):
            ctx.value.append(number)

        subscribe = self.bus.guard if guard else self.bus.on
        self.model[number] = (guard, -priority, number)
        return number, subscribe(ANY, handler, priority=priority)

    @rule(subscription=consumes(subscriptions))
    def cancel(self, subscription):
        number, held = subscription
        held.cancel()
        del self.model[number]

    @rule(priority=st.integers(-1, 1))
    def subscribe_once(self, priority):
        number = next(self.numbers)
        self.bus.on(ANY, lambda ctx: ctx.value.append(number), priority=priority, once=True)
        ran = self.dispatched()
        assert ran.count(number) == 1
        assert [one for one in ran if one != number] == self.order()

    @rule(priority=st.integers(-1, 1))
    def subscribe_inside(self, priority):
        """What is subscribed and cancelled in a dispatch counts from the next one."""
        number, before = next(self.numbers), self.order()

        def change(ctx):
            ctx.value.append("change")
            changing.cancel()
            late.append(self.bus.on(ANY, lambda ctx: ctx.value.append(number), priority=priority))

        late = []
        changing = self.bus.on(ANY, change, priority=1000)
        assert self.dispatched() == ["change", *before]
        assert number in self.dispatched()
        late[0].cancel()

    @rule(threads=st.integers(1, 4))
    def dispatch(self, threads):
        results = [[] for _ in range(threads)]

        def run(result):
            barrier.wait()
            self.bus.apply_sync(ANY, result)

        barrier = threading.Barrier(threads)
        running = [threading.Thread(target=run, args=(result,)) for result in results]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert results == [self.order()] * threads

    @rule(subscription=consumes(subscriptions), data=st.integers(-1, 1))
    def change_while_dispatching(self, subscription, data):
        """A dispatch sees a handler that goes meanwhile entirely or not at all."""
        number, held = subscription
        with_it = self.order()
        del self.model[number]
        result = []
        cancelling = threading.Thread(target=held.cancel)
        cancelling.start()
        self.bus.apply_sync(ANY, result)
        cancelling.join()
        assert result in (with_it, self.order())

    @invariant()
    def lists_what_runs(self):
        assert len(self.bus.handlers(ANY)) == len(self.model)
        assert self.dispatched() == self.order()

    def order(self):
        return sorted(self.model, key=self.model.get)

    def dispatched(self):
        ran = []
        self.bus.apply_sync(ANY, ran)
        return ran


TestSubscriptions = Subscriptions.TestCase


def test_one_once_handler_of_many_threads():
    bus, ran = EventBus(), Counter()
    barrier = threading.Barrier(8)

    def run():
        for number in range(50):
            barrier.wait()
            if threading.current_thread() is threads[0]:
                bus.on(ANY, lambda ctx, number=number: ran.update([number]), once=True)
            barrier.wait()
            bus.apply_sync(ANY, None)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert ran == Counter(range(50))
    assert bus.handlers(ANY) == ()
    assert bus._channel(ANY)._by_sender == {}


def test_two_threads_make_one_channel():
    for _ in range(20):
        bus, barrier, channels = EventBus(), threading.Barrier(4), []

        def make(bus=bus, barrier=barrier, channels=channels):
            barrier.wait()
            channels.append(bus._channel(WORD))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(set(channels)) == 1


# --- blinker's corners ---------------------------------------------------------------------------


def test_subscriptions_leave_nothing_behind():
    bus = EventBus()
    for number in range(50):
        bus.on(WORD, lambda ctx: None, sender=f"agent-{number}").cancel()
    channel = bus._channel(WORD)

    assert (channel._by_sender, list(channel._ended), channel._signal) == ({}, [], None)


def test_a_weak_handler_that_has_gone_is_taken_out():
    class Owner:
        def method(self, ctx):
            return None

    bus, owner = EventBus(), Owner()
    bus.on(WORD, owner.method, weak=True)
    del owner
    gc.collect()
    bus.apply_sync(WORD, "x")

    assert bus._channel(WORD)._by_sender == {}


def test_a_listener_of_blinker_may_subscribe_and_dispatch():
    bus, seen = EventBus(), []

    def changed(_, /, **more):
        bus.on(WORD, lambda ctx: seen.append("handler"))
        bus.apply_sync(WORD, "x")

    def receiver(sender, ctx):
        seen.append("receiver")

    bus.signal(WORD).receiver_connected.connect(changed)
    bus.signal(WORD).connect(receiver)

    assert seen == ["handler", "receiver"]


def test_strangers_are_found_among_ended_handlers():
    bus, seen = EventBus(), []

    def stranger(sender, ctx):
        seen.append(ctx.value)

    subscription = bus.on(NOTE, lambda ctx: None)
    bus.signal(NOTE).connect(stranger)
    bus.do(NOTE, "a")
    subscription.cancel()
    bus.do(NOTE, "b")
    bus.do(NOTE, "c")
    bus.signal(NOTE).disconnect(stranger)
    bus.do(NOTE, "d")

    assert seen == ["a", "b", "c"]


def test_a_handler_that_is_cancelled_in_its_own_turn_goes_on():
    bus, seen = EventBus(), []

    async def later(ctx):
        seen.append("later")

    bus.on(NOTE, lambda ctx: subscription.cancel())
    subscription = bus.on(NOTE, later)

    async def run():
        bus.do(NOTE, "x")
        await bus.drain()
        bus.do(NOTE, "x")
        await bus.drain()

    asyncio.run(run())
    bus.do(NOTE, "x")

    assert seen == ["later"]


# --- depth ---------------------------------------------------------------------------------------


def depth(bus):
    """Return how many levels there are here, and one for a dispatch that counts none."""
    channel = bus._channel(WORD)
    return next_level(channel, WORD).depth - 1 + channel.is_busy


def test_the_depth_is_counted_back():
    bus = EventBus()
    bus.on(WORD, lambda ctx: None)
    for _ in range(MAX_DEPTH + 1):
        bus.apply_sync(WORD, "x")
        assert depth(bus) == 0


def test_a_dispatch_may_end_in_a_foreign_context():
    bus = EventBus()

    @bus.on(WORD)
    async def wait(ctx):
        await asyncio.sleep(0)

    dispatches = [bus.apply(WORD, "x") for _ in range(MAX_DEPTH)]
    for dispatch in dispatches:
        contextvars.copy_context().run(dispatch.send, None)
    for dispatch in dispatches:
        dispatch.close()

    assert depth(bus) == 0


def test_dispatches_that_end_out_of_order_are_counted_back():
    bus = EventBus()
    channel = bus._channel(WORD)
    first, second, third = (enter(channel, WORD) for _ in range(3))
    assert (first.depth, second.depth, third.depth) == (2, 3, 4)

    depths = []
    for ended in (second, third, first):
        ended.over = True
        depths.append(depth(bus))

    assert depths == [4, 2, 0]


def test_what_fails_in_between_is_counted_back():
    bus = EventBus()
    bus.on(WORD, lambda ctx: None, sender="somebody")
    with pytest.raises(AttributeError):
        bus.apply_sync(WORD, "x", scope=None)

    def interrupt(record):
        raise KeyboardInterrupt

    untap = bus.tap(interrupt)
    with pytest.raises(KeyboardInterrupt):
        bus.apply_sync(WORD, "x")
    untap()

    assert depth(bus) == 0


def test_a_sink_that_dispatches_is_stopped():
    bus, records = EventBus(), []

    def sink(record):
        records.append(record)
        bus.apply_sync(WORD, "x")

    bus.tap(sink)
    logging.getLogger("toolbus").disabled = True
    try:
        bus.apply_sync(WORD, "x")
    finally:
        logging.getLogger("toolbus").disabled = False

    assert len(records) == MAX_DEPTH


async def test_many_dispatches_at_once_are_not_deep():
    bus, release = EventBus(), asyncio.Event()

    @bus.on(WORD)
    async def wait(ctx):
        await release.wait()

    dispatches = [asyncio.ensure_future(bus.apply(WORD, "x")) for _ in range(4 * MAX_DEPTH)]
    await asyncio.sleep(0)
    release.set()

    assert len(await asyncio.gather(*dispatches)) == 4 * MAX_DEPTH


async def test_depth_is_bounded_while_many_are_under_way():
    bus, release, levels = EventBus(), asyncio.Event(), []

    @bus.on(WORD)
    async def wait_or_dive(ctx):
        if ctx.value == "wait":
            await release.wait()
        else:
            levels.append(ctx.value)
            await bus.apply(WORD, "dive")

    waiting = [asyncio.ensure_future(bus.apply(WORD, "wait")) for _ in range(2 * MAX_DEPTH)]
    await asyncio.sleep(0)
    with pytest.raises(DispatchDepthError):
        await bus.apply(WORD, "dive")
    release.set()
    await asyncio.gather(*waiting)

    assert len(levels) == MAX_DEPTH - 1
    assert depth(bus) == 0


async def test_tasks_left_behind_are_not_inside():
    bus, seen, done = EventBus(), [], asyncio.Event()

    @bus.on(WORD)
    def again(ctx):
        seen.append(ctx.value)
        if len(seen) < 3 * MAX_DEPTH:
            tasks.add(asyncio.ensure_future(bus.apply(WORD, "x")))
        else:
            done.set()

    tasks = set()
    await bus.apply(WORD, "x")
    await done.wait()
    await asyncio.gather(*tasks)

    assert len(seen) == 3 * MAX_DEPTH


def test_a_handler_that_subscribes_is_stopped_too():
    bus = EventBus()

    @bus.on(WORD)
    def again(ctx):
        bus.on(WORD, lambda ctx: None)
        bus.apply_sync(WORD, "x")

    with pytest.raises(DispatchDepthError):
        bus.apply_sync(WORD, "x")


def test_the_depth_goes_into_threads():
    bus, levels = EventBus(), []

    @bus.on(WORD, thread=True)
    def again(ctx):
        levels.append(1)
        bus.apply_sync(WORD, "x")

    with pytest.raises(DispatchDepthError):
        bus.apply_sync(WORD, "x")
    assert len(levels) == MAX_DEPTH


async def test_the_depth_goes_into_tasks():
    bus, levels = EventBus(), []

    @bus.on(WORD, timeout=30)
    async def again(ctx):
        levels.append(1)
        await asyncio.gather(bus.apply(WORD, "x"))

    with pytest.raises(DispatchDepthError):
        await bus.apply(WORD, "x")
    assert len(levels) == MAX_DEPTH


# --- the rest ------------------------------------------------------------------------------------


def test_a_bus_knows_its_events():
    bus = EventBus()
    assert bus.events == ()

    bus.on(WORD, lambda ctx: None)
    bus.do(NOTE, "x")

    assert bus.events == (WORD, NOTE)


def test_who_subscribes_must_say_where():
    with pytest.raises(NotImplementedError):
        Subscribable().on(WORD, lambda ctx: None)


async def test_a_bus_without_queues_has_nothing_to_do():
    bus = EventBus()

    await bus.drain()
    await bus.catch_up()

    assert (bus.pending, bus.lost, bus._queues) == (0, 0, None)


async def test_closing_an_unused_bus_closes_it():
    bus = EventBus()
    await bus.aclose()
    await bus.aclose()
    async with EventBus() as other:
        assert isinstance(other, EventBus)


def test_who_catches_a_rejection_is_blamed_all_the_same():
    bus, records = EventBus(), []

    @bus.on(WORD)
    def handler(ctx):
        with suppress(Rejected):
            ctx.step("bad", "bad")

    bus.tap(records.append)
    context = bus.apply_sync(WORD, "good", check=lambda turn, after: "it is bad")

    ((entry,),) = [record.entries for record in records]
    assert (context.value, context.rejected.handler) == ("good", "bad")
    assert (entry.name, entry.status, entry.reason) == ("bad", "rejected", "it is bad")


def test_a_tap_that_comes_during_a_dispatch_hears_the_next():
    bus, first, second, ends = EventBus(), [], [], []

    @bus.on(WORD, once=True)
    def handler(ctx):
        ends.append(bus.tap(second.append, values=True))
        return ctx.value + "!"

    bus.tap(first.append)
    bus.apply_sync(WORD, "one")
    bus.apply_sync(WORD, "two")

    assert [(one.value, one.result) for one in second] == [("two", "two")]
    assert [(one.value, one.result) for one in first] == [(None, None)] * 2


def test_a_tap_that_ends_during_a_dispatch_hears_nothing_more():
    bus, records, ends = EventBus(), [], []
    ends.append(bus.tap(records.append))
    bus.on(WORD, lambda ctx: ends.pop()())

    bus.apply_sync(WORD, "one")

    assert records == []


def test_a_change_while_somebody_asks_is_not_lost():
    comes = []

    class Coming(EventBus):
        def _has_listeners(self, channel):
            heard = super()._has_listeners(channel)
            while comes:
                comes.pop()()
            return heard

    bus = Coming()
    comes.append(lambda: bus.on(WORD, lambda ctx: None))

    assert (bus.has_listeners(WORD), bus.has_listeners(WORD)) == (False, True)


def test_taps_come_and_go_in_threads():
    bus, records = EventBus(), []
    barrier = threading.Barrier(4)

    def run():
        barrier.wait()
        for _ in range(100):
            bus.tap(records.append)()

    end = bus.tap(lambda record: None)
    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(bus._taps._taps) == 1
    end()
    assert bus._taps._taps == ()


# --- who hears whom ------------------------------------------------------------------------------


def test_speakers_without_handlers_share_listeners():
    bus = EventBus()
    bus.on(WORD, lambda ctx: None, sender="a")
    bus.on(WORD, lambda ctx: None)

    for number in range(50):
        bus.apply_sync(WORD, "x", Scope(agent_id=str(number), lineage=("b",) * (number % 2)))
    bus.apply_sync(WORD, "x", Scope(agent_id="a"))
    bus.apply_sync(WORD, "x", Scope(agent_id="a", lineage=("a", "b")))

    channel = bus._channel(WORD)
    assert set(channel._scoped) == {(), ("a",)}


def test_a_subscription_outdates_those_who_hear_it():
    bus, scopes = EventBus(), {}
    for name in ("a", "b"):
        bus.on(WORD, lambda ctx: None, sender=name)
        scopes[name] = Scope(agent_id=name)
    scopes["below"] = Scope(agent_id="b", lineage=("a",))
    channel = bus._channel(WORD)

    def listeners():
        for scope in scopes.values():
            bus.apply_sync(WORD, "x", scope)
        return {name: channel.listeners(scope) for name, scope in scopes.items()}

    before = listeners()
    subscription = bus.on(WORD, lambda ctx: None, sender="a")
    after = listeners()
    assert [name for name in scopes if before[name] is after[name]] == ["b"]
    assert [len(after[name].bindings) for name in scopes] == [2, 1, 3]
    subscription.cancel()
    assert [len(one.bindings) for one in listeners().values()] == [1, 1, 2]
    bus.on(WORD, lambda ctx: None)
    assert [len(one.bindings) for one in listeners().values()] == [2, 2, 3]


@pytest.mark.parametrize("sender", [None, "a"])
def test_a_handler_that_comes_and_goes_costs_no_sort(monkeypatch, sender):
    bus, ranks, scope = EventBus(), [], Scope(agent_id="a")
    for priority in range(1_000):
        bus.on(WORD, lambda ctx: None, priority=priority, sender=sender)
    bus.apply_sync(WORD, "x", scope)
    monkeypatch.setattr(
        channels, "_RANK", lambda binding: ranks.append(binding.priority) or binding.rank
    )

    subscription = bus.on(WORD, lambda ctx: None, priority=500, sender=sender)
    bus.apply_sync(WORD, "x", scope)
    subscription.cancel()
    bus.apply_sync(WORD, "x", scope)

    assert 0 < len(ranks) < 50


async def test_a_block_of_the_bus_tells_its_threads_where_they_belong():
    bus, seen = EventBus(), []

    @bus.on(NOTE)
    async def watch(ctx):
        seen.append((ctx.value, threading.current_thread()))

    async def other():
        async with EventBus():
            bus.do(NOTE, "theirs")
            await asyncio.to_thread(done.wait)
            await bus.drain()

    done = threading.Event()
    async with bus:
        thread = threading.Thread(target=asyncio.run, args=(other(),))
        thread.start()
        async with asyncio.timeout(60):
            while not seen:
                await asyncio.sleep(0)
        await asyncio.to_thread(bus.do, NOTE, "ours")
        await bus.drain()
        done.set()
        await asyncio.to_thread(thread.join)

    assert seen == [("theirs", thread), ("ours", threading.current_thread())]


def test_components_of_a_bus_share_one_object_of_a_kind():
    bus, other = EventBus(), EventBus()

    shared = bus.shared(dict)

    assert bus.shared(dict) is shared
    assert bus.shared(list) == []
    assert other.shared(dict) is not shared

"""What `specs` should not mention of the plans: what handlers share, and how plans come and go."""

import asyncio
import gc
import logging
import threading
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus.bus.bus import EventBus
from toolbus.errors import DispatchError
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, ObserveEvent, TransformEvent
from toolbus.messages.records import ToolMessage, ToolResponse, UserMessage

WORD = TransformEvent("word", str)
NOTE = ObserveEvent("note", str)
FACT = ObserveEvent("fact", str, awaited=True)


# --- every verb, against a model -----------------------------------------------------------------

EVENTS = {"apply": WORD, "apply_sync": WORD, "observe": FACT, "do": NOTE}

rows = st.lists(
    st.tuples(
        st.booleans(),  # Whether it is a guard,
        st.booleans(),  # is async,
        st.sampled_from([None, True, False]),  # what its predicate says,
        st.booleans(),  # and whether it changes the value.
    ),
    max_size=7,
)


def model(verb, rows):
    """Return who runs with which value, and the statuses, in the plainest way."""
    transforms, value = verb.startswith("apply"), "x"
    ran, queued, statuses = [], [], []
    order = sorted(range(len(rows)), key=lambda i: (transforms and rows[i][0], i))
    for number in order:
        is_guard, is_async, predicate, changes = rows[number]
        later = is_async and verb == "do"
        if predicate is False:
            statuses.append("skipped")
            continue
        (queued if later else ran).append((number, value))
        statuses.append("queued" if later else "ran")
        if changes and transforms and not is_guard:
            value += str(number)
            statuses[-1] = "changed"
    return ran, queued, statuses, value


def subscribe(bus, verb, number, row, ran):
    """Subscribe a handler that is as *row* says."""
    is_guard, is_async, predicate, changes = row
    transforms = verb.startswith("apply")
    changes = changes and transforms and not is_guard

    def handler(ctx):
        ran.append((number, ctx.value))
        return ctx.value + str(number) if changes else None

    async def handler_later(ctx):
        before = ctx.value
        await asyncio.sleep(0)
        assert ctx.value is before
        return handler(ctx)

    on = bus.guard if is_guard and transforms else bus.on
    is_async = is_async and verb != "apply_sync"
    when = None if predicate is None else lambda ctx: predicate
    on(EVENTS[verb], handler_later if is_async else handler, when=when)


@given(st.sampled_from(list(EVENTS)), rows, st.booleans(), st.booleans())
async def test_every_verb_does_what_the_model_says(verb, rows, tapped, visited):
    bus, ran, records, told = EventBus(), [], [], []

    def receiver(sender, ctx):
        told.append(ctx.value)

    if tapped:
        bus.tap(records.append)
    if visited:
        bus.signal(EVENTS[verb]).connect(receiver)
    for number, row in enumerate(rows):
        subscribe(bus, verb, number, row, ran)
    at_once, queued, statuses, value = model(verb, rows)

    given = getattr(bus, verb)(EVENTS[verb], "x")
    ctx = await given if verb in {"apply", "observe"} else given

    assert ran == at_once
    await bus.drain()
    # Each async observer has a queue of its own, so their order is not defined.
    assert sorted(ran[len(at_once) :]) == queued
    assert (ctx and (ctx.value, ctx.original)) == ((value, "x") if "apply" in verb else None)
    assert told == [value] * visited
    assert [[one.status for one in record.entries] for record in records] == [statuses] * tapped


# --- who shares a context ------------------------------------------------------------------------


def contexts_of(*handlers):
    """Return the contexts of *handlers*: "sync", "async", "timed", "thread" or "guard"."""
    bus, kept = EventBus(), []

    async def keep_later(ctx):
        kept.append(ctx)

    for kind in handlers:
        on = bus.guard if kind == "guard" else bus.on
        handler = keep_later if kind in {"async", "timed"} else kept.append
        on(WORD, handler, thread=kind == "thread", timeout=30 if kind == "timed" else None)
    asyncio.run(bus.apply(WORD, "x"))
    return kept


def test_sync_and_async_handlers_share_a_context():
    one, two, three, four = contexts_of("sync", "async", "async", "sync")

    assert one is two is three is four


@pytest.mark.parametrize("kind", ["timed", "thread"])
def test_a_handler_that_may_go_on_has_a_context_of_its_own(kind):
    one, *own, four = contexts_of("sync", kind, kind, "sync")

    assert one is four
    assert len({id(each) for each in (one, *own)}) == 3


def test_guards_share_nothing_with_transformers():
    before, *judged = contexts_of("sync", "guard", "guard")

    assert before is not judged[0]
    assert judged[0] is judged[1]


async def test_who_kept_a_context_cannot_write_into_the_judgement():
    bus, kept = EventBus(), []
    bus.on(WORD, kept.append)
    bus.guard(WORD, lambda ctx: kept[0].step("late", "late"))
    bus.guard(WORD, lambda ctx: setattr(kept[0], "output", "late"))

    ctx = await bus.apply(WORD, "x")

    assert (ctx.value, ctx.output, ctx.steps, ctx.denied) == ("x", None, (), None)


async def test_an_output_may_be_assigned_in_a_task_of_the_handler():
    bus = EventBus()

    @bus.on(WORD)
    async def delegates(ctx):
        async def work():
            ctx.output = ctx.value + "!"

        await asyncio.wait_for(work(), 60)

    assert (await bus.apply(WORD, "x")).value == "x!"


def test_a_replaced_record_is_seen_by_nobody_before():
    bus, seen = EventBus(), []
    message = ToolMessage(
        id="m", tool_call_id="c", tool_name="t", tool_response=ToolResponse.from_text("0")
    )

    def adds(ctx):
        text = ctx.value.text + "+"
        return ctx.value.with_tool_response(ToolResponse.from_text(text))

    for _ in range(3):
        bus.on(MESSAGE_APPEND_BEFORE, adds)
        bus.on(MESSAGE_APPEND_BEFORE, seen.append)
    ctx = bus.apply_sync(MESSAGE_APPEND_BEFORE, message)

    assert [one.value.text for one in seen] == ["0+", "0++", "0+++"]
    assert (ctx.original, ctx.value.text, ctx.output) == (message, "0+++", ctx.value)


def test_a_replaced_record_of_another_identity_is_refused(caplog):
    bus = EventBus()
    message = ToolMessage(id="m", tool_call_id="c", tool_name="t")
    for other in (
        ToolMessage(id="n", tool_call_id="c", tool_name="t"),
        ToolMessage(id="m", tool_call_id="d", tool_name="t"),
        UserMessage(id="m", content=""),
    ):
        bus.on(MESSAGE_APPEND_BEFORE, lambda ctx, other=other: other)

    assert bus.apply_sync(MESSAGE_APPEND_BEFORE, message).value is message
    reasons = [record.getMessage() for record in caplog.records]
    for field, reason in zip(("id", "tool_call_id", "role"), reasons, strict=True):
        assert f"changed the {field}" in reason


# --- plans come and go ---------------------------------------------------------------------------


def test_a_plan_keeps_no_weak_receiver_alive():
    class Owner:
        def method(self, ctx):
            return None

    bus, owner = EventBus(), Owner()
    bus.on(WORD, owner.method, weak=True)
    bus.apply_sync(WORD, "x")
    gone = weakref.ref(owner)

    del owner
    gc.collect()

    assert gone() is None
    assert bus.handlers(WORD) == ()


def test_a_cancelled_handler_is_kept_by_no_plan():
    bus = EventBus()

    def handler(ctx):
        return None

    subscription = bus.on(WORD, handler)
    bus.apply_sync(WORD, "x")
    gone = weakref.ref(handler)
    subscription.cancel()

    del handler, subscription
    gc.collect()

    assert gone() is None


def test_a_change_while_a_plan_is_made_outdates_it():
    bus, seen = EventBus(), []
    channel = bus._channel(WORD)
    plan = channel._planner

    def interrupted(*what, tapped):
        made = plan(*what, tapped=tapped)
        if not bus.handlers(WORD):
            bus.on(WORD, seen.append)
        return made

    channel._planner = interrupted

    bus.apply_sync(WORD, "a")
    bus.apply_sync(WORD, "b")

    assert [ctx.value for ctx in seen] == ["b"]


def test_an_async_handler_that_went_refuses_no_more():
    bus, seen = EventBus(), []

    class Owner:
        async def method(self, ctx):
            return None

    owner = Owner()
    bus.on(WORD, owner.method, weak=True)
    bus.on(WORD, seen.append)
    with pytest.raises(DispatchError, match="is async"):
        bus.apply_sync(WORD, "x")
    refusing = bus._channel(WORD).plan("apply_sync")
    del owner
    gc.collect()

    # A dispatch that began before its owner went.
    refusing("a", None, None)
    bus.apply_sync(WORD, "b")

    assert [ctx.value for ctx in seen] == ["a", "b"]


def test_threads_that_dispatch_first_all_get_a_plan():
    bus, seen = EventBus(), []
    bus.on(WORD, lambda ctx: seen.append(ctx.value))
    barrier = threading.Barrier(8)

    def run():
        barrier.wait()
        bus.apply_sync(WORD, "x")

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == ["x"] * 8


def test_a_failing_handler_leaves_no_cycle(monkeypatch):
    class Word:
        pass

    monkeypatch.setattr(logging.getLogger("toolbus"), "disabled", True)
    event, word = TransformEvent("word", Word), Word()
    bus, gone = EventBus(), weakref.ref(word)
    bus.on(event, lambda ctx: 1 / 0)

    gc.disable()
    try:
        bus.apply_sync(event, word)
        del word
        assert gone() is None
    finally:
        gc.enable()

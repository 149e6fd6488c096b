"""What `specs` should not mention of the plans: their text, what they share, and how they go."""

import asyncio
import gc
import logging
import threading
import weakref
from contextlib import contextmanager
from functools import partial

import pytest

from toolbus.bus import EventBus
from toolbus.dispatch import plans
from toolbus.dispatch.contexts import ALONE, references
from toolbus.dispatch.keeping import may_keep
from toolbus.dispatch.unrolled import LIMIT, Shape, Slot, function, text
from toolbus.errors import DispatchError
from toolbus.events import MESSAGE_APPEND_BEFORE, ObserveEvent, TransformEvent
from toolbus.messages import ToolMessage, ToolResponse, UserMessage

WORD = TransformEvent("word", str)
NOTE = ObserveEvent("note", str)
FACT = ObserveEvent("fact", str, awaited=True)


@contextmanager
def limit(handlers):
    """Write out no more than so many handlers."""
    plans.LIMIT = handlers
    try:
        yield
    finally:
        plans.LIMIT = LIMIT


# --- the text ------------------------------------------------------------------------------------


def test_a_plain_handler_pays_for_nothing_else():
    plain = text(Shape("apply", (Slot(), Slot(is_async=True))))

    for dear in ("references(", "SKIPPED", "trace", "now()", "tell(", "enter("):
        assert dear not in plain
    assert plain.count("await ") == 2  # The handler and the sister.


def test_what_a_handler_needs_is_in_the_text():
    slot = Slot(has_gate=True, may_keep=True)
    full = text(Shape("apply_sync", (slot, Slot(is_guard=True)), traced=True, has_strangers=True))

    for part in ("references(", "SKIPPED", "trace.ran(", "now()", "tell(context)"):
        assert part in full
    assert "await" not in full
    compile(full.replace("nonlocal busy", "busy = 0"), "full", "exec")


def test_the_text_of_a_shape_is_compiled_once_and_copied():
    shape = Shape("do", ())
    one, two = (function(shape, {}, "file") for _ in range(2))

    assert one.__code__ is not two.__code__
    assert one.__code__.co_code == two.__code__.co_code
    assert one.__code__.co_filename == "file"


def test_the_bus_explains_what_it_runs():
    bus = EventBus()
    bus.on(WORD, len, name="length", priority=7)
    bus.guard(WORD, len, name="judge")
    bus.on(NOTE, len)

    explained = bus.explain(WORD)
    assert explained.startswith(
        "# word: 2 handlers\n# h0: transformer length, 7\n# h1: guard judge"
    )
    assert "async def apply(value, scope, more):" in explained
    assert "def apply_sync(value, scope, more):" in explained
    assert "result = h0(context)" in explained
    assert "def do(value, scope):" in bus.explain(NOTE)


def test_what_cannot_run_without_a_loop_is_not_explained():
    bus = EventBus()

    async def later(ctx):
        return None

    bus.on(WORD, later)

    assert "def apply_sync" not in bus.explain(WORD)


# --- contexts are shared until somebody keeps one ------------------------------------------------


class Keeper:
    """Handlers that do more or less with their context."""

    def __init__(self):
        self.kept = None

    def reads(self, ctx):
        return ctx.value and None

    def keeps(self, ctx):
        self.kept = ctx

    def keeps_a_method(self, ctx):
        self.kept = ctx.step


def reads(ctx):
    if ctx.scope.agent_id == "nobody":
        ctx.output = ctx.original


async def reads_later(ctx):
    return None if ctx.value else ctx.tool


def passes_on(ctx):
    return reads(ctx)


def renames(ctx):
    other = ctx
    return other.value


def closes_over(ctx):
    later = lambda: ctx  # noqa: E731 - shorter than a function in a function
    del later


def gives_all(ctx):
    return locals() and None


def takes_any(*ctx):
    return None


def has_one_of_that_name(other):
    ctx = other.value
    return other.output and ctx


@pytest.mark.parametrize(
    "handler", [reads, reads_later, Keeper().reads, has_one_of_that_name, lambda ctx: None]
)
def test_some_handlers_cannot_keep_their_context(handler):
    assert not may_keep(handler)


@pytest.mark.parametrize(
    "handler",
    [
        *(passes_on, renames, closes_over, gives_all, takes_any, [].append, partial(reads), len),
        *(Keeper().keeps, Keeper().keeps_a_method, Keeper, Keeper()),
    ],
)
def test_others_may(handler):
    assert may_keep(handler)


def test_a_reference_count_tells_who_is_alone():
    one = object()
    assert references(one) == ALONE

    two = [one]
    assert references(two[0]) > ALONE


@pytest.mark.parametrize("handlers", [LIMIT, 0])
async def test_who_kept_a_context_cannot_write_into_a_later_turn(handlers):
    bus, keeper, written = EventBus(), Keeper(), []

    def writes(ctx):
        keeper.kept.output = "late"
        written.append(ctx)

    async def writes_in_a_task(ctx):
        await asyncio.create_task(asyncio.to_thread(writes, ctx))

    bus.on(WORD, keeper.keeps)
    bus.on(WORD, writes)
    bus.on(WORD, keeper.keeps)
    bus.on(WORD, writes_in_a_task)
    with limit(handlers):
        ctx = await bus.apply(WORD, "x")

    assert len(written) == 2
    assert (ctx.value, ctx.output, keeper.kept.output) == ("x", None, None)


async def test_an_output_may_be_assigned_in_a_task_of_the_handler():
    bus = EventBus()

    @bus.on(WORD)
    async def delegates(ctx):
        async def work():
            ctx.output = ctx.value + "!"

        await asyncio.wait_for(work(), 5)

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


@pytest.mark.parametrize("handlers", [LIMIT, 0])
@pytest.mark.parametrize("tapped", [False, True])
async def test_a_loop_does_what_the_written_out_text_does(handlers, tapped):
    bus, seen, records = EventBus(), [], []
    if tapped:
        bus.tap(records.append)

    async def later(ctx):
        await asyncio.sleep(0)
        seen.append("later")

    for event in (WORD, NOTE, FACT):
        bus.on(event, lambda ctx: seen.append("first"), priority=200)
        bus.on(event, later)
        bus.on(event, lambda ctx: seen.append("never"), when=lambda ctx: ctx.value == "y")
        bus.on(event, lambda ctx: seen.append("mine"), sender="somebody")
    bus.guard(WORD, lambda ctx: seen.append("guard"))
    with limit(handlers):
        await bus.apply(WORD, "x")
        await bus.observe(FACT, "x")
        bus.do(NOTE, "x")
        await bus.drain()

    assert seen == ["first", "later", "guard", "first", "later", "first", "later"]
    if tapped:
        statuses = [[entry.status for entry in record.entries] for record in records]
        row = ["ran", "ran", "skipped"]
        assert statuses == [[*row, "ran"], row, ["ran", "queued", "skipped"]]


@pytest.mark.parametrize("handlers", [LIMIT, 0])
def test_a_loop_of_sync_handlers_is_sync(handlers):
    bus, seen = EventBus(), []
    for event in (WORD, NOTE):
        bus.on(event, lambda ctx: seen.append(ctx.value))
    bus.on(WORD, lambda ctx: seen.append("thread"), thread=True)
    with limit(handlers):
        bus.do(NOTE, "x")
        bus.apply_sync(WORD, "y")

    assert seen == ["x", "y", "thread"]


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
    refusing = bus._channel(WORD).apply_sync
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

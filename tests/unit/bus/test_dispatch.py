"""What `specs` should not mention of dispatch: odd handlers, the order as an algebra."""

import asyncio
import gc
import logging
import weakref
from functools import lru_cache, partial
from types import MethodType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolbus.bus.bus import EventBus
from toolbus.bus.dispatch.bindings import Binding
from toolbus.bus.dispatch.callables import is_async, name_of
from toolbus.bus.dispatch.contexts import EventContext
from toolbus.bus.dispatch.failures import detail_of, explain, log_failure, passes
from toolbus.bus.dispatch.results import identity_problem, value_problem
from toolbus.bus.subscriptions import SubscriptionOptions
from toolbus.errors import DeadlineError, DispatchDepthError, HandlerContractError, HandlerError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    Ask,
    Deny,
    ObserveEvent,
    ToolSpec,
    TransformEvent,
)
from toolbus.messages.records import AssistantMessage, SystemMessage

WORD = TransformEvent("word", str)
ANY = TransformEvent("any", object)
CHAIN = TransformEvent("chain", tuple, answer=float, asks=True)
NOTE = ObserveEvent("note", str)


# --- the order, against a model ------------------------------------------------------------------

BEHAVIOURS = {
    "nothing": None,
    "change": "change",
    "deny": Deny("no"),
    "ask": Ask("really?"),
    "answer": 1.5,
    "nonsense": object(),
    "fail": ValueError("boom"),
}

handler_specs = st.tuples(
    st.integers(-2, 2),
    st.sampled_from(["transformer", "guard"]),
    st.sampled_from(["open", "closed", "raise"]),
    st.sampled_from(list(BEHAVIOURS)),
)


def model(specs):
    """Return who runs, the value, and how it ends, in the plainest way."""
    ran, value, end, answer, asks = [], (), "ok", None, 0
    order = sorted(range(len(specs)), key=lambda i: (specs[i][1] == "guard", -specs[i][0], i))
    for number in order:
        _, kind, policy, behaviour = specs[number]
        if end != "ok" or (answer is not None and kind != "guard"):
            continue
        ran.append(number)
        is_guard = kind == "guard"
        if behaviour == "change" and not is_guard:
            value = (*value, number)
        elif behaviour == "answer" and not is_guard:
            answer = 1.5
        elif behaviour == "ask" and is_guard:
            asks += 1
        elif behaviour == "deny":
            end = "denied"
        elif behaviour != "nothing":
            end = {"open": "ok", "closed": "denied", "raise": "raised"}[policy]
    return ran, value, end, answer, asks if end == "ok" else 0


def scripted(number, behaviour, ran, *, later):
    """Return a handler that behaves as it is told."""

    def handler(ctx):
        ran.append(number)
        result = BEHAVIOURS[behaviour]
        if isinstance(result, Exception):
            raise result
        return (*ctx.value, number) if result == "change" else result

    async def handler_later(ctx):
        await asyncio.sleep(0)
        return handler(ctx)

    return handler_later if later else handler


@given(st.lists(handler_specs, max_size=8), st.booleans(), st.booleans())
async def test_a_dispatch_goes_as_the_model_says(specs, later, tapped):
    logging.getLogger("toolbus").disabled = True
    bus, ran, records = EventBus(), [], []
    if tapped:
        bus.tap(records.append)
    for number, (priority, kind, policy, behaviour) in enumerate(specs):
        subscribe = bus.guard if kind == "guard" else bus.on
        handler = scripted(number, behaviour, ran, later=later and number % 2)
        subscribe(CHAIN, handler, priority=priority, on_error=policy)
    wanted, value, end, answer, asks = model(specs)

    try:
        ctx = await bus.apply(CHAIN, ())
    except HandlerError:
        assert end == "raised"
    else:
        assert end == ("denied" if ctx.denied else "ok")
        assert (ctx.value, ctx.answer) == (value, answer)
        assert (ctx.output or ()) == value
        assert ctx.asked == (Ask("\n".join(["really?"] * asks)) if asks else None)
    finally:
        logging.getLogger("toolbus").disabled = False
    assert ran == wanted
    assert [len(record.entries) for record in records] == [len(specs)] * tapped


# --- odd handlers --------------------------------------------------------------------------------


class Owner:
    """Methods of every kind."""

    def method(self, ctx):
        return None

    @classmethod
    def of_class(cls, ctx):
        return None

    def __call__(self, ctx):
        return None


def plain(ctx):
    return None


@pytest.mark.parametrize(
    ("handler", "name"),
    [
        (plain, "plain"),
        (partial(partial(plain)), "plain"),
        (lambda ctx: None, "<lambda>"),
        (Owner().method, "Owner.method"),
        (Owner.of_class, "Owner.of_class"),
        (Owner(), "Owner"),
        (Owner, "Owner"),
        (MethodType(plain, Owner()), "Owner.plain"),
        (lru_cache(plain), "plain"),
        ([].append, "append"),
        (print, "print"),
    ],
)
def test_handlers_have_names(handler, name):
    assert name_of(handler) == name


def test_a_builtin_may_be_a_handler():
    bus, seen = EventBus(), []
    bus.on(NOTE, seen.append)
    # `inspect` finds no signature of it.
    bus.on(WORD, vars)

    bus.do(NOTE, "x")

    assert seen[0].value == "x"
    assert [one.name for one in bus.handlers(WORD)] == ["vars"]


def test_a_class_with_an_async_call_is_no_async_handler():
    class Later:
        def __init__(self, ctx):
            pass

        async def __call__(self):
            return None

    assert not is_async(Later)
    assert not is_async(plain)


def test_weak_functions_go_like_methods():
    calls = []
    handler = Owner()
    binding = Binding(
        WORD,
        handler,
        "transformer",
        SubscriptionOptions(weak=True),
        on_end=lambda _: calls.append("end"),
    )
    assert (binding.alive, binding.ended) == (True, False)
    gone = weakref.ref(handler)

    del handler
    gc.collect()

    assert gone() is None
    assert (binding.alive, binding.ended, calls) == (False, True, ["end"])
    assert binding.function(None) is None


async def test_a_weak_async_handler_that_has_gone_does_nothing():
    async def later(ctx):
        raise AssertionError

    binding = Binding(WORD, later, "transformer", SubscriptionOptions(weak=True))
    del later
    gc.collect()

    assert await binding.function(None) is None


def test_a_binding_knows_its_rank_and_defaults():
    binding = Binding(WORD, plain, "transformer", SubscriptionOptions())
    guard = Binding(WORD, plain, "guard", SubscriptionOptions(priority=7, on_error="open"))

    assert (binding.rank, guard.rank) == ((False, -100, 0), (True, -7, 0))
    assert (binding.policy, guard.policy) == ("open", "open")
    assert binding.row("apply_sync", None) == (binding, plain)
    assert binding.row("apply", None) == (binding, plain, False)


def test_a_ticket_is_taken_once():
    binding = Binding(WORD, plain, "transformer", SubscriptionOptions(once=True))
    ctx = EventContext(WORD, "x")

    assert [binding.runs_for(ctx), binding.runs_for(ctx)] == [True, False]
    assert binding.ended


async def test_awaited_observers_have_no_default_timeout():
    async def later(ctx):
        return None

    fact = ObserveEvent("fact", str, awaited=True)

    assert Binding(fact, later, "observer", SubscriptionOptions()).function is later
    assert Binding(WORD, later, "transformer", SubscriptionOptions()).function is later
    assert Binding(NOTE, later, "observer", SubscriptionOptions()).timeout == 30
    assert Binding(NOTE, later, "observer", SubscriptionOptions(timeout=5)).timeout == 5


def test_an_error_that_cannot_be_shown_is_a_failure_like_any_other():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    def fail(ctx):
        raise Mute

    for policy, detail in (("open", None), ("closed", "Mute")):
        bus = EventBus()
        bus.on(WORD, fail, on_error=policy)
        denied = bus.apply_sync(WORD, "x").denied
        assert (denied and denied.detail.split(" at ")[0]) == detail


def test_a_step_s_detail_is_not_logged_by_its_handler(caplog):
    caplog.set_level("DEBUG", logger="toolbus")
    bus = EventBus()

    @bus.on(WORD)
    def deny(ctx):
        ctx.step("adapter", ctx.value, failed="raised an error", detail="the secret")
        return Deny("adapter 'adapter' raised an error", "the secret")

    assert bus.apply_sync(WORD, "x").denied.detail == "the secret"
    assert caplog.records == []


# --- contexts ------------------------------------------------------------------------------------


def test_a_step_after_the_turn_is_dropped():
    bus, kept = EventBus(), []
    bus.on(WORD, kept.append)
    bus.apply_sync(WORD, "x", check=lambda ctx, value: "no")

    kept[0].step("late", "late")

    assert kept[0].steps == ()


def test_steps_of_a_context_made_by_hand_can_be_read():
    ctx = EventContext(WORD, "x")

    ctx.step("one", "y", actor="me", failed="it broke")
    ctx.step("two", "z")

    one, two = ctx.steps
    assert (one.name, one.before, one.after, one.actor, one.failed) == (
        "one",
        "x",
        "y",
        "me",
        "it broke",
    )
    assert (two.before, two.failed) == ("y", None)
    assert 0 < one.ended_ns <= two.ended_ns
    assert (ctx.value, ctx.tool) == ("x", None)


def test_a_step_changes_the_spec_in_force():
    outer, inner, judged = ToolSpec(name="outer"), ToolSpec(name="inner"), []

    def check(ctx, value):
        judged.append((value, ctx.tool))

    ctx = EventContext(WORD, "x", tool=outer, check=check)
    ctx.step("same", "x")
    ctx.step("unchanged under another spec", "x", tool=inner)
    ctx.step("failed under another spec", "x", tool=outer, failed="it broke")
    ctx.step("changed", "y")

    assert [step.tool for step in ctx.steps] == [outer, outer, inner, outer]
    assert judged == [("x", inner), ("y", outer)]
    assert ctx.tool is outer


def test_a_check_that_fails_is_the_handler_s_failure(caplog):
    def check(ctx, value):
        raise ValueError

    message = SystemMessage(id="m", content="")
    for event, value, other in (
        (WORD, "x", "y"),
        (MESSAGE_APPEND_BEFORE, message, replace(message, content="y")),
    ):
        for policy, denied in (("open", False), ("closed", True)):
            bus = EventBus()
            bus.on(event, lambda ctx, other=other: other, on_error=policy)
            ctx = bus.apply_sync(event, value, check=check)
            assert (ctx.value, ctx.denied is not None) == (value, denied)


def test_a_denied_value_keeps_no_steps_and_no_tool():
    bus = EventBus()

    @bus.on(WORD)
    def deny(ctx):
        ctx.step("one", "y")
        return Deny("no")

    ctx = bus.apply_sync(WORD, "x", signatures=lambda actor, value: value)

    assert (ctx.steps, ctx.tool) == ((), None)


def test_every_message_keeps_its_identity():
    for kind, more in ((SystemMessage, {"content": ""}), (AssistantMessage, {})):
        message = kind(id="m", **more)
        assert identity_problem(message, kind(id="m", **more)) is None
        assert identity_problem(message, kind(id="n", **more)) == "changed the id"
    assert identity_problem(7, "text") is None
    assert value_problem(WORD, 7) == "returned `int`, which the event does not take"


# --- failures ------------------------------------------------------------------------------------


def test_failures_are_worded_without_their_text():
    contract = HandlerContractError("e", "h", "broke it")
    assert explain("e", "h", contract) == ("contract", "broke it")
    for event, handler in (("e", "other"), ("other", "h")):
        assert explain(event, handler, contract) == ("failed", "raised an error")
    assert explain("e", "h", DeadlineError(2)) == ("timeout", "timed out after 2 s")
    assert explain("e", "h", SystemExit()) == ("failed", "was ended by SystemExit")


def test_what_passes_every_policy():
    assert [passes(error) for error in (KeyboardInterrupt(), DispatchDepthError("e", 1))] == [1, 1]
    assert not passes(ValueError())


def test_details_of_our_own_errors_have_no_place():
    assert detail_of(ValueError("boom")) == "ValueError: boom"
    with pytest.raises(DeadlineError) as caught:
        raise DeadlineError(2)
    assert detail_of(caught.value) == "DeadlineError: timed out after 2 s"


def test_a_percent_sign_in_a_failure_does_no_harm(caplog):
    log_failure("100%s", "%d", ValueError(), "is %r", silent=True)

    (record,) = caplog.records
    assert record.getMessage() == "handler '%d' of '100%s' is %r (ValueError)"
    assert (record.event, record.handler, record.exc_info) == ("100%s", "%d", None)


def test_a_handler_that_returns_the_same_object_ran():
    bus, records = EventBus(), []
    bus.tap(records.append)
    bus.on(WORD, lambda ctx: ctx.value)

    context = bus.apply_sync(WORD, "x")

    assert context.output is None
    assert [(entry.status, entry.before) for entry in records[0].entries] == [("ran", None)]

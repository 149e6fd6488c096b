"""The scenarios of `specs/bus.md`."""

import asyncio
import gc
import logging
import os
import re
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from queue import SimpleQueue

import pytest
from blinker import Signal

from toolbus.agent import Agent
from toolbus.bus import EventBus, EventContext
from toolbus.components import AgentComponent
from toolbus.errors import (
    ClosedError,
    DeadlineError,
    DispatchDepthError,
    DispatchError,
    HandlerContractError,
    HandlerError,
    NoLoopError,
    RegistrationError,
)
from toolbus.events import (
    CATALOGUE,
    MESSAGE_APPEND_BEFORE,
    RUN_AFTER,
    RUN_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    Ask,
    Deny,
    ObserveEvent,
    Scope,
    ToolSpec,
    TransformEvent,
)
from toolbus.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from toolbus.models.scripted import ScriptedModel

WORD = TransformEvent("word", str)
STRANGE = TransformEvent("strange", ToolCall)
ANY = TransformEvent("any", object)
ASKED = TransformEvent("asked", str, answer=float, asks=True)
NOTE = ObserveEvent("note", str)
FACT = ObserveEvent("fact", str, awaited=True)
CALL = ToolCall(id="c", name="shell", arguments={"command": "ls"})
POLICIES = ("open", "closed", "raise")


def adds(text):
    """Return a transformer that adds *text* to the value."""
    return lambda ctx: ctx.value + text


def remembers(seen, name, result=None):
    """Return a handler that notes in *seen* that *name* ran, and returns *result*."""

    def handler(ctx):
        seen.append(name)
        return result

    return handler


def raises(error):
    """Return a handler that raises *error*."""

    def handler(ctx):
        raise error

    return handler


async def hangs_at_cancel(release, started=None):
    """Wait for *release*, whoever cancels."""
    if started is not None:
        started.set()
    while not release.is_set():
        with suppress(asyncio.CancelledError):
            await release.wait()


def about(caplog):
    """Return event, handler and text of each warning in the log."""
    return [(one.event, one.handler, one.getMessage()) for one in caplog.records]


# --- one order -----------------------------------------------------------------------------------


def test_higher_priority_runs_first():
    bus, seen, scope = EventBus(), [], Scope(agent_id="a", lineage=("b",))
    for priority, agent in [(10, "a"), (300, "b"), (100, "a"), (-5, "b"), (200, "a")]:
        bus.on(WORD, remembers(seen, priority), priority=priority, sender=agent)
        bus.on(NOTE, remembers(seen, priority), priority=priority, sender=agent)

    bus.apply_sync(WORD, "x", scope=scope)
    bus.do(NOTE, "x", scope=scope)

    assert seen == [300, 200, 100, 10, -5] * 2


def test_equal_priorities_run_in_order_of_subscription():
    bus, seen = EventBus(), []
    handlers = [remembers(seen, number) for number in range(4)]
    subscriptions = [bus.on(WORD, handler) for handler in handlers]
    subscriptions[1].cancel()
    bus.on(WORD, handlers[1])

    bus.apply_sync(WORD, "x")

    assert seen == [0, 2, 3, 1]


def test_guards_run_after_all_transformers():
    bus, seen = EventBus(), []
    bus.guard(WORD, remembers(seen, "guard"), priority=1000)
    bus.guard(WORD, remembers(seen, "first guard"), priority=2000)
    bus.on(WORD, remembers(seen, "transformer"), priority=-1000)

    bus.apply_sync(WORD, "x")

    assert seen == ["transformer", "first guard", "guard"]


def test_a_change_during_a_dispatch_waits():
    bus, seen = EventBus(), []
    changes = []

    def change(ctx):
        seen.append("change")
        if not changes:
            changes.append(next_one.cancel())
            bus.on(WORD, remembers(seen, "new"), priority=99)

    bus.on(WORD, change)
    next_one = bus.on(WORD, remembers(seen, "next"))

    bus.apply_sync(WORD, "x")
    first = seen.copy()
    bus.apply_sync(WORD, "x")

    assert first == ["change", "next"]
    assert seen[2:] == ["change", "new"]


# --- values pass from handler to handler ---------------------------------------------------------


async def test_every_transformer_sees_the_former_result():
    bus, seen = EventBus(), []

    def look(ctx):
        seen.append((ctx.value, ctx.output, ctx.original))
        return ctx.value + "!"

    async def look_later(ctx):
        return look(ctx)

    for handler in (look, look_later, look):
        bus.on(WORD, handler)

    ctx = await bus.apply(WORD, "x")

    assert seen == [("x", None, "x"), ("x!", "x!", "x"), ("x!!", "x!!", "x")]
    assert (ctx.value, ctx.output, ctx.original) == ("x!!!", "x!!!", "x")
    assert (ctx.event, ctx.answer, ctx.denied, ctx.asked, ctx.rejected) == (WORD, *[None] * 4)


def test_assigning_output_equals_returning_a_value():
    bus, other, read = EventBus(), EventBus(), []
    bus.on(WORD, lambda ctx: "new")

    @other.on(WORD)
    def assign(ctx):
        ctx.output = "new"
        read.append((ctx.output, ctx.value))

    results = [one.apply_sync(WORD, "x") for one in (bus, other)]

    assert [(ctx.value, ctx.output) for ctx in results] == [("new", "new")] * 2
    assert read == [("new", "x")]


def test_a_returned_value_wins_over_the_output():
    bus = EventBus()

    @bus.on(WORD)
    def both(ctx):
        ctx.output = "assigned"
        return "returned"

    assert bus.apply_sync(WORD, "x").value == "returned"


def test_output_can_be_unset():
    bus = EventBus()

    @bus.on(WORD)
    def hesitate(ctx):
        ctx.output = "new"
        ctx.output = None

    ctx = bus.apply_sync(WORD, "x")

    assert (ctx.value, ctx.output) == ("x", None)


def test_none_leaves_the_value():
    bus = EventBus()
    bus.on(WORD, adds("!"))
    bus.on(WORD, lambda ctx: None)

    ctx = bus.apply_sync(WORD, "x")

    assert (ctx.value, ctx.output) == ("x!", "x!")


def test_falsy_values_are_judged():
    for falsy in ({}, "", 0, False, ()):
        for assign in (False, True):
            bus = EventBus()

            @bus.on(ANY)
            def give(ctx, falsy=falsy, assign=assign):
                if not assign:
                    return falsy
                ctx.output = falsy
                return None

            ctx = bus.apply_sync(ANY, "x")

            assert ctx.value is falsy
            assert ctx.output is falsy
    bus = EventBus()
    bus.on(ASKED, lambda ctx: 0.0)
    assert bus.apply_sync(ASKED, "x").answer == 0.0


def test_the_same_object_changes_nothing():
    bus = EventBus()
    bus.on(WORD, lambda ctx: ctx.value)

    ctx = bus.apply_sync(WORD, "x")

    assert (ctx.value, ctx.output) == ("x", None)


def test_output_assigned_before_a_failure_is_dropped(caplog):
    bus = EventBus()

    @bus.on(WORD)
    def fail(ctx):
        ctx.output = "half"
        raise ValueError

    ctx = bus.apply_sync(WORD, "x")

    assert (ctx.value, ctx.output) == ("x", None)


async def test_output_assigned_after_the_turn_is_dropped():
    bus, kept, later = EventBus(), [], []
    bus.on(WORD, kept.append)

    @bus.on(WORD, timeout=30)
    async def keep(ctx):
        later.append(ctx)

    @bus.on(WORD)
    def late_for_the_timed_one(ctx):
        later[0].output = "late"

    @bus.guard(WORD)
    def late(ctx):
        kept[0].output = "late"

    ctx = await bus.apply(WORD, "x")
    ctx.output = "later"
    kept[0].output = "later"

    assert (ctx.value, ctx.output, kept[0].output, later[0].output) == ("x", None, None, None)
    assert ctx.denied is None


def test_an_answer_ends_the_transformers():
    bus, seen = EventBus(), []
    bus.on(ASKED, lambda ctx: 1.5)
    bus.on(ASKED, remembers(seen, "transformer", "changed"))

    @bus.guard(ASKED)
    def judge(ctx):
        seen.append((ctx.value, ctx.answer))

    ctx = bus.apply_sync(ASKED, "x")

    assert seen == [("x", 1.5)]
    assert (ctx.answer, ctx.value, ctx.output, ctx.denied) == (1.5, "x", None, None)


def test_a_created_context_tests_handlers():
    scope, spec = Scope(agent_id="a"), ToolSpec(name="shell")
    transform = EventContext(TOOL_CALL_BEFORE, CALL, scope=scope, tool=spec)
    observe = EventContext(NOTE, "x")

    transform.output = "anything"
    observe.output = "anything"

    assert transform.output == "anything"
    assert observe.output is None
    assert (transform.event, transform.value, transform.original) == (TOOL_CALL_BEFORE, CALL, CALL)
    assert (transform.scope, transform.tool, transform.steps) == (scope, spec, ())
    assert (observe.scope, observe.tool, observe.value) == (Scope(), None, "x")
    with pytest.raises(AttributeError):
        transform.value = "x"


def test_a_sync_chain_needs_no_loop():
    bus, threads = EventBus(), []
    bus.on(WORD, adds("!"))
    bus.guard(WORD, lambda ctx: Deny("no") if ctx.value == "no!" else None)

    @bus.on(WORD, thread=True)
    def threaded(ctx):
        threads.append(threading.current_thread())
        return ctx.value + "?"

    here = [bus.apply_sync(WORD, word) for word in ("x", "no")]
    there = [asyncio.run(bus.apply(WORD, word)) for word in ("x", "no")]

    assert [ctx.value for ctx in here] == [ctx.value for ctx in there] == ["x!?", "no!?"]
    assert [ctx.denied for ctx in here] == [ctx.denied for ctx in there] == [None, None]
    assert threading.current_thread() not in threads


def test_apply_sync_refuses_async_handlers_before_any_runs():
    bus, seen = EventBus(), []

    async def later(ctx):
        seen.append("async")

    bus.on(WORD, remembers(seen, "sync"))
    bus.on(WORD, later)

    with pytest.raises(DispatchError) as caught:
        bus.apply_sync(WORD, "x")

    assert str(caught.value) == "event 'word': handler 'later' is async; use `await bus.apply(…)`"
    assert seen == []


async def test_async_callables_of_every_kind_are_recognized():
    class Owner:
        async def method(self, ctx, more="!"):
            return ctx.value + more

        async def __call__(self, ctx):
            return ctx.value + "!"

    async def function(ctx):
        return ctx.value + "!"

    shapes = [
        function,
        Owner().method,
        partial(Owner().method, more="!"),
        partial(partial(function)),
        Owner(),
        partial(Owner()),
    ]
    for shape in shapes:
        bus = EventBus()
        bus.on(WORD, shape)

        ctx = await bus.apply(WORD, "x")

        assert ctx.value == "x!"
        with pytest.raises(DispatchError, match="is async"):
            bus.apply_sync(WORD, "x")


# --- guards judge the final value ----------------------------------------------------------------


def test_a_guard_sees_the_last_value():
    bus, seen = EventBus(), []
    bus.on(WORD, adds("!"), priority=-1000)

    @bus.guard(WORD, priority=1000)
    def judge(ctx):
        seen.append((ctx.value, ctx.output, ctx.original))

    bus.apply_sync(WORD, "x")

    assert seen == [("x!", "x!", "x")]


def test_a_guard_cannot_replace_the_value(caplog):
    def assign(ctx):
        ctx.output = "new"

    for guard in (assign, lambda ctx: "new"):
        bus = EventBus()
        bus.on(WORD, adds("!"))
        bus.guard(WORD, guard, name="judge")

        ctx = bus.apply_sync(WORD, "x")

        reason = "guard 'judge' returned `str`; a guard returns Deny, Ask or None"
        assert (ctx.value, ctx.output, ctx.denied.reason) == ("x!", "x!", reason)


def test_a_guard_that_raises_denies(caplog):
    bus = EventBus()
    bus.guard(WORD, raises(ValueError("the secret")), name="judge")

    ctx = bus.apply_sync(WORD, "x")

    assert ctx.denied.reason == "guard 'judge' raised an error"
    assert re.fullmatch(rf"ValueError: the secret at {__file__}:\d+", ctx.denied.detail)
    ((event, handler, text),) = about(caplog)
    wanted = rf"handler 'judge' of 'word' raised an error \(ValueError at {__file__}:\d+\)"
    assert (event, handler) == ("word", "judge")
    assert re.fullmatch(wanted, text)
    assert caplog.records[0].exc_info[1].args == ("the secret",)


def test_a_guard_with_a_failing_predicate_denies(caplog):
    async def later():
        return True

    for when in (raises(ValueError("the secret")), lambda ctx: later()):
        bus, seen = EventBus(), []
        bus.guard(WORD, remembers(seen, "guard"), when=when, name="judge")

        ctx = bus.apply_sync(WORD, "x")

        assert ctx.denied.reason == "guard 'judge' has a predicate that raised an error"
        assert ctx.denied.detail.startswith(
            ("ValueError: the secret", "TypeError: a predicate mus")
        )
        assert seen == []
    assert "the secret" in caplog.text


def test_a_guard_may_fail_open_on_request(caplog):
    bus = EventBus()
    bus.guard(WORD, raises(ValueError()), on_error="open")

    assert bus.apply_sync(WORD, "x").denied is None


def test_deny_ends_the_dispatch():
    bus, seen = EventBus(), []
    bus.on(WORD, lambda ctx: Deny("too long", detail="a fact"))
    bus.on(WORD, remembers(seen, "transformer"))
    bus.guard(WORD, remembers(seen, "guard"))

    ctx = bus.apply_sync(WORD, "x")

    assert ctx.denied == Deny("too long", detail="a fact")
    assert (ctx.value, ctx.output, seen) == ("x", None, [])


def test_several_questions_become_one():
    bus, seen = EventBus(), []
    bus.guard(ASKED, remembers(seen, 1, Ask("really?")))
    bus.guard(ASKED, remembers(seen, 2))
    bus.guard(ASKED, remembers(seen, 3, Ask("sure?")))

    ctx = bus.apply_sync(ASKED, "x")

    assert seen == [1, 2, 3]
    assert (ctx.asked, ctx.denied) == (Ask("really?\nsure?"), None)


def test_deny_beats_ask():
    bus = EventBus()
    bus.guard(ASKED, lambda ctx: Ask("really?"))
    bus.guard(ASKED, lambda ctx: Deny("no"))

    ctx = bus.apply_sync(ASKED, "x")

    assert (ctx.asked, ctx.denied) == (None, Deny("no"))


def test_ask_outside_its_events_denies():
    bus = EventBus()
    bus.guard(WORD, lambda ctx: Ask("really?"), name="judge")

    ctx = bus.apply_sync(WORD, "x")

    reason = "guard 'judge' asked, and no person can be asked at 'word'"
    assert (ctx.asked, ctx.denied) == (None, Deny(reason, "really?"))


def test_a_transformer_cannot_ask(caplog):
    for event in (ASKED, ANY):
        bus = EventBus()
        bus.on(event, lambda ctx: Ask("really?"), name="curious")

        ctx = bus.apply_sync(event, "x")

        assert (ctx.asked, ctx.denied, ctx.value) == (None, None, "x")
    assert "asked, which only a guard may; subscribe it with `guard`" in caplog.text


def test_a_dry_run_only_records_verdicts(caplog):
    bus, records = EventBus(dry_run=True), []
    bus.tap(records.append)
    bus.on(ASKED, lambda ctx: Deny("never"), name="transformer")
    bus.on(ASKED, raises(ValueError()), on_error="closed", name="closed")
    bus.on(ASKED, adds("!"), name="rewrite")
    bus.guard(ASKED, lambda ctx: Ask("really?"), name="ask")
    bus.guard(ASKED, lambda ctx: Deny("no"), name="deny")
    bus.guard(ASKED, raises(ValueError()), name="broken")
    bus.guard(WORD, lambda ctx: Ask("really?"), name="misplaced")

    ctx, other = bus.apply_sync(ASKED, "x"), bus.apply_sync(WORD, "x")

    assert (ctx.value, ctx.denied, ctx.asked, other.denied) == ("x!", None, None, None)
    assert [(one.name, one.status, one.reason) for one in records[0].entries] == [
        ("transformer", "denied", "never"),
        ("closed", "failed", "transformer 'closed' raised an error"),
        ("rewrite", "changed", None),
        ("ask", "asked", "really?"),
        ("deny", "denied", "no"),
        ("broken", "failed", "guard 'broken' raised an error"),
    ]
    assert (records[0].outcome, records[1].outcome) == ("changed", "unchanged")
    assert records[1].entries[0].status == "denied"


# --- failures follow the policy ------------------------------------------------------------------


def test_open_keeps_the_last_good_value(caplog):
    bus = EventBus()
    bus.on(WORD, adds("!"))
    bus.on(WORD, raises(ValueError("boom")), name="careless")

    ctx = bus.apply_sync(WORD, "x")

    assert (ctx.value, ctx.denied) == ("x!", None)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("toolbus", logging.WARNING)
    assert (record.event, record.handler) == ("word", "careless")
    assert record.getMessage().startswith("handler 'careless' of 'word' raised an error (ValueErr")
    assert str(record.exc_info[1]) == "boom"


def test_closed_denies(caplog):
    bus, seen = EventBus(), []
    bus.on(WORD, raises(ValueError("boom")), on_error="closed", name="careful")
    bus.on(WORD, remembers(seen, "next"))

    ctx = bus.apply_sync(WORD, "x")

    assert ctx.denied.reason == "transformer 'careful' raised an error"
    assert seen == []


async def test_raise_gives_a_handlererror():
    bus, cause = EventBus(), ValueError("boom")
    bus.on(WORD, raises(cause), on_error="raise", name="strict")
    with pytest.raises(HandlerError) as caught:
        bus.apply_sync(WORD, "x")

    assert str(caught.value) == "handler 'strict' of 'word' raised an error"
    assert (caught.value.event, caught.value.handler) == ("word", "strict")
    assert caught.value.__cause__ is cause

    bus = EventBus()
    bus.on(WORD, lambda ctx: None, when=raises(cause), on_error="raise", name="strict")
    with pytest.raises(HandlerError, match="has a predicate that raised an error") as caught:
        await bus.apply(WORD, "x")

    assert caught.value.__cause__ is cause

    bus = EventBus()

    async def slow(ctx):
        await asyncio.Event().wait()

    bus.on(WORD, slow, on_error="raise", timeout=0.01)
    with pytest.raises(HandlerError, match=r"'slow' of 'word' timed out after 0.01 s") as caught:
        await bus.apply(WORD, "x")

    assert isinstance(caught.value.__cause__, DeadlineError)


def test_a_breach_gives_a_handlercontracterror():
    bus = EventBus()
    bus.on(WORD, lambda ctx: 7, on_error="raise", name="strict")
    with pytest.raises(HandlerContractError) as caught:
        bus.apply_sync(WORD, "x")

    assert (caught.value.event, caught.value.handler) == ("word", "strict")
    assert caught.value.reason == "returned `int`, which the event does not take"

    bus = EventBus()
    bus.guard(WORD, lambda ctx: 7, on_error="raise", name="judge")
    with pytest.raises(HandlerContractError) as caught:
        bus.apply_sync(WORD, "x")

    assert caught.value.handler == "judge"
    assert caught.value.reason == "returned `int`; a guard returns Deny, Ask or None"


def test_an_inner_failure_is_the_outer_handler_s(caplog):
    bus = EventBus()
    bus.on(ANY, lambda ctx: bus.apply_sync(WORD, "x") and None, on_error="closed", name="outer")
    bus.on(WORD, lambda ctx: 7, on_error="raise", name="inner")

    ctx = bus.apply_sync(ANY, "x")

    assert ctx.denied.reason == "transformer 'outer' raised an error"
    assert ctx.denied.detail == (
        "HandlerContractError: handler 'inner' of 'word' returned `int`, "
        "which the event does not take"
    )
    bus = EventBus()
    bus.on(ANY, lambda ctx: bus.apply_sync(WORD, "x") and None, on_error="raise", name="outer")
    bus.on(WORD, lambda ctx: 7, on_error="raise", name="inner")
    with pytest.raises(HandlerError, match="handler 'outer' of 'any' raised an error"):
        bus.apply_sync(ANY, "x")


def test_a_changed_identity_is_refused(caplog):
    user = UserMessage(id="u", content="hi")
    tool = ToolMessage(id="t", tool_call_id="c", tool_name="shell")
    for event, before, after, problem in [
        (MESSAGE_APPEND_BEFORE, user, UserMessage(id="v", content="hi"), "changed the id"),
        (MESSAGE_APPEND_BEFORE, user, tool, "changed the role"),
        (MESSAGE_APPEND_BEFORE, tool, user, "changed the role"),
        (
            MESSAGE_APPEND_BEFORE,
            tool,
            ToolMessage(id="t", tool_call_id="d", tool_name="shell"),
            "changed the tool_call_id",
        ),
        (TOOL_CALL_BEFORE, CALL, ToolCall(id="d", name="shell"), "changed the id"),
        (STRANGE, CALL, user, "returned `UserMessage`, which the event does not take"),
        (STRANGE, CALL, {}, "returned `dict`, which the event does not take"),
        (ANY, user, "text", "changed the role"),
    ]:
        for policy in POLICIES:
            bus = EventBus()
            bus.on(event, lambda ctx, after=after: after, on_error=policy, name="liar")
            caplog.clear()

            if policy == "raise":
                with pytest.raises(HandlerContractError) as caught:
                    bus.apply_sync(event, before)
                assert (caught.value.handler, caught.value.reason) == ("liar", problem)
                continue
            ctx = bus.apply_sync(event, before)

            text = f"handler 'liar' of {event.name!r} {problem} (HandlerContractError)"
            assert about(caplog) == [(event.name, "liar", text)]
            assert (ctx.value, ctx.output) == (before, None)
            denied = ctx.denied and (ctx.denied.reason, ctx.denied.detail)
            assert denied == {
                "open": None,
                "closed": (
                    f"transformer 'liar' {problem}",
                    f"HandlerContractError: handler 'liar' of {event.name!r} {problem}",
                ),
            }.get(policy)


async def test_a_returned_coroutine_is_refused(caplog):
    async def later():
        return "new"

    bus = EventBus()
    bus.on(ANY, lambda ctx: later(), name="lazy")
    bus.on(NOTE, lambda ctx: later(), name="lazy")

    ctx = await bus.apply(ANY, "x")
    bus.do(NOTE, "x")

    assert ctx.value == "x"
    assert "returned a coroutine; declare it with `async def`" in caplog.records[0].getMessage()
    assert (
        "'lazy' of 'note' returned a result, which has no effect" in caplog.records[1].getMessage()
    )


async def test_cancellederror_and_keyboardinterrupt_pass_every_policy():
    for error in (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
        for policy in POLICIES:
            for subscribe in ("on", "guard"):
                bus = EventBus()
                getattr(bus, subscribe)(WORD, raises(error()), on_error=policy)

                with pytest.raises(error):
                    bus.apply_sync(WORD, "x")
                with pytest.raises(error):
                    await bus.apply(WORD, "x")
        bus, seen = EventBus(), []
        for event in (NOTE, FACT):
            bus.on(event, raises(error()))
            bus.on(event, remembers(seen, "next"))

        with pytest.raises(error):
            bus.do(NOTE, "x")
        with pytest.raises(error):
            await bus.observe(FACT, "x")
        assert seen == []


async def test_a_cancelled_dispatch_ends_at_once():
    bus, seen, records = EventBus(), [], []
    bus.tap(records.append)
    started = asyncio.Event()

    async def wait(ctx):
        ctx.output = "half"
        started.set()
        await asyncio.Event().wait()

    for event in (WORD, FACT):
        bus.on(event, lambda ctx: None, name="first")
        bus.on(event, wait)
        bus.on(event, remembers(seen, "later"), name="later")
    for coroutine in (bus.apply(WORD, "x"), bus.observe(FACT, "x")):
        task = asyncio.ensure_future(coroutine)
        await started.wait()
        started.clear()
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task

        assert seen == []
        record = records.pop()
        assert (record.outcome, record.reason) == ("raised", None)
        assert [(one.name, one.status, one.reason) for one in record.entries] == [
            ("first", "ran", None),
            ("wait", "failed", "was ended by CancelledError"),
            ("later", "not_run", None),
        ]


def test_an_invalid_return_denies_a_tool_call():
    async def late():
        return None

    for policy in POLICIES:
        for verb, say, gives in [
            ("on", "returned the class `Deny`, which the event does not take", lambda: Deny),
            ("on", "returned the class `Ask`, which the event does not take", lambda: Ask),
            ("on", "returned `bool`, which the event does not take", lambda: False),
            ("on", "returned `dict`, which the event does not take", lambda: {"path": "/"}),
            ("on", "returned `str`, which the event does not take", lambda: "no"),
            ("on", "returned a coroutine; declare it with `async def`", late),
            ("on", "asked, which only a guard may; subscribe it with `guard`", lambda: Ask("ok?")),
            ("guard", "returned the class `Deny`; a guard returns Deny, Ask or None", lambda: Deny),
            ("guard", "returned `bool`; a guard returns Deny, Ask or None", lambda: False),
            ("guard", "returned a coroutine; declare it with `async def`", late),
        ]:
            bus = EventBus()
            subscribe = getattr(bus, verb)
            subscribe(TOOL_CALL_BEFORE, lambda ctx, gives=gives: gives(), on_error=policy, name="x")

            if (verb, policy) == ("guard", "raise"):
                with pytest.raises(HandlerContractError) as caught:
                    bus.apply_sync(TOOL_CALL_BEFORE, CALL)
                assert caught.value.reason == say
                continue
            ctx = bus.apply_sync(TOOL_CALL_BEFORE, CALL)

            kind = "guard" if verb == "guard" else "transformer"
            assert ctx.denied.reason == f"{kind} 'x' {say}"
    bus = EventBus()
    bus.on(TOOL_CALL_BEFORE, raises(ValueError("broken")))

    assert bus.apply_sync(TOOL_CALL_BEFORE, CALL).denied is None


# --- a deadline ends a turn ----------------------------------------------------------------------


async def test_a_timed_out_guard_denies_at_once(caplog):
    bus, release, ended = EventBus(), asyncio.Event(), asyncio.Event()

    @bus.guard(WORD, timeout=0.01)
    async def stubborn(ctx):
        await hangs_at_cancel(release)
        ended.set()

    ctx = await bus.apply(WORD, "x")

    assert ctx.denied.reason == "guard 'stubborn' timed out after 0.01 s"
    assert ctx.denied.detail == "DeadlineError: timed out after 0.01 s"
    assert not ended.is_set()
    release.set()
    await ended.wait()


async def test_a_late_write_is_discarded(caplog):
    bus, release, ended = EventBus(), asyncio.Event(), asyncio.Event()

    @bus.on(WORD, timeout=0.01)
    async def slow(ctx):
        await hangs_at_cancel(release)
        ctx.output = "late"
        ctx.step("step", "late")
        ended.set()
        return "later"

    ctx = await bus.apply(WORD, "x")
    release.set()
    await ended.wait()

    assert (ctx.value, ctx.output, ctx.denied) == ("x", None, None)
    assert about(caplog) == [
        ("word", "slow", "handler 'slow' of 'word' timed out after 0.01 s (DeadlineError)")
    ]


async def test_a_hung_thread_is_counted_as_stuck(caplog):
    bus, release, begun = EventBus(), threading.Event(), SimpleQueue()
    assert bus.stuck == 0

    @bus.guard(WORD, timeout=0.01, thread=True)
    def hang(ctx):
        begun.put(threading.current_thread())
        release.wait()

    there = await bus.apply(WORD, "x")
    here = bus.apply_sync(WORD, "x")

    reason = "guard 'hang' timed out after 0.01 s"
    assert (there.denied.reason, here.denied.reason) == (reason, reason)
    assert bus.stuck == 2
    threads = [begun.get(timeout=60), begun.get(timeout=60)]
    assert all(thread.daemon for thread in threads)
    release.set()
    for thread in threads:
        thread.join()
    assert bus.stuck == 0


async def test_a_second_hang_changes_nothing(caplog):
    bus, release = EventBus(), asyncio.Event()

    @bus.guard(WORD, timeout=0.01)
    async def hang(ctx):
        if ctx.value != "quick":
            await hangs_at_cancel(release)

    results = [await bus.apply(WORD, word) for word in ("x", "y", "quick")]
    release.set()

    reason = "guard 'hang' timed out after 0.01 s"
    assert [ctx.denied and ctx.denied.reason for ctx in results] == [reason, reason, None]


async def test_a_handler_in_time_keeps_its_result(caplog):
    async def patient(ctx, result):
        await asyncio.sleep(0)
        if isinstance(result, Exception):
            raise result
        return result

    def threaded(ctx, result):
        if isinstance(result, Exception):
            raise result
        return result

    for function, options in ((patient, {}), (threaded, {"thread": True})):
        for result, value, reason in [
            ("new", "new", None),
            (Deny("no"), "x", "no"),
            (TimeoutError("its own"), "x", "transformer 'patient' raised an error"),
        ]:
            bus = EventBus()
            handler = partial(function, result=result)
            bus.on(WORD, handler, timeout=30, on_error="closed", name="patient", **options)

            ctx = await bus.apply(WORD, "x")

            assert (ctx.value, ctx.denied and ctx.denied.reason) == (value, reason)


# --- observers see and change nothing ------------------------------------------------------------


def test_an_observer_s_output_is_ignored(caplog):
    bus, seen = EventBus(), []

    def assign(ctx):
        ctx.output = "assigned"

    bus.on(NOTE, assign)
    bus.on(NOTE, lambda ctx: "returned", name="returns")

    @bus.on(NOTE)
    def look(ctx):
        seen.append((ctx.value, ctx.output))

    for _ in range(2):
        assert bus.do(NOTE, "x") is None

    assert seen == [("x", None)] * 2
    text = (
        "observer {!r} of 'note' returned a result, which has no effect; to change values, "
        "subscribe to a transform event"
    )
    assert about(caplog) == [
        ("note", "assign", text.format("assign")),
        ("note", "returns", text.format("returns")),
    ]


def test_a_failing_observer_disturbs_no_other(caplog):
    bus, seen = EventBus(), []

    def careless(ctx):
        ctx.output = "half"
        raise ValueError("boom")

    bus.on(NOTE, remembers(seen, 1))
    bus.on(NOTE, careless)
    bus.on(NOTE, remembers(seen, 2))
    bus.on(NOTE, remembers(seen, 3), when=raises(ValueError("boom")), name="predicate")

    assert bus.do(NOTE, "x") is None

    assert seen == [1, 2]
    assert [(event, handler) for event, handler, _ in about(caplog)] == [
        ("note", "careless"),
        ("note", "predicate"),
    ]
    assert [str(record.exc_info[1]) for record in caplog.records] == ["boom"] * 2
    assert "has a predicate that raised an error" in caplog.records[1].getMessage()


def test_sync_observers_have_run_when_do_returns():
    bus, seen = EventBus(), []
    bus.on(NOTE, lambda ctx: seen.append(ctx.value))

    bus.do(NOTE, "x")

    assert seen == ["x"]


async def test_async_observers_get_events_in_order():
    bus, seen = EventBus(), []

    @bus.on(NOTE)
    async def watch(ctx):
        seen.append(("begin", ctx.value))
        await asyncio.sleep(0)
        seen.append(("end", ctx.value))

    for word in "abc":
        bus.do(NOTE, word)
    await bus.drain()

    assert seen == [(what, word) for word in "abc" for what in ("begin", "end")]


async def test_a_slow_observer_delays_only_itself():
    bus, slow, quick = EventBus(), [], []
    release, both = asyncio.Event(), asyncio.Event()

    @bus.on(NOTE)
    async def wait(ctx):
        await release.wait()
        slow.append(ctx.value)

    @bus.on(NOTE)
    async def run(ctx):
        quick.append(ctx.value)
        if len(quick) == 2:
            both.set()

    bus.do(NOTE, "a")
    bus.do(NOTE, "b")
    await both.wait()

    assert (slow, quick) == ([], ["a", "b"])
    release.set()
    await bus.drain()
    assert slow == ["a", "b"]


async def test_async_observers_have_the_dispatch_s_context_variables():
    bus, seen, variable = EventBus(), [], ContextVar("variable")

    @bus.on(NOTE)
    async def read(ctx):
        seen.append(variable.get())

    for number in range(3):
        variable.set(number)
        bus.do(NOTE, "x")
    await bus.drain()

    assert seen == [0, 1, 2]


async def test_a_failing_async_observer_is_logged(caplog):
    bus, seen = EventBus(), []

    @bus.on(NOTE)
    async def careless(ctx):
        seen.append(ctx.value)
        if ctx.value == "a":
            raise ValueError("boom")
        return "output"

    bus.do(NOTE, "a")
    bus.do(NOTE, "b")
    await bus.drain()

    assert seen == ["a", "b"]
    assert [(event, handler) for event, handler, _ in about(caplog)] == [("note", "careless")] * 2
    assert "raised an error (ValueError" in caplog.records[0].getMessage()
    assert "returned a result" in caplog.records[1].getMessage()


async def test_awaited_observers_run_one_after_another(caplog):
    bus, seen = EventBus(), []

    async def slow(ctx):
        seen.append("slow begins")
        await asyncio.sleep(0)
        seen.append("slow ends")

    bus.on(FACT, remembers(seen, "last"), priority=1)
    bus.on(FACT, slow)
    bus.on(FACT, raises(ValueError()), name="careless")
    bus.on(FACT, remembers(seen, "next"))

    assert await bus.observe(FACT, "x") is None

    assert seen == ["slow begins", "slow ends", "next", "last"]
    assert [handler for _, handler, _ in about(caplog)] == ["careless"]


async def test_a_timed_out_observer_is_passed_over(caplog):
    bus, seen = EventBus(), []
    release, wrote, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @bus.on(FACT, timeout=0.01)
    async def hang(ctx):
        await hangs_at_cancel(release)
        ctx.output = "late"
        wrote.set()
        ended.set()

    @bus.on(FACT)
    async def following(ctx):
        release.set()
        await wrote.wait()
        seen.append(ctx.value)

    await bus.observe(FACT, "x")
    await ended.wait()

    assert seen == ["x"]
    assert about(caplog) == [
        ("fact", "hang", "handler 'hang' of 'fact' timed out after 0.01 s (DeadlineError)")
    ]


# --- async observers belong to a loop ------------------------------------------------------------


def test_an_async_observer_needs_an_event_loop():
    bus, seen = EventBus(), []

    @bus.on(NOTE)
    async def watch(ctx):
        seen.append("async")

    bus.on(NOTE, remembers(seen, "sync"), priority=1000)

    with pytest.raises(NoLoopError) as caught:
        bus.do(NOTE, "x")

    assert str(caught.value) == (
        "event 'note': it has async observers and no event loop runs; dispatch it inside one, "
        "or open the bus there with `async with bus`"
    )
    assert seen == []
    assert bus.pending == 0


async def test_another_thread_queues_for_the_loop():
    async with EventBus() as bus:
        threads = []

        @bus.on(NOTE)
        async def watch(ctx):
            threads.append((ctx.value, threading.current_thread()))

        await asyncio.to_thread(bus.do, NOTE, "x")
        await bus.drain()

        assert threads == [("x", threading.current_thread())]


def test_a_closed_loop_s_events_are_counted(caplog):
    bus, seen = EventBus(), []

    @bus.on(NOTE)
    async def watch(ctx):
        seen.append(ctx.value)
        if ctx.value == "a":
            await asyncio.Event().wait()

    async def leave():
        bus.do(NOTE, "a")
        while not seen:
            await asyncio.sleep(0)
        for word in "bc":
            bus.do(NOTE, word)

    async def go_on():
        bus.do(NOTE, "d")
        await bus.drain()

    asyncio.run(leave())
    with pytest.raises(NoLoopError):
        bus.do(NOTE, "refused")
    asyncio.run(go_on())

    assert (seen, bus.pending, bus.lost) == (["a", "d"], 0, 3)
    text = "observer 'watch' of 'note' was cut off by the end of its loop; events lost: "
    assert about(caplog) == [("note", "watch", text + "1"), ("note", "watch", text + "2")]


def test_one_bus_serves_several_runs():
    bus, seen = EventBus(), []

    @bus.on(NOTE)
    async def watch(ctx):
        await asyncio.sleep(0)
        seen.append(ctx.value)

    async def run(word):
        bus.do(NOTE, word)
        await bus.drain()

    for word in "abc":
        asyncio.run(run(word))

    assert seen == ["a", "b", "c"]


async def test_drain_waits_for_queued_events():
    bus, seen, release = EventBus(), [], asyncio.Event()
    never = asyncio.Event()

    @bus.on(NOTE)
    async def watch(ctx):
        if ctx.value == "more":
            await never.wait()
        await release.wait()
        seen.append(ctx.value)
        bus.do(NOTE, "more")

    await bus.drain()
    assert bus.pending == 0
    bus.do(NOTE, "x")
    bus.do(NOTE, "y")
    assert bus.pending == 2
    asyncio.get_running_loop().call_soon(release.set)
    await bus.drain()

    assert seen == ["x", "y"]
    assert bus.pending == 2
    release.clear()
    never.set()


async def test_drain_inside_an_observer_raises():
    bus, errors, left = EventBus(), [], []

    async def wait_later():
        await over.wait()
        await bus.drain()

    @bus.on(NOTE)
    async def drain(ctx):
        left.append(asyncio.ensure_future(wait_later()))
        for verb in (bus.drain, bus.aclose):
            try:
                await verb()
            except DispatchError as error:
                errors.append(str(error))

    over = asyncio.Event()
    bus.do(NOTE, "x")
    await bus.drain()
    over.set()

    text = "event 'drain': an async observer would wait for itself; call it outside"
    assert errors == [text, text]
    await left[0]


async def test_a_cancelled_drain_loses_nothing():
    bus, seen, release = EventBus(), [], asyncio.Event()

    @bus.on(NOTE)
    async def watch(ctx):
        await release.wait()
        seen.append(ctx.value)

    bus.do(NOTE, "x")
    bus.do(NOTE, "y")
    drain = asyncio.ensure_future(bus.drain())
    await asyncio.sleep(0)
    drain.cancel()
    with pytest.raises(asyncio.CancelledError):
        await drain

    release.set()
    await bus.drain()

    assert seen == ["x", "y"]


def test_a_drain_waits_for_its_own_loop():
    bus, seen = EventBus(), []
    asleep, drained = threading.Event(), threading.Event()

    @bus.on(NOTE)
    async def watch(ctx):
        seen.append((ctx.value, threading.current_thread()))
        if ctx.value == "a":
            asleep.set()
            await asyncio.to_thread(drained.wait)

    async def dispatch(word):
        bus.do(NOTE, word)
        await bus.drain()

    thread = threading.Thread(target=asyncio.run, args=(dispatch("a"),))
    thread.start()
    asleep.wait()
    asyncio.run(dispatch("b"))
    assert bus.pending == 1
    drained.set()
    thread.join()

    assert seen == [("a", thread), ("b", threading.current_thread())]
    assert bus.pending == 0


async def test_closing_drains_and_then_refuses():
    seen = []
    async with EventBus() as bus:

        @bus.on(NOTE)
        async def watch(ctx):
            await asyncio.sleep(0)
            seen.append(ctx.value)
            if ctx.value == "x":
                bus.do(NOTE, "meanwhile")

        bus.do(NOTE, "x")

    assert seen == ["x", "meanwhile"]
    bus.on(NOTE, remembers(seen, "sync"), priority=1000)
    with pytest.raises(ClosedError, match="the bus is closed; make a new one"):
        bus.do(NOTE, "late")
    with pytest.raises(ClosedError):
        await bus.__aenter__()
    assert seen == ["x", "meanwhile"]
    bus.on(TOOL_CALL_AFTER, remembers(seen, "sync"))
    bus.do(TOOL_CALL_AFTER, None)
    assert seen[2:] == ["sync"]


async def test_catch_up_waits_for_long_queues():
    bus, seen, release = EventBus(max_pending=1), [], asyncio.Event()
    assert EventBus().max_pending == 10_000
    await bus.catch_up()

    @bus.on(NOTE)
    async def watch(ctx):
        await bus.catch_up()
        await release.wait()
        seen.append(ctx.value)
        if ctx.value == "b":
            release.clear()

    for word in "abc":
        bus.do(NOTE, word)
    asyncio.get_running_loop().call_soon(release.set)
    await bus.catch_up()

    assert (seen, bus.pending) == (["a", "b"], 1)
    await bus.catch_up()
    assert seen == ["a", "b"]
    release.set()
    await bus.drain()


def test_loops_in_two_threads_lose_no_event():
    bus, seen = EventBus(), []
    showing, ended = threading.Event(), threading.Event()

    @bus.on(RUN_AFTER)
    async def audit(ctx):
        if ctx.scope.agent_id == "B":
            showing.set()
            await asyncio.to_thread(ended.wait)
        else:
            await asyncio.to_thread(showing.wait)
        seen.append((ctx.scope.agent_id, threading.current_thread()))

    def run(name):
        Agent(ScriptedModel(["hi"]), bus=bus, agent_id=name).run_sync("go")

    threads = [threading.Thread(target=run, args=(name,)) for name in "AB"]
    for thread in threads:
        thread.start()
    threads[0].join()
    ended.set()
    threads[1].join()

    assert seen == [("A", threads[0]), ("B", threads[1])]
    assert (bus.pending, bus.lost) == (0, 0)


def test_a_tool_s_thread_queues_for_its_loop():
    bus, seen, barrier = EventBus(), [], threading.Barrier(2)

    @bus.on(NOTE)
    async def watch(ctx):
        seen.append((ctx.value, threading.current_thread()))

    def tell(name: str) -> str:
        """Tell the observers."""
        barrier.wait()
        bus.do(NOTE, name)
        return "told"

    def run(name):
        asks = AssistantMessage(
            id=name, tool_calls=(ToolCall(id=name, name="tell", arguments={"name": name}),)
        )
        model = ScriptedModel([asks, "done"])
        Agent(model, bus=bus, agent_id=name, tools=[tell]).run_sync("go")

    threads = [threading.Thread(target=run, args=(name,)) for name in "AB"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(seen) == [("A", threads[0]), ("B", threads[1])]


def test_an_interrupted_turn_is_counted(caplog):
    bus, seen = EventBus(), []

    @bus.on(NOTE)
    async def watch(ctx):
        seen.append(ctx.value)
        if ctx.value == "a":
            await asyncio.Event().wait()

    async def leave():
        bus.do(NOTE, "a")
        while not seen:
            await asyncio.sleep(0)

    async def drain():
        async with asyncio.timeout(60):
            await bus.drain()

    asyncio.run(leave())
    asyncio.run(drain())

    assert (seen, bus.pending, bus.lost) == (["a"], 0, 1)
    text = "observer 'watch' of 'note' was cut off by the end of its loop; events lost: 1"
    assert about(caplog) == [("note", "watch", text)]


async def test_a_collected_agent_s_observer_misses_nothing():
    bus, seen = EventBus(), []

    async def run():
        agent = Agent(ScriptedModel(["hi"]), bus=bus)

        @agent.on(RUN_AFTER)
        async def audit(ctx):
            seen.append((ctx.value.text, agent.scope.agent_id == ctx.scope.agent_id))

        await agent.run("go")
        return weakref.ref(audit)

    gone = await run()
    gc.collect()
    await bus.drain()
    gc.collect()

    assert seen == [("hi", True)]
    assert (gone(), bus.handlers(RUN_AFTER)) == (None, ())


async def test_a_drain_with_a_timeout_returns(caplog):
    bus, release = EventBus(), asyncio.Event()

    @bus.on(NOTE)
    async def watch(ctx):
        await release.wait()

    bus.do(NOTE, "a")
    bus.do(NOTE, "b")
    await bus.drain(timeout=0.01)
    await bus.aclose(timeout=0.01)

    assert bus.pending == 2
    text = "2 events still wait for async observers after 0.01 s"
    assert caplog.messages == [text, text]
    with pytest.raises(ClosedError):
        bus.do(NOTE, "c")
    release.set()


# --- a subscription selects its dispatches -------------------------------------------------------


def test_a_predicate_decides_per_event():
    bus = EventBus()
    bus.on(WORD, adds("!"), when=lambda ctx: ctx.value.startswith("a"))
    bus.on(WORD, adds("?"), when=lambda ctx: [])

    assert [bus.apply_sync(WORD, word).value for word in ("ab", "ba")] == ["ab!", "ba"]


def test_a_sender_includes_its_sub_agents():
    class Agent:
        scope = Scope(agent_id="main", run_id="r")

    bus, seen = EventBus(), []
    bus.on(NOTE, lambda ctx: seen.append(("agent", ctx.value)), sender=Agent())
    bus.on(NOTE, lambda ctx: seen.append(("id", ctx.value)), sender="main")

    bus.do(NOTE, "own", scope=Scope(agent_id="main"))
    bus.do(NOTE, "child", scope=Scope(agent_id="sub", lineage=("main",)))
    bus.do(NOTE, "grandchild", scope=Scope(agent_id="low", lineage=("main", "sub")))
    bus.do(NOTE, "parent", scope=Scope(agent_id="boss"))
    bus.do(NOTE, "nobody")

    heard = [(one, word) for word in ("own", "child", "grandchild") for one in ("agent", "id")]
    assert seen == heard


async def test_a_once_handler_runs_once():
    bus, seen = EventBus(), []
    bus.on(WORD, remembers(seen, "once"), once=True, when=lambda ctx: ctx.value != "not yet")

    for word in ("not yet", "now", "again"):
        bus.apply_sync(WORD, word)
        if word == "not yet":
            assert len(bus.handlers(WORD)) == 1

    assert seen == ["once"]
    assert bus.handlers(WORD) == ()

    async def later(ctx):
        seen.append("later")

    bus.on(NOTE, later, once=True)
    bus.on(WORD, later, once=True)
    bus.do(NOTE, "x")
    await bus.drain()
    await bus.apply(WORD, "x")
    await asyncio.to_thread(bus.do, NOTE, "x")
    bus.apply_sync(WORD, "x")
    assert seen == ["once", "later", "later"]


async def test_a_weak_handler_ends_with_its_owner():
    seen = []

    class Owner:
        def method(self, ctx):
            seen.append("method")

        async def later(self, ctx):
            seen.append("async method")

        def __call__(self, ctx):
            seen.append("object")

    names = {"seen": seen}
    exec("def function(ctx):\n    seen.append('function')\n", names)  # As of a module.
    function, bus, owner = names.pop("function"), EventBus(), Owner()
    for shape in ("function", "method", "later", "owner"):
        handler = {"function": function, "owner": owner}.get(shape) or getattr(owner, shape)
        bus.on(WORD, handler, weak=True)
    del handler

    await bus.apply(WORD, "x")
    assert seen == ["function", "method", "async method", "object"]
    assert len(bus.handlers(WORD)) == 4
    seen.clear()

    @bus.on(WORD, priority=1000)
    def drop(ctx):
        nonlocal owner, function
        owner = function = None
        gc.collect()

    await bus.apply(WORD, "x")
    assert bus.apply_sync(WORD, "x").value == "x"

    assert seen == []
    assert [one.name for one in bus.handlers(WORD)] == ["drop"]


async def test_context_variables_reach_later_handlers():
    bus, seen = EventBus(), []
    names = ("sync", "later", "hurried", "thread", "observer")
    variables = {name: ContextVar(name, default="unset") for name in names}

    def setter(name):
        def set_it(ctx):
            variables[name].set("set")

        async def set_later(ctx):
            set_it(ctx)

        return set_it if name in {"sync", "thread"} else set_later

    bus.on(WORD, setter("sync"))
    bus.on(WORD, setter("later"))
    bus.on(WORD, setter("hurried"), timeout=5)
    bus.on(WORD, setter("thread"), thread=True)
    bus.on(NOTE, setter("observer"))
    bus.on(
        WORD, lambda ctx: seen.append([name for name in names if variables[name].get() == "set"])
    )

    bus.do(NOTE, "x")
    await bus.drain()
    await bus.apply(WORD, "x")

    seen.append([name for name in names if variables[name].get() == "set"])
    assert seen == [["sync", "later"]] * 2


async def test_a_thread_keeps_the_loop_free():
    bus, released, variable = EventBus(), threading.Event(), ContextVar("variable")
    variable.set("mine")

    @bus.on(WORD, thread=True)
    def block(ctx):
        released.wait()
        return ctx.value + variable.get()

    asyncio.get_running_loop().call_soon(released.set)
    ctx = await bus.apply(WORD, "x")

    assert ctx.value == "xmine"


class Counting(AgentComponent):
    """Notes whose predicates are asked, under whose speech."""

    def __init__(self, name, asked):
        super().__init__()
        self.owner, self.asked = name, asked

    def setup(self, agent):
        super().setup(agent)
        for event in (RUN_BEFORE, TOOL_CALL_BEFORE, MESSAGE_APPEND_BEFORE, RUN_AFTER):
            agent.on(event, lambda ctx: None, when=self.note, name=f"count {self.owner}")

    def note(self, ctx):
        self.asked.append((ctx.scope.agent_id, self.owner))
        return True


def counting(bus, name, asked, answers=("hi",), tools=()):
    """Return an agent with a component that counts."""
    component = Counting(name, asked)
    return Agent(
        ScriptedModel(answers), bus=bus, agent_id=name, components=[component], tools=tools
    )


async def test_other_agents_handlers_are_not_touched():
    bus, asked = EventBus(), []
    call = ToolCall(id="c", name="sub", arguments={"prompt": "go"})
    sub = counting(bus, "sub", asked)
    asks = AssistantMessage(id="a", tool_calls=(call,))
    boss = counting(bus, "boss", asked, [asks, "done"], [sub.as_tool("sub")])
    agents = [counting(bus, f"agent {number}", asked) for number in range(28)]

    await agents[7].run("go")
    assert set(asked) == {("agent 7", "agent 7")}
    asked.clear()
    assert (await boss.run("go")).text == "done"

    assert set(asked) == {("boss", "boss"), ("sub", "boss"), ("sub", "sub")}
    for agent, owner in ((agents[7], "agent 7"), (boss, "boss")):
        counted = {
            entry.name
            for record in agent.ledger
            for entry in record.entries
            if entry.name.startswith("count ")
        }
        assert counted == {f"count {owner}"}
    for agent in (boss, sub, *agents):
        await agent.aclose()


def test_a_dropped_agent_leaves_no_handlers():
    bus = EventBus()

    @bus.on(RUN_AFTER)
    def stays(ctx):
        return None

    def listed():
        return [one.name for event in CATALOGUE for one in bus.handlers(event)]

    def make(number):
        asks = ToolCall(id="c", name="sub", arguments={"prompt": "go"})
        sub = counting(bus, f"sub {number}", [])
        agent = counting(
            bus,
            f"agent {number}",
            [],
            [AssistantMessage(id="a", tool_calls=(asks,)), "done"],
            [sub.as_tool("sub")],
        )
        agent.on(TOOL_CALL_BEFORE, lambda ctx: agent.enqueue(None) if ctx is None else None)
        agent.guard(MESSAGE_APPEND_BEFORE)(lambda ctx: agent.scope and None)
        agent.set_before_tool_callback(lambda name, arguments: agent.messages and None)

        @agent.on(RUN_AFTER)
        async def watch(ctx):
            return agent and None

        if number % 2:
            assert agent.run_sync("go").text == "done"
        return weakref.ref(agent), weakref.ref(sub)

    gone = [one for number in range(4) for one in make(number)]
    gc.collect()

    assert [one() for one in gone] == [None] * 8
    assert listed() == ["stays"]


# --- an invalid subscription is refused at once --------------------------------------------------


async def test_a_decorator_returns_the_function():
    bus, seen = EventBus(), []

    def handler(ctx):
        seen.append(ctx.event)

    async def later(ctx):
        seen.append(ctx.event)

    assert bus.on(WORD)(handler) is handler
    assert bus.on(NOTE)(bus.on(FACT)(handler)) is handler
    assert bus.guard(WORD, priority=5, name="judge")(handler) is handler
    assert bus.on(ANY, timeout=30)(later) is later

    bus.apply_sync(WORD, "x")
    bus.do(NOTE, "x")
    await bus.observe(FACT, "x")
    await bus.apply(ANY, "x")
    assert seen == [WORD, WORD, NOTE, FACT, ANY]


def test_a_subscription_ends_when_cancelled():
    bus, seen = EventBus(), []

    with bus.on(WORD, remembers(seen, "with")) as subscription:
        other = bus.guard(WORD, remembers(seen, "other"))
        bus.apply_sync(WORD, "x")
    other.cancel()
    other.cancel()
    subscription.cancel()
    bus.apply_sync(WORD, "x")

    assert seen == ["with", "other"]
    assert bus.handlers(WORD) == ()


def test_an_invalid_handler_is_not_subscribed():  # noqa: C901 - a list of mistakes
    class Slotted:
        __slots__ = ()

        def method(self, ctx):
            return None

        def __call__(self, ctx):
            yield

    class Nameless:
        scope = Scope()

    class Odd:
        scope = "another thing"

    def handler(ctx):
        return None

    async def later(ctx):
        return None

    def generator(ctx):
        yield

    async def async_generator(ctx):
        yield

    bus = EventBus()
    wrong_options = [
        ({"priority": "high"}, "priority must be an integer, not 'high'"),
        ({"priority": True}, "priority must be an integer, not True"),
        ({"on_error": "ignore"}, "on_error must be one of open, closed, raise, not 'ignore'"),
        ({"timeout": 0}, "timeout must be a positive number of seconds, not 0"),
        ({"timeout": -1.0}, "timeout must be a positive number of seconds, not -1.0"),
        ({"timeout": "5"}, "timeout must be a positive number of seconds, not '5'"),
        ({"timeout": float("nan")}, "timeout must be a positive number of seconds, not nan"),
        ({"timeout": float("inf")}, "timeout must be a positive number of seconds, not inf"),
        ({"timeout": True}, "timeout must be a positive number of seconds, not True"),
        ({"sender": 7}, "sender must be an agent or an agent's id, not 7"),
        ({"sender": Odd}, f"sender must be an agent or an agent's id, not {Odd!r}"),
        ({"sender": ""}, "sender has no id, so its dispatches cannot be recognized; give it one"),
        (
            {"sender": Nameless()},
            "sender has no id, so its dispatches cannot be recognized; give it one",
        ),
        ({"when": later}, "when must be sync"),
        ({"when": lambda: True}, "when must take one argument, the context"),
        ({"when": True}, "when must take one argument, the context"),
    ]
    for options, problem in wrong_options:
        for subscribe in (bus.on, bus.guard):
            for arguments in ((WORD, later), (WORD,)):
                with pytest.raises(RegistrationError) as caught:
                    subscribe(*arguments, **options)
                assert str(caught.value) == f"handler of 'word': {problem}"
    local = "a weak lambda or local function would be collected at once"
    wrong_handlers = [
        (7, {}, "a handler must be callable, with one argument, the context"),
        (lambda: None, {}, "a handler must take one argument, the context"),
        (lambda ctx, more: None, {}, "a handler must take one argument, the context"),
        (generator, {}, "a generator gives no single result; return one value"),
        (async_generator, {}, "a generator gives no single result; return one value"),
        (partial(Slotted()), {}, "a generator gives no single result; return one value"),
        (later, {"thread": True}, "an async handler needs no thread; leave out thread=True"),
        (handler, {"timeout": 1}, "a sync handler cannot be timed out; add thread=True"),
        (
            Slotted().method,
            {"weak": True},
            "this callable cannot be referenced weakly; leave out weak=True",
        ),
        (lambda ctx: None, {"weak": True}, f"{local}; leave out weak=True, or give a method of an"),
        (handler, {"weak": True}, f"{local}; leave out weak=True, or give a method of an"),
    ]
    for handler_, options, problem in wrong_handlers:
        for subscribe in (partial(bus.on, WORD), partial(bus.guard, WORD), partial(bus.on, NOTE)):
            with pytest.raises(RegistrationError) as caught:
                subscribe(handler_, **options)
            assert caught.value.reason.startswith(problem)
            assert caught.value.what.startswith(f"handler {handler_!r} of ")
            with pytest.raises(RegistrationError, match=re.escape(problem)):
                subscribe(**options)(handler_)
    known = (
        "incremental, name, on_error, once, priority, roles, sender, thread, timeout, tools, "
        "weak, when"
    )
    for option, way_out in (("prio", "did you mean 'priority'?"), ("xyz", f"known: {known}")):
        with pytest.raises(RegistrationError) as caught:
            bus.on(WORD, handler, **{option: 3})
        assert caught.value.reason == f"unknown option {option!r}; {way_out}"
    guarded = "handler of 'note': a guard judges, and this event is only observed; use `on`"
    with pytest.raises(RegistrationError, match=guarded):
        bus.guard(NOTE, handler)
    for policy in ("closed", "raise"):
        with pytest.raises(RegistrationError, match="an observer cannot deny or raise; leave out"):
            bus.on(NOTE, handler, on_error=policy)
    with pytest.raises(RegistrationError, match="event 'word': not in the catalogue; known: "):
        bus.on("word", handler)
    with pytest.raises(RegistrationError, match="event 'note': not in the catalogue; known: "):
        bus.do("note", "x")
    with pytest.raises(RegistrationError, match="a sink is a plain function of the record"):
        bus.tap(later)
    with pytest.raises(RegistrationError, match="sink 7: a sink is a plain function of the recor"):
        bus.tap(7)
    with pytest.raises(TypeError, match="prio"):
        bus.on(WORD, handler, prio=1)
    assert bus.handlers(WORD) == bus.handlers(NOTE) == ()


async def test_a_wrong_verb_is_refused():
    bus = EventBus()
    for event, verbs, way_out in [
        (WORD, ("do", "observe"), "use `apply` or `apply_sync`"),
        (NOTE, ("observe", "apply", "apply_sync"), "use `do`"),
        (FACT, ("do", "apply", "apply_sync"), "use `observe`"),
    ]:
        for verb in verbs:
            with pytest.raises(DispatchError) as caught:
                await getattr(bus, verb)(event, "x")
            assert str(caught.value) == f"event {event.name!r}: {way_out}, not `{verb}`"


def test_two_events_of_one_name_are_refused():
    bus, seen = EventBus(), []
    bus.on(WORD, remembers(seen, "word"))

    for other in (TransformEvent("word", str), ObserveEvent("word", str)):
        for use in (bus.on, bus.handlers, bus.signal):
            with pytest.raises(RegistrationError) as caught:
                use(other, *[lambda ctx: None] * (use == bus.on))
            assert str(caught.value) == "event 'word': this bus has another event of that name"

    bus.apply_sync(WORD, "x")
    assert seen == ["word"]
    EventBus().on(TransformEvent("word", str), lambda ctx: None)


def test_the_bus_lists_its_handlers():
    class Owner:
        def method(self, ctx):
            return None

        @classmethod
        def of_class(cls, ctx):
            return None

        def __call__(self, ctx):
            return None

    def function(ctx):
        return None

    bus = EventBus()
    bus.guard(WORD, function, sender="main", priority=900)
    bus.on(WORD, Owner().method, on_error="closed", priority=7)
    bus.on(WORD, partial(Owner.of_class), priority=8)
    bus.on(WORD, Owner(), priority=9)
    bus.on(WORD, print, on_error="raise", name="printer", priority=10)
    bus.on(NOTE, function)

    listed = [
        (one.name, one.kind, one.priority, one.policy, one.sender) for one in bus.handlers(WORD)
    ]
    assert listed == [
        ("printer", "transformer", 10, "raise", None),
        ("Owner", "transformer", 9, "open", None),
        ("Owner.of_class", "transformer", 8, "open", None),
        ("Owner.method", "transformer", 7, "closed", None),
        ("function", "guard", 900, "closed", "main"),
    ]
    lines = [
        function.__code__.co_firstlineno,
        Owner.method.__code__.co_firstlineno,
        Owner.__call__.__code__.co_firstlineno,
    ]
    places = [one.where for one in bus.handlers(WORD)]
    assert [places[index] for index in (4, 3, 1)] == [f"{__file__}:{line}" for line in lines]
    assert places[0] == ""
    (observer,) = bus.handlers(NOTE)
    assert (observer.name, observer.kind, observer.policy) == ("function", "observer", "open")


def test_the_bus_reports_whether_it_has_listeners():
    bus, heard = EventBus(), []

    def receiver(sender, ctx):
        """Hear everyone."""

    heard.append(bus.has_listeners(WORD))
    handler = bus.on(WORD, lambda ctx: None, sender="nobody")
    heard.append(bus.has_listeners(WORD))
    handler.cancel()
    heard.append(bus.has_listeners(WORD))
    untap = bus.tap(lambda record: None, without=(NOTE,))
    heard += [bus.has_listeners(WORD), bus.has_listeners(NOTE)]
    untap()
    heard.append(bus.has_listeners(WORD))
    bus.signal(WORD).connect(receiver)
    heard.append(bus.has_listeners(WORD))
    bus.signal(WORD).disconnect(receiver)
    heard.append(bus.has_listeners(WORD))

    assert heard == [False, True, False, True, False, False, True, False]


# --- blinker's receivers are observers -----------------------------------------------------------


async def test_a_blinker_receiver_sees_the_end():
    bus, seen = EventBus(), []

    def anyone(sender, ctx):
        seen.append((ctx.event.name, sender, ctx.value, ctx.original, ctx.denied, ctx.tool))

    def for_main(sender, ctx):
        seen.append((ctx.event.name, "for main", ctx.value, ctx.scope.agent_id))

    for event in (WORD, NOTE, FACT):
        assert isinstance(bus.signal(event), Signal)
        bus.signal(event).connect(anyone)
        bus.signal(event).connect(for_main, sender="main")
        bus.on(event, lambda ctx: seen.append("handler"))
    bus.on(WORD, adds("!"))
    bus.guard(WORD, lambda ctx: Deny("no") if ctx.value == "no!" else None)

    await bus.apply(WORD, "x", scope=Scope(agent_id="other"), tool=ToolSpec(name="t"))
    assert seen == ["handler", ("word", "other", "x!", "x", None, ToolSpec(name="t"))]
    seen.clear()
    bus.apply_sync(WORD, "no")
    assert seen == ["handler", ("word", "", "no!", "no", Deny("no"), None)]
    for dispatch in (bus.do, bus.observe):
        seen.clear()
        event = NOTE if dispatch == bus.do else FACT
        waits = dispatch(event, "x", scope=Scope(agent_id="main"))
        _ = waits and await waits
        assert seen[0] == "handler"
        assert sorted(seen[1:], key=len) == [
            (event.name, "for main", "x", "main"),
            (event.name, "main", "x", "x", None, None),
        ]


def test_a_blinker_receiver_changes_nothing():
    bus = EventBus()
    bus.on(WORD, adds("!"))

    def assign(sender, ctx):
        ctx.output = "new"
        return "new"

    bus.signal(WORD).connect(assign)

    ctx = bus.apply_sync(WORD, "x")

    assert (ctx.value, ctx.output) == ("x!", "x!")


def test_a_failing_blinker_receiver_is_isolated(caplog):
    bus, seen = EventBus(), []

    def careless(sender, ctx):
        raise ValueError("boom")

    async def later(sender, ctx):
        seen.append("async")

    def good(sender, ctx):
        seen.append("good")

    for receiver in (careless, later, good):
        bus.signal(NOTE).connect(receiver)

    bus.do(NOTE, "x")

    assert seen == ["good"]
    texts = {handler: (event, text) for event, handler, text in about(caplog)}
    assert set(texts) == {"careless", "later"}
    assert texts["careless"][1].startswith("handler 'careless' of 'note' raised an error (ValueErr")
    assert texts["later"] == (
        "note",
        "receiver 'later' of 'note' is async, so it was not run; use `bus.on`",
    )


def test_a_plain_send_is_not_a_dispatch():
    bus, seen = EventBus(), []

    def receiver(sender, **more):
        seen.append(("receiver", sender))

    bus.on(NOTE, remembers(seen, "handler"))
    bus.signal(NOTE).connect(receiver)

    bus.signal(NOTE).send("by hand", ctx=None)
    assert seen == [("receiver", "by hand")]
    seen.clear()
    with bus.signal(NOTE).muted():
        bus.do(NOTE, "x")
    assert seen == ["handler"]


# --- nesting is bounded --------------------------------------------------------------------------


async def test_an_endless_transform_is_stopped():
    for policy in POLICIES:
        for subscribe in ("on", "guard"):
            for times in (1, 2):
                bus, levels = EventBus(), []

                async def again(ctx, bus=bus, levels=levels, times=times):
                    levels.append(ctx.value)
                    for _ in range(times if ctx.value != "stop" else 0):
                        await bus.apply(WORD, "x")

                getattr(bus, subscribe)(WORD, again, on_error=policy)

                with pytest.raises(DispatchDepthError) as caught:
                    await bus.apply(WORD, "x")

                assert len(levels) == 16
                assert (caught.value.event, caught.value.depth) == ("word", 16)
                assert (await bus.apply(WORD, "stop")).denied is None


async def test_an_endless_observer_is_stopped(caplog):
    def again(bus):
        return lambda *_, **__: bus.do(NOTE, "x")

    for shape in ("handler", "predicate", "receiver"):
        bus = EventBus()
        if shape == "handler":
            bus.on(NOTE, again(bus))
        elif shape == "predicate":
            bus.on(NOTE, lambda ctx: None, when=again(bus))
        else:
            receiver = again(bus)
            bus.signal(NOTE).connect(receiver)

        with pytest.raises(DispatchDepthError, match="event 'note': dispatched from inside itself"):
            bus.do(NOTE, "x")
    bus = EventBus()
    bus.on(FACT, lambda ctx: bus.observe(FACT, "x"))

    async def wait(ctx):
        await bus.observe(FACT, "x")

    bus.on(FACT, wait)
    with pytest.raises(DispatchDepthError):
        await bus.observe(FACT, "x")


async def test_an_endless_async_observer_is_stopped(caplog):
    seen = []
    async with EventBus() as bus:

        @bus.on(NOTE)
        async def again(ctx):
            seen.append(ctx.value)
            bus.do(NOTE, "x")

        bus.do(NOTE, "x")

    assert len(seen) == 16
    assert [handler for _, handler, _ in about(caplog)] == ["again"]


async def test_an_observer_may_start_the_next_run():
    tasks, ends = [], []
    agent = Agent(ScriptedModel(["hi"] * 31))

    @agent.on(RUN_AFTER)
    async def go_on(ctx):
        if len(tasks) < 30:
            tasks.append(asyncio.create_task(agent.run("next")))

    async with agent:
        await agent.run("first")
        while len(ends) < 30:
            await agent.bus.drain()
            ends.append((await tasks[len(ends)]).status)

    assert ends == ["ok"] * 30


async def test_a_task_left_behind_is_not_nested():
    bus, tasks, release = EventBus(), [], asyncio.Event()

    @bus.on(WORD)
    async def handle(ctx):
        if ctx.value == "other":
            await release.wait()
        elif len(tasks) < 30:
            tasks.append(asyncio.create_task(bus.apply(WORD, "x")))

    others = [asyncio.create_task(bus.apply(WORD, "other")) for _ in range(8)]
    await asyncio.sleep(0)
    await bus.apply(WORD, "x")
    ended = 0
    while ended < 30:
        await tasks[ended]
        ended += 1
    release.set()
    await asyncio.gather(*others)

    assert len(tasks) == 30


# --- a dispatch can check replacements -----------------------------------------------------------


async def test_a_check_ends_the_dispatch():
    def is_short(ctx, value):
        return None if len(value) < 4 else f"{value!r} is longer than {ctx.original!r} may be"

    for policy in POLICIES:
        bus, seen = EventBus(), []
        bus.on(WORD, adds("!"))
        bus.on(WORD, adds("too long"), on_error=policy, name="bad")
        bus.on(WORD, remembers(seen, "transformer"))
        bus.guard(WORD, lambda ctx: Ask("really?"))

        for ctx in (
            await bus.apply(WORD, "x", check=is_short),
            bus.apply_sync(WORD, "x", check=is_short),
        ):
            assert ctx.rejected.handler == "bad"
            assert ctx.rejected.reason == "'x!too long' is longer than 'x' may be"
            assert (ctx.value, ctx.output, ctx.denied, seen) == ("x!", "x!", None, [])


def test_steps_are_judged_one_by_one():
    first, second = object(), object()
    specs = {first: ToolSpec(name="one"), second: None}
    judged = []

    def signatures(actor, value):
        return specs[actor]

    def check(ctx, value):
        judged.append((value, ctx.tool.name))
        return "no marks" if "?" in value else None

    def steps(ctx):
        ctx.step("one", ctx.value + "!", actor=first)
        ctx.step("like", ctx.value + "!", actor=second, failed="it broke")
        ctx.step("same", ctx.steps[-1].after, actor=second)
        ctx.step("two", ctx.value + "?", actor=second)

    def deaf(ctx):
        try:
            steps(ctx)
        except Exception:  # noqa: BLE001 - as careless users do
            raise ValueError from None

    def mute(ctx):
        try:
            steps(ctx)
        except Exception:  # noqa: BLE001 - as careless users do
            return "other"

    for handler in (steps, deaf, mute):
        bus = EventBus()
        bus.on(WORD, handler)
        judged.clear()

        tool = ToolSpec(name="own")
        ctx = bus.apply_sync(WORD, "x", tool=tool, check=check, signatures=signatures)

        assert (ctx.rejected.handler, ctx.rejected.reason) == ("two", "no marks")
        assert (ctx.value, ctx.tool, ctx.steps) == ("x", tool, ())
        assert judged == [("x!", "one"), ("x!", "one"), ("x?", "one")]
    bus = EventBus()

    @bus.on(WORD)
    def good(ctx):
        ctx.step("one", ctx.value + "!", actor=first)
        return ctx.steps[-1].after

    judged.clear()
    ctx = bus.apply_sync(WORD, "x", tool=tool, check=check, signatures=signatures)
    assert (ctx.value, ctx.tool, judged) == ("x!", specs[first], [("x!", "one")])
    assert [(step.name, step.before, step.after) for step in ctx.steps] == [("one", "x", "x!")]


# --- buses are independent -----------------------------------------------------------------------


def test_two_buses_share_nothing():
    one, other, seen = EventBus(), EventBus(), []

    def receiver(sender, ctx):
        seen.append("receiver")

    one.on(NOTE, remembers(seen, "handler"))
    one.tap(lambda record: seen.append("tap"))
    one.signal(NOTE).connect(receiver)

    other.do(NOTE, "x")
    assert seen == []
    one.do(NOTE, "x")
    assert seen == ["handler", "receiver", "tap"]
    assert one.signal(NOTE) is not other.signal(NOTE)
    assert other.handlers(NOTE) == ()


def test_threads_dispatch_and_subscribe_together(thorough):  # noqa: C901 - two kinds of threads
    bus, problems, rounds = EventBus(), [], 2000 if thorough else 150
    barrier, stop = threading.Barrier(8 + 3), threading.Event()

    def handler(priority):
        return lambda ctx: (*ctx.value, priority)

    for priority in (1, 50):
        bus.on(ANY, handler(priority), priority=priority)

    def dispatch():
        barrier.wait()
        for _ in range(rounds):
            ran = bus.apply_sync(ANY, ()).value
            if list(ran) != sorted(set(ran), reverse=True) or not {1, 50} <= set(ran):
                problems.append(ran)

    def change(priority):
        barrier.wait()
        while not stop.is_set():
            with bus.on(ANY, handler(priority), priority=priority):
                bus.on(ANY, handler(priority + 1), priority=priority + 1).cancel()

    dispatchers = [threading.Thread(target=dispatch) for _ in range(8)]
    changers = [threading.Thread(target=change, args=(priority,)) for priority in (10, 30, 70)]
    for thread in (*dispatchers, *changers):
        thread.start()
    for thread in dispatchers:
        thread.join()
    stop.set()
    for thread in changers:
        thread.join()

    assert problems == []
    assert [one.priority for one in bus.handlers(ANY)] == [50, 1]


def test_importing_the_bus_loads_no_asyncio():
    program = """
import sys
from toolbus.bus import EventBus
from toolbus.events.catalogue import ObserveEvent, TransformEvent
bus = EventBus()
bus.on(TransformEvent("word", str), lambda ctx: ctx.value + "!", once=True)
note = ObserveEvent("note", str)
bus.on(note, lambda ctx: None)
bus.do(note, "x")
print("toolbus.bus.ledger.trace" in sys.modules)
bus.tap(lambda record: None)
bus.do(note, "x")
print(bus.pending, bus.stuck, "asyncio" in sys.modules, "logging" in sys.modules)
"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env=environment, text=True
    )

    assert done.stdout == "False\n0 0 False False\n"

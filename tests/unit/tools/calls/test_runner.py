"""What `specs` should not mention of `toolbus.tools.calls`."""

import asyncio
import logging
from contextvars import ContextVar

import pytest
from msgspec import Struct

from toolbus import (
    Ask,
    EventBus,
    Retry,
    Scope,
    Tool,
    ToolCall,
    ToolResponse,
    ToolRunner,
    ToolSpec,
    tool,
)
from toolbus.bus.dispatch.contexts import EventContext
from toolbus.errors import ClosedError, StoreError
from toolbus.events.catalogue import (
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOLS_PROVIDE,
)
from toolbus.tools.calls.advertised import AdvertisedTools, ArgumentsCheck
from toolbus.tools.calls.approver import ApproverGate
from toolbus.tools.calls.call import CallInProgress
from toolbus.tools.calls.gate import ApprovalRequest, deny_without_approver
from toolbus.tools.toolset import Toolset
from toolbus.transcript.transcript import Transcript

# Only to end a test that has failed already.
SECONDS = 60


@tool
def count(n: int = 0) -> dict[str, int]:
    """Count."""
    return {"n": n}


def calls_of(*names):
    return [ToolCall(id=f"c-{number}", name=name) for number, name in enumerate(names)]


def keeps(messages, *errors):
    """Return an `append` that raises *errors* first and keeps all messages."""
    left = list(errors)

    async def append(message, scope, spec):
        messages.append((message.tool_call_id, spec and spec.name))
        if left:
            raise left.pop(0)
        return message

    return append


async def test_an_observer_that_cannot_be_told_loses_no_message(caplog):
    bus, messages = EventBus(), []

    async def later(ctx):
        """Need a queue, which a closed bus has not."""

    bus.on(TOOL_CALL_AFTER, later)
    runner = ToolRunner(bus, Toolset([count]), append=keeps(messages))
    await bus.aclose()

    with pytest.raises(ClosedError):
        await runner.call_all(calls_of("count", "count"))

    assert messages == [("c-0", "count"), ("c-1", "count")]
    assert caplog.record_tuples == [
        ("toolbus", logging.ERROR, "one more error of the same tool calls")
    ]
    assert caplog.records[0].exc_info[0] is ClosedError


async def test_a_message_that_cannot_be_appended_stops_no_sibling(caplog):
    messages = []
    append = keeps(messages, StoreError("s", "it is full"), StoreError("s", "it is gone"))
    runner = ToolRunner(EventBus(), Toolset([count]), append=append)

    with pytest.raises(StoreError, match="it is full"):
        await runner.call_all(calls_of("count", "count", "count"))

    assert [one[0] for one in messages] == ["c-0", "c-1", "c-2"]
    assert str(caplog.records[0].exc_info[1]) == "store 's': it is gone"


async def test_no_calls_are_no_work():
    runner = ToolRunner(EventBus(), Toolset())

    assert await runner.call_all([]) == ()


@pytest.mark.parametrize("names", [["count"], ["count", "count"]])
async def test_a_message_without_an_id_fails_its_call(names):
    def ids():
        raise OSError("no more ids")

    runner = ToolRunner(EventBus(), Toolset([count]), append=keeps([]), ids=ids)

    with pytest.raises(OSError, match="no more ids"):
        await asyncio.wait_for(runner.call_all(calls_of(*names)), SECONDS)


async def test_a_message_goes_with_the_spec_of_the_tool_it_names():
    bus, messages = EventBus(), []

    @tool
    def other() -> None:
        """Do nothing."""

    @bus.on(TOOL_CALL_BEFORE)
    def redirect(ctx):
        if ctx.value.id == "c-0":
            return ToolCall(id="c-0", name="count")
        if ctx.value.id == "c-1":
            return ToolResponse.from_text("cached")
        return None

    runner = ToolRunner(bus, Toolset([count, other]), append=keeps(messages))
    await runner.call_all(calls_of("other", "other", "erase"))
    await runner.call_all(calls_of("other"), AdvertisedTools([other.spec]))
    await runner.call_all(calls_of("other"), AdvertisedTools([count.spec]))

    assert messages == [
        ("c-0", "count"),
        ("c-1", "other"),
        ("c-2", None),
        # Redirected to what was not offered, so it did not run.
        ("c-0", "other"),
        ("c-0", "count"),
    ]


async def test_an_interrupted_call_stays_so_when_it_is_cancelled():
    bus, messages, statuses = EventBus(), [], []
    bus.on(TOOL_CALL_AFTER, lambda ctx: statuses.append(ctx.value.status))
    keep, go_on = keeps(messages), asyncio.Event()

    async def append(*args):
        await go_on.wait()
        return await keep(*args)

    runner = ToolRunner(bus, Toolset([count]), append=append)
    task = asyncio.ensure_future(runner.close_interrupted(calls_of("count", "erase")))
    await asyncio.sleep(0)

    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert statuses == ["interrupted", "interrupted"]
    assert messages == [("c-0", "count"), ("c-1", None)]


async def test_a_handlers_own_cancellation_ends_its_call_alone():
    bus, messages = EventBus(), []

    @bus.on(TOOL_CALL_BEFORE)
    async def give_up(ctx):
        if ctx.value.id == "c-0":
            raise asyncio.CancelledError

    runner = ToolRunner(bus, Toolset([count]), append=keeps(messages))
    outcomes = await runner.call_all(calls_of("count", "count"))

    assert [one.status for one in outcomes] == ["cancelled", "ok"]
    assert outcomes[0].response.text == "the call was cancelled"
    assert [one[0] for one in messages] == ["c-0", "c-1"]


async def test_a_slow_handler_is_not_waited_for_twice():
    bus, messages, begun, go_on = EventBus(), [], asyncio.Event(), asyncio.Event()

    @bus.on(TOOL_CALL_BEFORE)
    async def stubborn(ctx):
        begun.set()
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue

    runner = ToolRunner(bus, Toolset([count]), append=keeps(messages))
    task = asyncio.ensure_future(runner.call("count"))
    await begun.wait()

    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len(messages) == 1


async def test_a_gate_can_be_shared():
    asked = []

    async def approver(ask, call, scope):
        asked.append((ask.prompt, call and call.name, scope.agent_id))
        return True

    bus, gate = EventBus(), ApproverGate(approver)
    bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("may it?"))
    scope = Scope(agent_id="main")

    permit = await gate.ask(ApprovalRequest(Ask("may I?"), None, scope, EventBus()))
    await ToolRunner(bus, Toolset([count]), scope, approver=gate).call("count")

    assert await permit.take() is None
    assert asked == [("may I?", None, "main"), ("may it?", "count", "main")]


async def test_a_refusal_keeps_the_question_for_operators():
    async def forget(*_):
        await asyncio.Event().wait()

    def fail(*_):
        raise ValueError("no terminal")

    details = [deny_without_approver(Ask("may I?")).detail]
    for approver, seconds in ((lambda *_: False, 60), (fail, 60), (forget, 0.01)):
        asked = ApprovalRequest(Ask("may I?"), None, Scope(), EventBus())
        refusal = await ApproverGate(approver, seconds).ask(asked)
        details.append(refusal.detail)

    assert details == ["may I?", "may I?", "ValueError: no terminal", "timed out after 0.01 s"]


def test_advertised_tools_know_what_each_adapter_was_given():
    inner, outer, first = object(), object(), ToolSpec(name="count")
    second = ToolSpec(name="count", description="of the inner one")
    context = EventContext(TOOLS_PROVIDE, (first,))
    context.step("inner", (second,), actor=inner)
    context.step("outer", (second,), actor=outer)

    advertised = AdvertisedTools.of(context)

    call, other = calls_of("count", "erase")
    assert advertised.spec_for(inner, call) is first
    assert advertised.spec_for(outer, call) is second
    assert advertised.spec_for(inner, other) is None
    assert advertised.spec_for(object(), call) is None
    assert AdvertisedTools([first]).spec_for(inner, call) is None


def test_a_spec_of_another_tool_judges_nothing():
    check = ArgumentsCheck(Toolset([count]))
    loose = {"type": "object"}
    call = ToolCall(id="c", name="count", arguments={"n": "one"})

    problems = [
        check.problem(call),
        check.problem(call, ToolSpec(name="other", input_schema=loose)),
        check.problem(call, ToolSpec(name="count", input_schema=loose)),
        check.problem(call, ToolSpec(name="count", input_schema={"required": ["m"]})),
        check.problem(ToolCall(id="c", name="erase", arguments={"n": "one"})),
        check.problem(ToolCall(id="c", name="erase", raw="n=1")),
    ]

    wrong = "expected `int`, got `str` - at `$.n`"
    assert problems == [wrong, wrong, None, wrong, None, "expected a JSON object - at `$`"]


async def test_a_refused_approval_is_an_error_of_the_type_denied():
    bus = EventBus()
    bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("may it?"))
    runner = ToolRunner(bus, Toolset([count]), approver=lambda ask, call, scope: False)

    outcome = await runner.call("count")

    assert (outcome.status, outcome.response.error_type) == ("denied", "denied")


@pytest.mark.parametrize(("seconds", "expected"), [(None, 1), (SECONDS, 2)])
async def test_only_a_tool_with_a_limit_has_a_second_task(seconds, expected):
    tasks = []

    @tool(timeout=seconds)
    async def work() -> None:
        """Never wait."""
        tasks.append(asyncio.all_tasks())

    before = asyncio.all_tasks()
    await ToolRunner(EventBus(), Toolset([work])).call("work")

    # One for the call, one for the tool, which is left behind when its time is up.
    assert len(tasks[0] - before) == expected
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("turns", range(8))
async def test_calls_whose_tasks_are_cancelled_are_answered_once(turns):
    messages, outcomes, bus = [], [], EventBus()

    @tool
    async def work() -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    bus.on(TOOL_CALL_AFTER, lambda ctx: outcomes.append(ctx.value.requested.id))
    runner = ToolRunner(bus, Toolset([work]), append=keeps(messages))
    mine = asyncio.current_task()
    calls = asyncio.ensure_future(runner.call_all(calls_of("work", "work", "work")))
    # After one turn `call_all` waits for what has not begun; later the calls have not begun.
    await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {mine}:
        task.cancel()
    await asyncio.wait({calls})

    assert calls.cancelled()
    ids = [call_id for call_id, _ in messages]
    assert len(ids) == len(set(ids)) == 3
    assert sorted(outcomes) == sorted(ids)


async def test_a_tool_that_waits_keeps_its_task():
    messages, tasks, user = [], [], ContextVar("user", default="")

    @tool
    async def work() -> str:
        """Wait for time that is up, and for a group."""
        tasks.append(asyncio.current_task())
        user.set("tool")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
        tasks.append(asyncio.current_task())
        return user.get()

    async def append(message, scope, spec):
        tasks.append(asyncio.current_task())
        messages.append((message.text, user.get()))
        return message

    await ToolRunner(EventBus(), Toolset([work]), append=append).call("work")

    assert len(set(tasks)) == 1
    assert tasks[0] is not asyncio.current_task()
    assert messages == [("tool", "tool")]
    assert not user.get()


async def test_a_call_has_its_context_to_itself():
    seen, user = [], ContextVar("user", default="")

    @tool
    async def work() -> None:
        """Set a context variable."""
        seen.append(user.get())
        user.set("tool")

    async def append(message, scope, spec):
        seen.append(user.get())
        return message

    runner = ToolRunner(EventBus(), Toolset([work]), append=append)
    await runner.call_all(calls_of("work", "work"))

    assert seen == [""] * 4


async def test_a_call_is_cancelled_even_if_its_tool_is_not():
    begun, seen = asyncio.Event(), []

    @tool
    async def work() -> str:
        """Swallow its cancellation."""
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "swallowed"
        return "done"

    async def append(message, scope, spec):
        seen.append((message.tool_response.error_type, asyncio.current_task().cancelling()))
        return message

    runner = ToolRunner(EventBus(), Toolset([work]), append=append)
    task = asyncio.ensure_future(runner.call("work"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert seen == [("cancelled", 0)]


@pytest.mark.parametrize("waits", [False, True])
async def test_a_tool_that_cancels_its_task_leaves_the_call_a_clean_one(waits):
    seen = []

    @tool
    async def work() -> str:
        """Cancel itself."""
        asyncio.current_task().cancel()
        if waits:
            await asyncio.sleep(0)
        return "done"

    async def append(message, scope, spec):
        await asyncio.sleep(0)
        seen.append((message.tool_response.error_type, asyncio.current_task().cancelling()))
        return message

    outcome = await ToolRunner(EventBus(), Toolset([work]), append=append).call("work")

    assert (outcome.status, seen) == ("cancelled", [("cancelled", 0)])


async def test_what_nobody_hears_is_not_dispatched():
    dispatched, records = [], []

    class Counting(EventBus):
        def apply(self, event, *more, **options):
            dispatched.append(event.name)
            return super().apply(event, *more, **options)

        def observe(self, event, *more, **options):
            dispatched.append(event.name)
            return super().observe(event, *more, **options)

    async def write(message):
        """Keep nothing."""

    bus = Counting()
    runner = ToolRunner(bus, Toolset([count]), append=Transcript(bus, "s", write).enter)

    await runner.call("count")
    assert dispatched == []

    bus.tap(records.append)
    await runner.call("count")
    assert [one.event for one in records] == [
        "tool:call:before",
        "tool:call:after",
        "message:append:before",
        "message:persist:before",
        "tool:call:persist:before",
        "tool:call:persist:after",
        "message:append:after",
    ]
    assert len(dispatched) == len(records) - 2


async def test_a_stubborn_handler_that_was_cancelled_leaves_a_clean_task():
    bus, begun, counts = EventBus(), asyncio.Event(), []

    @bus.on(TOOL_CALL_BEFORE)
    async def stubborn(ctx):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    async def append(message, scope, spec):
        counts.append(asyncio.current_task().cancelling())
        return message

    task = asyncio.ensure_future(ToolRunner(bus, Toolset([count]), append=append).call("count"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert counts == [0]


@pytest.mark.parametrize("many", [1, 3])
async def test_a_runner_is_stopped_and_not_cancelled(many):
    begun, ended, tasks = asyncio.Event(), [], []

    @tool
    async def wait() -> None:
        """Wait for ever."""
        tasks.append(asyncio.current_task())
        if len(tasks) == many:
            begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def append(message, scope, spec):
        await asyncio.sleep(0)
        return message

    runner = ToolRunner(EventBus(), Toolset([wait]), append=append)
    task = asyncio.ensure_future(runner.call_all(calls_of(*["wait"] * many)))
    await begun.wait()
    runner.stop()
    outcomes = await task

    assert [one.status for one in outcomes] == ["cancelled"] * many
    assert len(ended) == many
    assert task.cancelling() == 0
    runner.stop()  # Nothing is under way any more.


async def test_a_tool_may_be_stopped_and_have_a_limit():
    class Waits(Tool):
        async def run(self) -> None:
            """Wait for ever."""
            begun.set()
            await asyncio.Event().wait()

    begun, tools = asyncio.Event(), Toolset([Waits()])
    runner = ToolRunner(EventBus(), tools)
    task = asyncio.ensure_future(runner.call("Waits"))
    await begun.wait()
    runner.stop()
    stopped = await task
    tools.get("Waits").timeout = 0.01

    assert stopped.status == "cancelled"
    assert (await runner.call("Waits")).status == "timeout"


async def test_a_retry_may_find_arguments_that_fit_no_more():
    bus, left = EventBus(), [None, None]
    bus.on(TOOL_CALL_ERROR, lambda ctx: Retry())

    class Once(Struct):
        n: int

        def __post_init__(self):
            left.pop()

    @tool(idempotent=True)
    async def work(once: Once) -> None:
        """Fail."""
        left.clear()
        raise ValueError("once")

    outcome = await ToolRunner(bus, Toolset([work])).call("work", {"once": {"n": 1}})

    assert (outcome.status, outcome.attempts) == ("error", 3)
    assert outcome.response.text == "invalid arguments: indexError: pop from empty list - at `$`"


async def test_a_call_may_be_stopped_before_it_begins():
    seen, means = [], ToolRunner(EventBus(), Toolset([count]))
    means.bus.on(TOOL_CALL_BEFORE, lambda ctx: seen.append(ctx.value.id))
    fresh, ended = [CallInProgress(call, means, None) for call in calls_of("count", "count")]
    ended.interrupt()

    for one in (fresh, ended):
        one.stop()
        await one.advance()

    assert [one.outcome.status for one in (fresh, ended)] == ["cancelled", "interrupted"]
    assert seen == []

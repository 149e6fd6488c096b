import asyncio
from contextlib import suppress
from functools import partial

import pytest

from toolbus import Agent, AssistantMessage, ToolCall, UserMessage, tool
from toolbus.agent.task_set import TaskSet
from toolbus.errors import ClosedError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    RUN_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
)
from toolbus.models.scripted import ScriptedModel
from toolbus.store.memory import MemoryStore

# Only to end a test that has failed already.
SECONDS = 60


def deaf(begun: asyncio.Event, end: asyncio.Event):
    async def handler(ctx):
        begun.set()
        while not end.is_set():
            with suppress(asyncio.CancelledError):
                await end.wait()

    return handler


@pytest.mark.parametrize("way", ["cancel", "close"])
async def test_what_does_not_listen_is_left_behind(way, caplog):
    agent = Agent(ScriptedModel(["done"]), grace=0)
    agent._work._patience = 0.1
    begun, end = asyncio.Event(), asyncio.Event()
    agent.on(RUN_BEFORE, deaf(begun, end))
    run = asyncio.create_task(agent.run("go"))
    await begun.wait()

    if way == "cancel":
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(run, SECONDS)
    else:
        await asyncio.wait_for(agent.aclose(), SECONDS)
        assert "the agent leaves 1 runs behind, which do not end" in caplog.text
    end.set()

    if way == "close":
        with pytest.raises(ClosedError):
            await run


@pytest.mark.parametrize("way", ["cancel", "close"])
@pytest.mark.parametrize("where", ["handler", "tool"])
async def test_a_call_that_does_not_listen_has_its_answer(where, way, caplog):
    begun, end = asyncio.Event(), asyncio.Event()
    stubborn = deaf(begun, end)

    @tool
    async def work() -> str:
        """Work, and take no notice of a cancellation."""
        if where == "tool":
            await stubborn(None)
        return "late"

    asking = AssistantMessage(id="a", tool_calls=[ToolCall(id="c", name="work")])
    agent = Agent(ScriptedModel([asking, "done"]), tools=[work], grace=0)
    outcomes = []
    agent.on(TOOL_CALL_AFTER, lambda ctx: outcomes.append(ctx.value))
    if where == "handler":
        agent.on(TOOL_CALL_BEFORE, stubborn)
    run = asyncio.create_task(agent.run("go"))
    await begun.wait()

    if way == "cancel":
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(run, SECONDS)
    else:
        await asyncio.wait_for(agent.aclose(), SECONDS)
        with pytest.raises(ClosedError):
            await run
    end.set()
    for _ in range(5):
        await asyncio.sleep(0)

    assert [one.status for one in outcomes] == ["cancelled"]
    assert [one.text for one in agent.messages[2:]] == ["the call was cancelled"]
    late = "tool 'work' ended too late; its result is dropped"
    assert caplog.text.count(late) == (where == "tool")


async def test_what_waits_is_appended_past_a_hanging_hook():
    store = MemoryStore()
    agent = Agent(ScriptedModel([]), store=store, session_id="s", grace=0.02)
    agent.enqueue(UserMessage(id="u", content="hi"))

    @agent.on(MESSAGE_APPEND_BEFORE)
    async def hang(ctx):
        await asyncio.Event().wait()

    await asyncio.wait_for(agent.aclose(), SECONDS)

    assert [one.text for one in await store.read("s")] == ["hi"]


async def test_what_is_cancelled_again_and_again_is_left_behind_in_time():
    work, begun, end = TaskSet("it", 0), asyncio.Event(), asyncio.Event()
    work._patience = 0.1
    running = asyncio.create_task(work.run(partial(deaf(begun, end), None)))
    await begun.wait()

    async with asyncio.timeout(SECONDS):
        while not running.done():
            running.cancel()
            await asyncio.sleep(0.01)
    end.set()

    assert running.cancelled()


def test_work_of_a_closed_loop_is_not_waited_for():
    work, begun = TaskSet("it", 0.01), []

    async def hang():
        begun.append(asyncio.get_running_loop())
        await asyncio.Event().wait()

    loop = asyncio.new_event_loop()
    task = loop.create_task(work.run(hang))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    asyncio.run(work.stop())

    assert begun == [loop]
    assert not task.done()


@pytest.mark.parametrize("way", ["cancel", "close"])
async def test_an_append_in_the_task_of_its_caller_can_be_stopped(way):
    agent, begun = Agent(ScriptedModel([]), grace=0.02), asyncio.Event()

    @agent.on(MESSAGE_APPEND_BEFORE)
    async def hang(ctx):
        begun.set()
        await asyncio.sleep(SECONDS)

    async def append():
        try:
            await agent.append("hi")
        except ClosedError:
            task = asyncio.current_task()
            await asyncio.sleep(0)  # The request of `aclose` is not left to the caller.
            return task.cancelling()

    appending = asyncio.create_task(append())
    await begun.wait()
    if way == "cancel":
        appending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await appending
    else:
        await agent.aclose()
        assert await appending == 0
    assert not agent.messages

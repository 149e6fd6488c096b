"""Calls that are stopped while they are answered, and calls that do not listen."""

import asyncio
import gc

import pytest

from toolbus import EventBus, ToolCall, ToolRunner, Toolset, tool
from toolbus.bus.grace import CURRENT, Grace
from toolbus.tasks.loops import set_context
from toolbus.tools.calls.batch import CallBatch


@tool
async def ready() -> str:
    return "done"


@pytest.mark.parametrize("way", ["cancel", "stop"])
async def test_a_call_that_is_being_answered_is_not_answered_again(way):
    appended, may_end, begun = [], asyncio.Event(), asyncio.Event()

    async def append(message, scope, spec):
        appended.append(message.tool_call_id)
        begun.set()
        await may_end.wait()
        return message

    runner = ToolRunner(EventBus(), Toolset([ready]), append=append)
    with set_context(CURRENT, Grace(0.01)):
        calling = asyncio.create_task(runner.call("ready"))
        await begun.wait()
        if way == "stop":
            runner.stop()
        else:
            calling.cancel()
        await asyncio.sleep(0.1)  # Longer than the grace.
        may_end.set()
        (result,) = await asyncio.gather(calling, return_exceptions=True)

    assert len(appended) == 1
    assert result.status == "ok" if way == "stop" else isinstance(result, asyncio.CancelledError)


async def test_a_stopped_call_that_does_not_listen_is_left_behind():
    may_end, begun = asyncio.Event(), asyncio.Event()

    @tool
    async def deaf() -> str:
        begun.set()
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    runner = ToolRunner(EventBus(), Toolset([deaf]))
    with set_context(CURRENT, Grace(0.01)):
        calling = asyncio.create_task(runner.call("deaf"))
        await begun.wait()
        runner.stop()
        outcome = await calling
    may_end.set()
    await asyncio.sleep(0)

    assert outcome.status == "cancelled"


def batches():
    return [each for each in gc.get_objects() if isinstance(each, CallBatch)]


@pytest.mark.parametrize("count", [1, 2])
async def test_a_batch_goes_with_its_last_answer(count):
    @tool
    async def write(text: str) -> str:
        return text

    runner = ToolRunner(EventBus(), Toolset([write]))
    calls = [ToolCall(id=f"{n}", name="write", arguments={"text": "long"}) for n in range(count)]
    before = batches()
    gc.disable()
    try:
        await runner.call_all(calls)
        await asyncio.sleep(0)
        kept = [each for each in batches() if each not in before]
    finally:
        gc.enable()

    assert kept == []

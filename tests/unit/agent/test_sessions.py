import asyncio
import gc

import pytest

from toolbus import Agent, EventBus, Scope, ToolCall, UserMessage, tool
from toolbus.bus.ledger.records import DispatchRecord
from toolbus.bus.ledger.taps import Taps
from toolbus.errors import AppendError, StoreError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_AFTER,
    MESSAGE_APPEND_BEFORE,
    RUN_AFTER,
    RunResult,
)
from toolbus.messages.records import AssistantMessage, ToolMessage
from toolbus.models.scripted import ScriptedModel
from toolbus.store.memory import MemoryStore
from toolbus.store.protocol import AppendRequest


def record(name):
    return DispatchRecord(
        event=name,
        scope=Scope(session_id="s"),
        started_ns=1,
        duration_ns=2,
        outcome="observed",
        original="",
    )


class Durable(MemoryStore):
    """A store that says it is durable, and fails while *broken*."""

    durable, broken = True, False

    async def append(self, session_id, stored):
        if self.broken:
            raise StoreError("disk", "full")
        await super().append(session_id, stored)


async def test_what_was_enqueued_before_the_start_is_appended_at_the_end():
    store = MemoryStore()
    await store.append("s", AppendRequest(message=UserMessage(id="old", content="old")))
    agent = Agent(ScriptedModel([]), store=store, session_id="s", system="be brief")
    agent.enqueue(UserMessage(id="new", content="new"))

    await agent.aclose()

    assert [one.text for one in await store.read("s")] == ["old", "new"]


async def test_a_record_that_comes_after_the_end_of_its_session_is_dropped(monkeypatch):
    sinks, add = [], Taps.add
    monkeypatch.setattr(Taps, "add", lambda taps, tap: sinks.append(tap.sink) or add(taps, tap))
    bus = EventBus()
    agent = Agent(ScriptedModel(["done"]), bus=bus)
    await agent.run("go")

    del agent
    gc.collect()

    assert sinks[0](record("late")) is None
    bus.do(RUN_AFTER, RunResult(status="ok"))


async def test_of_a_store_that_goes_on_failing_no_more_records_wait_than_memory_keeps():
    store = Durable()
    agent = Agent(ScriptedModel([]), store=store, session_id="s")
    async with agent:
        agent.on(RUN_AFTER, lambda ctx: None)
        store.broken = True
        for turn in range(3):
            for n in range(600):
                result = RunResult(status="ok", turns=turn * 600 + n)
                agent.bus.do(RUN_AFTER, result, scope=agent.scope)
            await agent._main.flush()
        store.broken = False
        await agent._main.flush()

    kept = await store.records("s")
    assert kept == agent.ledger
    assert len(kept) == 1_000


async def test_a_store_that_fails_as_a_run_is_cancelled_leaves_the_answer_for_later(caplog):
    writing = asyncio.Event()

    class Slow(Durable):
        async def append(self, session_id, stored):
            await super().append(session_id, stored)
            if isinstance(stored.message, AssistantMessage) and stored.message.tool_calls:
                writing.set()
                await asyncio.sleep(0.01)
                self.broken = True

    store = Slow()
    asking = AssistantMessage(id="a", tool_calls=[ToolCall(id="1", name="nothing")])
    agent = Agent(ScriptedModel([asking, "done"]), store=store, session_id="s")

    run = asyncio.create_task(agent.run("go"))
    await writing.wait()
    run.cancel()
    await asyncio.wait({run})
    logged = [one.getMessage() for one in caplog.records]
    store.broken = False
    await agent.run("go on")

    assert run.cancelled()
    reason = "store 'disk': full"
    assert logged == [f"tool calls of a cancelled run have no answer yet: {reason}"]
    late = agent.messages[2]
    assert isinstance(late, ToolMessage)
    assert late.tool_response.error_type == "interrupted"
    assert await store.read("s") == tuple(agent.messages)


async def test_the_last_records_are_written_at_the_end():
    store = Durable()
    async with Agent(ScriptedModel([]), store=store, session_id="s") as agent:
        agent.on(MESSAGE_APPEND_AFTER, lambda ctx: None)
        await agent.append(UserMessage(id="u", content="hi"))
        assert await store.records("s") == ()

    assert len(agent.ledger) == 1
    assert await store.records("s") == agent.ledger


async def test_an_append_while_the_system_message_enters_is_refused():
    agent = Agent(ScriptedModel(["done"]), system="be brief")

    @agent.on(MESSAGE_APPEND_BEFORE, when=lambda ctx: ctx.value.role == "system")
    async def append(ctx):
        with pytest.raises(AppendError, match="waits for itself"):
            await agent.append(UserMessage(id="u", content="hi"))

    await asyncio.wait_for(agent.run("go"), 60)

    assert [one.text for one in agent.messages] == ["be brief", "go", "done"]


async def test_only_calls_of_a_former_process_are_answered_unasked():
    store = MemoryStore()
    asking = AssistantMessage(id="a", tool_calls=[ToolCall(id="1", name="nothing")])
    await store.append("s", AppendRequest(message=asking))
    agent = Agent(ScriptedModel([]), store=store, session_id="s")
    await agent.append(UserMessage(id="u", content="hi"))

    own = AssistantMessage(id="b", tool_calls=[ToolCall(id="2", name="nothing")])
    await agent.append(own)
    with pytest.raises(AppendError, match="1 tool calls have no answer yet"):
        await agent.append(UserMessage(id="v", content="hi"))
    await agent.append(ToolMessage(id="t", tool_call_id="2", tool_name="nothing", content="done"))

    assert [one.id for one in agent.messages if one.id in "aubt"] == ["a", "u", "b", "t"]
    assert len(agent.messages) == 5


async def test_a_direct_call_writes_its_records():
    store = Durable()
    agent = Agent(ScriptedModel([]), store=store, session_id="s")
    agent.on(MESSAGE_APPEND_AFTER, lambda ctx: None)

    await agent.call_tool("nothing")

    assert len(agent.ledger) == 2
    assert await store.records("s") == agent.ledger


async def test_results_that_enter_together_have_ids_of_their_own():
    @tool
    async def echo(n: int) -> str:
        """Return the number, at once."""
        return str(n)

    asked = AssistantMessage(
        id="m-1",
        tool_calls=tuple(
            [ToolCall(id=f"c-{n}", name="echo", arguments={"n": n}) for n in range(3)]
        ),
    )
    agent = Agent(ScriptedModel([asked, "done"]), tools=[echo], ids=lambda: "the same")

    await agent.run("go")

    assert len({one.id for one in agent.messages}) == len(agent.messages) == 6

import pytest

from toolbus import Agent, AgentComponent, AssistantMessage, EventBus, ToolCall
from toolbus.errors import ClosedError
from toolbus.events.catalogue import RUN_AFTER, RunResult
from toolbus.models.scripted import ScriptedModel
from toolbus.store.memory import MemoryStore


async def observe(ctx):
    pass


async def test_only_what_is_its_own_is_closed():
    bus, store = EventBus(), MemoryStore()
    guest, owner = Agent(ScriptedModel([]), bus=bus, store=store), Agent(ScriptedModel([]))

    for agent in (guest, owner):
        await agent.aclose()
        agent.bus.on(RUN_AFTER, observe)

    bus.do(RUN_AFTER, RunResult(status="ok"))
    await bus.drain()
    assert await store.sessions() == ()
    with pytest.raises(ClosedError, match="the bus is closed"):
        owner.bus.do(RUN_AFTER, RunResult(status="ok"))
    with pytest.raises(ClosedError, match="the memory store is closed"):
        await owner._config.store.sessions()


async def test_a_sub_agent_is_started_before_it_runs():
    installed = []

    class Counting(AgentComponent):
        async def install(self, agent):
            installed.append(agent)

    bus = EventBus()
    below = Agent(ScriptedModel(["found"]), components=[Counting()], bus=bus)
    call = ToolCall(id="down", name="worker", arguments={"prompt": "look"})
    model = ScriptedModel([AssistantMessage(id="a", tool_calls=[call]), "done"])
    above = Agent(model, tools=[below.as_tool("worker")], bus=bus)

    result = await above.run("go")

    assert installed == [below]
    assert result.messages[2].text == "found"

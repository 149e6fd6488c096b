import asyncio
import sys

from toolbus import Agent, UserMessage
from toolbus.events import MESSAGE_APPEND_BEFORE
from toolbus.models.scripted import ScriptedModel


async def test_appends_that_lead_to_appends_do_not_pile_up():
    agent, tasks = Agent(ScriptedModel([])), []
    generations = sys.getrecursionlimit() + 100

    async def next_one(before, number):
        await before
        await agent.append(UserMessage(id=str(number), content="hi"))

    @agent.on(MESSAGE_APPEND_BEFORE)
    async def go_on(ctx):
        if (number := int(ctx.value.id)) < generations:
            before = asyncio.Event()
            tasks.append((before, asyncio.create_task(next_one(before.wait(), number + 1))))

    await agent.append(UserMessage(id="0", content="hi"))
    for number in range(generations):
        before, task = tasks[number]
        before.set()
        await task

    assert len(agent.messages) == generations + 1

"""A program to be killed: an agent that works in a session on disk and says how far it is.

`work`: turns without end, and a line for each message that was appended.
`hang`: calls of the tools that are named, and a line when all have run or hang.
`below`: as `hang`, with the tools in a sub-agent.
`share`: short runs without end, each as soon as no other process runs in the session.
"""

import asyncio
import itertools
import os
import sys

from kill_steps import count_run, say
from toolbus import Agent, AssistantMessage, EventBus, ToolCall, tool
from toolbus.errors import SessionBusyError
from toolbus.events.catalogue import MESSAGE_APPEND_AFTER, TOOL_CALL_AFTER
from toolbus.models.scripted import ScriptedModel
from toolbus.store.store_factory import open_store


def text_of(place):
    """Return what stands at *place* of the session; some of it takes several pages."""
    return f"text {place} " * (2_000 if place % 5 == 0 else 3)


@tool
async def work(place: int) -> str:
    await asyncio.sleep(0)
    return text_of(place)


def turn(request):
    place = len(request.messages)
    calls = [
        ToolCall(id=f"c{at}", name="work", arguments={"place": at}) for at in (place + 1, place + 2)
    ]
    return AssistantMessage(id=f"turn-{place}", content=text_of(place), tool_calls=calls)


async def work_on(path):
    model = ScriptedModel(itertools.repeat(turn))
    agent = Agent(
        model,
        tools=[work],
        store=open_store(path),
        session_id="s",
        system="be brief",
        max_turns=1_000_000,
    )
    agent.on(MESSAGE_APPEND_AFTER, lambda ctx: say(ctx.value.id))
    await agent.run("go")


def short_turns():
    """Return what asks for two calls, then answers, with ids that no other process has."""
    for at in itertools.count():
        name = f"{os.getpid()}-{at}"
        calls = [
            ToolCall(id=f"{name}-{one}", name="work", arguments={"place": at}) for one in (1, 2)
        ]
        yield AssistantMessage(id=name, tool_calls=calls)
        yield AssistantMessage(id=f"{name}-done", content=text_of(at))


async def share(path):
    model = ScriptedModel(short_turns())
    agent = Agent(model, tools=[work], store=open_store(path), session_id="s")
    agent.on(MESSAGE_APPEND_AFTER, lambda ctx: say(ctx.value.id))
    while True:
        try:
            await agent.run("go")
        except SessionBusyError:
            await asyncio.sleep(0.001)


def counting_tools(path):
    """Return the tools "ends" and "hangs", which count their runs in the file *path*."""

    @tool
    async def ends() -> str:
        count_run(path, "ends")
        return "ended"

    @tool
    async def hangs() -> str:
        count_run(path, "hangs")
        say("hangs")
        await asyncio.Event().wait()
        return "never"

    return [ends, hangs]


def asking(*names):
    calls = [ToolCall(id=name, name=name) for name in names]
    return AssistantMessage(id="ask", content="let me see", tool_calls=calls)


async def hang(path, runs, *names, below=False):
    store, bus = open_store(path), EventBus()
    tools = counting_tools(runs)
    agent = Agent(
        ScriptedModel([asking(*names)]), tools=tools, store=store, bus=bus, session_id="s"
    )
    if below:
        call = ToolCall(id="down", name="worker", arguments={"prompt": "look"})
        model = ScriptedModel([AssistantMessage(id="delegate", tool_calls=[call])])
        worker = agent.as_tool("worker")
        agent = Agent(model, tools=[worker], store=store, bus=bus, session_id="s")
    bus.on(TOOL_CALL_AFTER, lambda ctx: say(ctx.value.requested.id))
    await agent.run("go")


if __name__ == "__main__":
    _, mode, *rest = sys.argv
    if mode == "work":
        asyncio.run(work_on(*rest))
    elif mode == "share":
        asyncio.run(share(*rest))
    else:
        asyncio.run(hang(*rest, below=mode == "below"))

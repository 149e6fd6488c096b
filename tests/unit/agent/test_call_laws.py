"""Each call has one answer and one telling, wherever a session is cut off: a table of laws."""

import asyncio
import os

import pytest

from toolbus import Agent, AssistantMessage, ToolCall, ToolMessage, tool
from toolbus.events.catalogue import (
    CATALOGUE,
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    RUN_ERROR,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOL_CALL_PERSIST_AFTER,
    TOOL_CALL_PERSIST_BEFORE,
    ObserveEvent,
)
from toolbus.models.scripted import ScriptedModel
from toolbus.store.memory import MemoryStore

POINTS = range(300) if os.environ.get("TOOLBUS_TESTS") == "long" else range(0, 80, 4)
ENTERING = (MESSAGE_APPEND_BEFORE, MESSAGE_PERSIST_BEFORE, TOOL_CALL_PERSIST_BEFORE)
# The one is of streams, the other of proxies.
SYNC = [e for e in CATALOGUE if e.name not in {"model:call:delta", "mcp:request:before"}]


@tool
async def wait(n: int) -> str:
    """Wait for *n* turns of the loop."""
    for _ in range(n):
        await asyncio.sleep(0)
    if n == 3:
        raise ValueError(n)
    return f"waited {n}"


def asks(*numbers):
    calls = [ToolCall(id=f"c{n}", name="wait", arguments={"n": n}) for n in numbers]
    return AssistantMessage(id=f"m{numbers}", tool_calls=calls)


class Session:
    """An agent, its store, and what was told of its calls."""

    def __init__(self, *answers):
        self.store, self.told = MemoryStore(), []
        model = ScriptedModel([*answers, *["done"] * 5])
        self.agent = Agent(model, tools=[wait], store=self.store, session_id="s", grace=0.05)
        self.agent.on(TOOL_CALL_AFTER, self.tell, priority=1000)

    def tell(self, ctx):
        self.told.append(ctx.value.requested.id)

    def check(self):
        """Raise unless each call has one answer and one telling, and memory is the store."""
        messages = tuple(self.agent.messages)
        asked = [call.id for one in messages for call in getattr(one, "tool_calls", ())]
        answered = [one.tool_call_id for one in messages if isinstance(one, ToolMessage)]
        assert sorted(answered) == sorted(asked)
        assert sorted(self.told) == sorted(asked)
        assert asyncio.run(self.store.read("s")) == messages


async def suspend(ctx):
    await asyncio.sleep(0)


async def stray(ctx):
    await asyncio.sleep(0)
    if isinstance(ctx.value, ToolMessage) and ctx.value.tool_call_id == "c2":
        raise asyncio.CancelledError


async def slow(ctx):
    for _ in range(3):
        await asyncio.sleep(0)


HOOKS = {
    "suspending": [(event, suspend, {}) for event in (*ENTERING, TOOL_CALL_PERSIST_AFTER)],
    "stray": [(MESSAGE_APPEND_BEFORE, stray, {}), (TOOL_CALL_BEFORE, suspend, {})],
    "recovering": [(TOOL_CALL_ERROR, slow, {}), (RUN_ERROR, slow, {})],
}


@pytest.mark.parametrize("hooks", HOOKS)
@pytest.mark.parametrize("calls", [(2,), (1, 2, 3)], ids=len)
def test_all_tasks_cancelled_at_once(hooks, calls):
    for point in POINTS:
        session, left = Session(asks(*calls)), []
        for event, hook, options in HOOKS[hooks]:
            session.agent.on(event, hook, **options)

        async def main(session=session, left=left, point=point):
            left.append(asyncio.ensure_future(session.agent.run("go")))
            for _ in range(point):
                await asyncio.sleep(0)

        asyncio.run(main())
        session.check()
        asyncio.run(session.agent.run("on"))
        session.check()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("event", SYNC, ids=lambda event: event.name)
def test_an_exit_from_a_sync_handler(event, error):
    failing = event.name in {"model:call:error", "run:error"}
    session = Session(asks(1, 3), *([ValueError("no")] if failing else ()))
    loop, raised = asyncio.new_event_loop(), []

    @session.agent.on(event, **({} if isinstance(event, ObserveEvent) else {"on_error": "open"}))
    def leave(ctx):
        if not raised:
            raised.append(ctx.event.name)
            raise error

    with pytest.raises(error):
        loop.run_until_complete(session.agent.run("go"))
    result = loop.run_until_complete(session.agent.run("on"))
    loop.run_until_complete(asyncio.sleep(0))
    tasks = asyncio.all_tasks(loop)
    loop.close()

    assert result.status == "ok"
    assert tasks == set()
    session.check()

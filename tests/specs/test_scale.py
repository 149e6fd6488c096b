"""The scenarios of `specs/scale.md`."""

import asyncio

import pytest

from toolbus import Agent, AssistantMessage, ToolCall, tool
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.models.scripted import ScriptedModel
from toolbus.store import PostgresStore


@tool
def read(path: str) -> str:
    return "x" * 800


async def run_session(store, name):
    calls = [ToolCall(id=f"{name}-{n}", name="read", arguments={"path": "/a"}) for n in range(10)]
    turns = [AssistantMessage(content="let me look", tool_calls=[call]) for call in calls]
    model = ScriptedModel([*turns, AssistantMessage(content="done")])
    agent = Agent(model, tools=[read], store=store, session_id=name)
    agent.guard(TOOL_CALL_BEFORE, lambda ctx: None, name="looks")
    await agent.run("go")


@pytest.mark.full
async def test_a_run_stores_the_expected_rows(postgres, database):
    async with PostgresStore(database) as store:
        await run_session(store, "s")
        commits = store.commits

    tables = ("sessions", "messages", "calls")
    name = database.rpartition("/")[2].partition("?")[0]
    counts = [postgres.execute(f"SELECT count(*) FROM toolbus.{one}", name) for one in tables]
    assert counts == [[(1,)], [(22,)], [(20,)]]
    assert commits <= 24


@pytest.mark.full
async def test_agents_of_a_process_share_commits(database):
    async with PostgresStore(database) as store:
        await asyncio.gather(*[run_session(store, f"s{number}") for number in range(64)])

        assert store.commits < 64 * 24 / 4

"""The history of a call in a store, as `toolbus explain` shows it."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from toolbus import Agent, ToolCall, ToolResponse, ToolSpec
from toolbus.bridges.host import BridgeHost
from toolbus.bus.bus import EventBus
from toolbus.cli import main
from toolbus.events import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE
from toolbus.models import ScriptedModel
from toolbus.store import SqliteStore

SPEC = ToolSpec(name="read")


async def call(path, *, repeats=1):
    """Store calls with one id that take longer than a call waits for its response."""
    bus = EventBus()

    @bus.on(TOOL_CALL_BEFORE)
    def rewrite(ctx):
        return ctx.value.with_arguments({"number": ctx.value.arguments["number"] + 10})

    async def run(arguments):
        await asyncio.sleep(0.05)
        return ToolResponse.from_text(str(arguments["number"]))

    async with SqliteStore(path) as store:
        host = BridgeHost("langchain", bus=bus, store=store)
        for number in range(repeats):
            requested = ToolCall(id="c1", name="read", arguments={"number": number})
            await host.session("t").call(requested, SPEC, run)
        await host.aclose()


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_slow_call_shows_its_own_handlers(repeats, tmp_path, capsys):
    asyncio.run(call(tmp_path / "log.db", repeats=repeats))

    assert main(["explain", str(tmp_path / "log.db"), "--call", "c1"]) == 0

    text = capsys.readouterr().out
    assert text.count("tool:call:before: changed") == 1
    assert f'"number":{repeats + 9}' in text


@pytest.mark.parametrize("body", ["{", '"\\ud800"', "NaN", ""])
def test_a_damaged_original_hides_no_handler(body, tmp_path, capsys):
    path = tmp_path / "s.db"
    agent = Agent(ScriptedModel(["hi"]), store=path, session_id="s", keep_originals=True)

    @agent.on(MESSAGE_APPEND_BEFORE, name="shouts")
    def shout(ctx):
        return ctx.value.map_text(str.upper)

    asyncio.run(agent.run("go"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE originals SET body = ?", [body])
        ((name,),) = connection.execute("SELECT id FROM messages WHERE seq = 1")

    assert main(["explain", str(path), name]) == 0

    assert "shouts" in capsys.readouterr().out

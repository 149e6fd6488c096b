"""The scenarios of `specs/session_writer.md`."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import toolbus
from toolbus import Agent, AssistantMessage, ToolCall, ToolMessage, UserMessage, tool
from toolbus.errors import SessionBusyError
from toolbus.events import TOOL_CALL_AFTER
from toolbus.models.scripted import ScriptedModel
from toolbus.store import AppendRequest
from toolbus.store.memory import MemoryStore
from toolbus.store.sqlite import SqliteStore

PROGRAM = Path(__file__).parents[1] / "programs" / "kill_agent.py"
MANY = 300 if os.environ.get("TOOLBUS_TESTS") == "long" else 20
"""How many kills, and how many ends of a program, are tried."""

OTHERS = (
    "another agent uses the session, or ended without releasing it; wait for its end, "
    "or 30 seconds, or give another `session_id`"
)


def asking(name, *calls, tool="slow") -> AssistantMessage:
    return AssistantMessage(id=name, tool_calls=[ToolCall(id=one, name=tool) for one in calls])


def texts(messages) -> list[str]:
    return [one.text for one in messages]


def check_pairs(messages) -> list[str]:
    """Return the calls without an answer; each other one has a single one, next to its call."""
    assert len({one.id for one in messages}) == len(messages)
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            waiting.remove(message.tool_call_id)
        else:
            assert not waiting, "a message stands between a call and its answer"
            waiting += [call.id for call in getattr(message, "tool_calls", ())]
    return waiting


class Slow:
    """A tool that runs until it may end."""

    def __init__(self) -> None:
        self.running, self.may_end = asyncio.Event(), asyncio.Event()

        @tool
        async def slow() -> str:
            self.running.set()
            await self.may_end.wait()
            return "done at last"

        self.tool = slow


class Ticking:
    """A clock for leases that stands still unless it is told otherwise."""

    now = 1_000_000_000

    def __call__(self) -> int:
        return self.now


@asynccontextmanager
async def stores(tmp_path):
    """Give a store of each kind, and the clock of both."""
    clock = Ticking()
    async with SqliteStore(tmp_path / "store.db", clock=clock) as on_disk:
        yield (MemoryStore(clock=clock), on_disk), clock


def agent_of(store, *answers, **options) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(answers)
    return Agent(model, store=store, session_id="s", **options), model


async def run_until_slow(store, *answers) -> tuple[Agent, Slow, asyncio.Task]:
    """Start a run that is amid its tool."""
    slow = Slow()
    agent, _ = agent_of(store, asking("a", "c1", "c2"), *answers, tools=[slow.tool])
    run = asyncio.create_task(agent.run("go"))
    await slow.running.wait()
    return agent, slow, run


def start(*arguments: object) -> subprocess.Popen:
    """Start the program that is to be killed."""
    source = str(Path(toolbus.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": source},
        stdout=subprocess.PIPE,
        text=True,
    )


def kill(child: subprocess.Popen) -> list[str]:
    """Kill the program; return the lines that it said and nobody read yet."""
    child.send_signal(signal.SIGKILL)
    return [line.strip() for line in child.stdout if line.endswith("\n")]


async def test_the_second_writer_is_refused_early(tmp_path):
    async with stores(tmp_path) as (found, _):
        for store in found:
            first, slow, run = await run_until_slow(store, "paid")
            second, model = agent_of(store, "me too", tools=[slow.tool])

            refusals = []
            for work in (
                second.run("and now?"),
                second.append(UserMessage(id="hi", content="hi")),
                second.call_tool("slow"),
            ):
                with pytest.raises(SessionBusyError) as caught:
                    await work
                refusals.append(str(caught.value))
            slow.may_end.set()
            result = await run

            assert refusals == [f"session 's': {OTHERS}"] * 3
            assert model.requests == []
            assert result.text == "paid"
            assert texts(first.messages) == ["go", "", "done at last", "done at last", "paid"]
            assert await store.read("s") == tuple(first.messages)


async def test_the_newer_agent_takes_an_idle_session(tmp_path):
    async with stores(tmp_path) as (found, _):
        for store in found:
            first, model = agent_of(store, "one", "three", system="be brief")
            second, other = agent_of(store, "two", system="be brief")

            await first.run("1")
            await second.run("2")
            await first.run("3")

            assert texts(other.requests[0].messages) == ["be brief", "1", "one", "2"]
            assert texts(model.requests[1].messages) == ["be brief", "1", "one", "2", "two", "3"]
            assert texts(await store.read("s"))[1:] == ["1", "one", "2", "two", "3", "three"]
            assert await store.read("s") == tuple(first.messages)


async def test_an_overtaken_agent_writes_nothing(tmp_path, monkeypatch):
    async with stores(tmp_path) as (found, clock):
        monkeypatch.setattr(time, "time", lambda: clock.now / 1e9)
        for store in found:
            told = []
            first, slow, run = await run_until_slow(store, "after all")
            second, _ = agent_of(store, "taken over", tools=[slow.tool])
            for agent in (first, second):
                agent.on(TOOL_CALL_AFTER, lambda ctx, told=told: told.append(ctx.value))

            clock.now += 60_000_000_000
            await second.run("and now?")
            stood = await store.read("s")
            slow.may_end.set()
            with pytest.raises(SessionBusyError) as caught:
                await run

            assert "another agent took over the session, and nothing was written" in str(
                caught.value
            )
            assert await store.read("s") == stood
            assert check_pairs(stood) == []
            assert [(one.status, one.again) for one in told] == [
                *[("interrupted", True)] * 2,
                *[("ok", True)] * 2,
            ]
            assert texts(stood)[4:] == ["and now?", "taken over"]
            await first.run("on")
            assert texts(first.messages)[4:] == ["and now?", "taken over", "on", "after all"]
            assert await store.read("s") == tuple(first.messages)


async def test_a_foreign_message_is_noticed(tmp_path):
    async with stores(tmp_path) as (found, _):
        for store in found:
            agent, slow, run = await run_until_slow(store, "well")
            message = UserMessage(id="stranger", content="let me in")

            await store.append("s", AppendRequest(message=message))
            slow.may_end.set()
            with pytest.raises(SessionBusyError, match="nothing was written"):
                await run

            assert (await store.read("s"))[-1] == message
            await agent.run("on")
            assert message in agent.messages
            assert await store.read("s") == tuple(agent.messages)


async def test_appends_of_one_agent_share_the_lease(tmp_path):
    async with stores(tmp_path) as (found, _):
        for store in found:
            agent, _ = agent_of(store, "done")
            notes = [UserMessage(id=name, content=name) for name in ("n1", "n2", "n3")]

            await asyncio.gather(*[agent.append(one) for one in notes], agent.run("go"))

            assert sorted(texts(agent.messages)) == ["done", "go", "n1", "n2", "n3"]
            assert await store.read("s") == tuple(agent.messages)


async def test_a_run_in_another_process_is_respected(tmp_path):
    path = tmp_path / "store.db"
    with start("hang", path, tmp_path / "runs", "hangs") as child:
        assert child.stdout.readline() == "hangs\n"
        async with SqliteStore(path) as store:
            before = await store.read("s")
            agent, model = agent_of(store, "me too")

            with pytest.raises(SessionBusyError, match="another agent uses the session"):
                await agent.run("and now?")

            assert model.requests == []
            assert await store.read("s") == before == tuple(agent.messages)
        kill(child)


async def test_a_killed_process_releases_the_session(tmp_path):
    path = tmp_path / "store.db"
    with start("hang", path, tmp_path / "runs", "hangs") as child:
        assert child.stdout.readline() == "hangs\n"
        kill(child)
        async with SqliteStore(path) as store:
            agent, _ = agent_of(store, "here I am")

            result = await agent.run("and now?")

            assert result.text == "here I am"
            assert check_pairs(agent.messages) == []
            assert agent.messages[2].tool_response.error_type == "interrupted"


@pytest.mark.full
async def test_random_kills_lose_no_acknowledged_message(tmp_path):
    chance, told = random.Random(4), []

    for turn in range(MANY // 2):
        # A file for a few turns: opening what a killed process has left counts as well.
        path = tmp_path / f"{turn // 5}.db"
        told = [] if turn % 5 == 0 else told
        with start("share", path) as one, start("share", path) as other:
            for child in (one, other):
                told += [child.stdout.readline().strip() for _ in range(chance.randrange(40))]
                told += kill(child)
        async with SqliteStore(path) as store:
            messages = await store.read("s")

        assert set(told) <= {one.id for one in messages}
        assert len(told) == len(set(told))
        check_pairs(messages)


@tool
async def quick(text: str) -> str:
    await asyncio.sleep(0)
    return f"<{text}>"


@tool(name="blocking")
def blocking() -> str:
    return "in a thread"


class Waiting(MemoryStore):
    """A store that waits before and after it writes."""

    async def append(self, session_id, stored) -> None:
        await asyncio.sleep(0)
        await super().append(session_id, stored)
        await asyncio.sleep(0)


def working(store, *answers) -> Agent:
    calls = [ToolCall(id=one, name="quick", arguments={"text": one}) for one in "12"]
    first = AssistantMessage(id="a", tool_calls=[*calls, ToolCall(id="3", name="blocking")])
    second = asking("b", "4", "5", tool="blocking")
    agent, _ = agent_of(store, first, second, *answers, tools=[quick, blocking], system="be brief")
    return agent


def end_amid_a_run(agent, turns) -> bool:
    """Run a program that ends after so many turns, while a run goes on; return whether it did."""

    async def main() -> bool:
        run = asyncio.create_task(agent.run("go"))
        for _ in range(turns):
            await asyncio.sleep(0)
        return not run.done()

    return asyncio.run(main())  # It cancels all tasks that are left, at once.


def count_turns(agent) -> int:
    """Return how many turns of the loop a whole run takes, here and now."""

    async def main() -> int:
        run, turns = asyncio.create_task(agent.run("go")), 0
        while not run.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    return asyncio.run(main())


async def look(store) -> tuple:
    """Resume the session; return what stood there before, and what then."""
    before = await store.read("s")
    agent, _ = agent_of(store, "resumed", tools=[quick, blocking])
    await agent.run("and on")
    return before, await store.read("s"), tuple(agent.messages)


@pytest.mark.parametrize("kind", [MemoryStore, Waiting, SqliteStore])
def test_cancelling_all_tasks_keeps_the_session_consistent(tmp_path, kind):
    def new_store(name):
        return SqliteStore(tmp_path / f"{name}.db") if kind is SqliteStore else kind()

    # Most turns are spent on waiting for threads: how many, the load of the machine says.
    whole = new_store("whole")
    length, cut = count_turns(working(whole, "done")), 0
    asyncio.run(whole.close())

    for at in range(MANY):
        store = new_store(at)
        turns = 1 + at * length // MANY
        agent = working(store, "done")

        cut += end_amid_a_run(agent, turns)
        remembered = tuple(agent.messages)
        before, after, resumed = asyncio.run(look(store))
        asyncio.run(store.close())

        assert before == remembered
        check_pairs(before)
        assert check_pairs(after) == []
        assert after == resumed

    assert cut > 1


@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore])
async def test_a_cancelled_write_is_made_once(tmp_path, kind):
    writing, done = asyncio.Event(), asyncio.Event()

    class Disk(kind):
        async def append(self, session_id, stored) -> None:
            if isinstance(stored.message, ToolMessage):
                writing.set()
                await done.wait()
            await super().append(session_id, stored)

    store = Disk(tmp_path / "store.db") if kind is SqliteStore else Disk()
    agent = working(store, "done")
    run = asyncio.create_task(agent.run("go"))
    await writing.wait()

    for _ in range(2):
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)
    done.set()
    await asyncio.wait({run})

    assert run.cancelled()
    assert check_pairs(agent.messages) == []
    assert agent.messages[3].text == "<1>"
    assert await store.read("s") == tuple(agent.messages)
    await store.close()

"""The scenarios of `specs/state.md`."""

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from textwrap import dedent

import pytest

import toolbus
from toolbus import (
    Agent,
    AgentComponent,
    AssistantMessage,
    Deny,
    EventBus,
    Scope,
    ToolCall,
    ToolMessage,
    ToolResponse,
    ToolRunner,
    Toolset,
    UserMessage,
    guard,
    on,
    tool,
)
from toolbus.components import State
from toolbus.components.participants import ComponentHost
from toolbus.errors import (
    DecodeError,
    FreezeError,
    LawBroken,
    RegistrationError,
    SessionBusyError,
    StoreError,
)
from toolbus.events import TOOL_CALL_AFTER, TOOL_CALL_BEFORE
from toolbus.formats.native import EndLine, HeaderLine, MessageLine, SessionLine, encode_line
from toolbus.mcp.proxy import Proxy
from toolbus.models.scripted import ScriptedModel
from toolbus.store import AppendRequest, Original
from toolbus.store.memory import MemoryStore
from toolbus.store.sqlite import SqliteStore
from toolbus.testing.checks import check_guard

PROGRAM = Path(__file__).parents[1] / "unit" / "count_states.py"
FIXTURES = Path(__file__).parents[1] / "fixtures"
SECRET = "sk-canary-4242"


def one_more(count):
    return (count or 0) + 1


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store.db")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


class Keeper(AgentComponent):
    """Keeps whatever a test wants."""


class Limit(AgentComponent):
    """Allows so many calls in a session."""

    def __init__(self, most=2):
        super().__init__()
        self._most = most

    @guard(TOOL_CALL_BEFORE)
    async def limit(self, ctx):
        count = await self.state(ctx.scope).update(one_more)
        return Deny("too many calls") if count > self._most else None


@tool
async def echo(text: str = "") -> str:
    return f"<{text}>"


def asking(*calls, name="echo") -> AssistantMessage:
    return AssistantMessage(
        id="".join(calls), tool_calls=[ToolCall(id=one, name=name) for one in calls]
    )


@asynccontextmanager
async def agent_with(*components, store=None, answers=("done",), tools=(echo,), **options):
    store = MemoryStore() if store is None else store
    options = {"session_id": "s"} | options
    model = ScriptedModel(answers)
    async with Agent(model, tools=tools, components=components, store=store, **options) as agent:
        yield agent


async def test_a_stored_value_is_read_again(store):
    keeper = Keeper()
    async with agent_with(keeper, store=store) as agent:
        state = agent.state("mine")
        before = await state.read()
        updated = await state.update(lambda old: {"who": ["me", 1, 1.5, None, "ü"]})
        again = await agent.state("mine").read()
        await keeper.state().update(lambda old: True)

        assert before is None
        assert updated == again == {"who": ("me", 1, 1.5, None, "ü")}
        with pytest.raises(TypeError, match="cannot be changed"):
            again["who"] = 1
        assert await agent.state("Keeper").read() is True


async def test_none_deletes_the_value(store):
    state, seen = State(store, "s", "mine"), []
    await state.update(lambda old: 1)

    deleted = await state.update(lambda old: None)
    read = await state.read()
    await state.update(lambda old: seen.append(old) or 2)

    assert (deleted, read, seen) == (None, None, [None])
    assert await state.read() == 2


async def test_a_function_that_raises_changes_nothing(store):
    state = State(store, "s", "mine")
    await state.update(lambda old: {"count": 1})

    def in_place(old):
        old["count"] = 2
        return old

    with pytest.raises(ZeroDivisionError):
        await state.update(lambda old: 1 / 0)
    with pytest.raises(TypeError, match="take a private copy"):
        await state.update(in_place)

    assert await state.read() == {"count": 1}


async def test_values_other_than_json_are_refused(store):
    state = State(store, "s", "mine")

    async def later(old):
        return old

    for change, error, text in (
        (
            lambda old: {"a": [1, float("nan")]},
            FreezeError,
            r"state 'mine': nan .* at `\$\.a\[1\]`",
        ),
        (lambda old: {"a": {1, 2}}, FreezeError, r"state 'mine': expected .*`set` - at `\$\.a`"),
        (
            lambda old: "x" * 2_000_000,
            FreezeError,
            r"2,000,002 bytes exceed the limit of .* in a file",
        ),
        (later, RegistrationError, "state 'mine': expected a sync function"),
        (lambda old: later(old), RegistrationError, "a sync function"),  # noqa: PLW0108 - it hides it
        (5, RegistrationError, "expected a sync function"),
    ):
        with pytest.raises(error, match=text):
            await state.update(change)
        assert await state.read() is None


@pytest.mark.parametrize("name", ["", 5, "\ud800", "x" * 201])
async def test_an_invalid_name_is_refused(name):
    async with agent_with() as agent:
        with pytest.raises(RegistrationError, match=r"state .*: "):
            agent.state(name)


async def test_a_component_must_be_installed():
    with pytest.raises(RegistrationError, match="component 'Keeper': it is not installed"):
        Keeper().state()


async def test_sessions_do_not_see_other_sessions(store):
    counts = []
    for session, times in (("a", 1), ("b", 3)):
        limit = Limit()
        async with agent_with(limit, store=store, session_id=session) as agent:
            for _ in range(times):
                await agent.call_tool("echo")
            counts.append(await limit.state().read())

    assert counts == [1, 3]


async def test_two_components_of_one_class_are_separate(path):
    counts = []
    for _ in range(2):
        pair = Keeper(), Keeper()
        async with SqliteStore(path) as store, agent_with(*pair, store=store):
            for keeper, times in zip(pair, (1, 2), strict=True):
                for _ in range(times):
                    await keeper.state().update(one_more)
            counts.append([await keeper.state().read() for keeper in pair])

    assert counts == [[1, 2], [2, 4]]


def count_name(name, old):
    return {name: one_more((old or {}).get(name))}


class Counts(AgentComponent):
    """Counts each call in three ways."""

    @guard(TOOL_CALL_BEFORE)
    async def count(self, ctx):
        self.sessions = {*getattr(self, "sessions", ()), ctx.scope}
        for name, state in (
            ("own", self.host.state("own", ctx.scope)),
            ("shared", self.host.state("shared", ctx.scope, shared=True)),
            ("all", self.host.state("all")),
        ):
            await state.update(partial(count_name, name))


async def test_a_sub_agent_has_its_own_state(store):
    bus, counts = EventBus(), Counts()
    below = Agent(ScriptedModel([asking("c1", "c2"), "done"]), tools=[echo], bus=bus, store=store)
    call = ToolCall(id="d", name="helper", arguments={"prompt": "go"})
    answers = [AssistantMessage(id="a", tool_calls=[call]), "done"]
    async with agent_with(
        counts, store=store, answers=answers, tools=[below.as_tool("helper")], bus=bus
    ) as agent:
        await agent.run("go")
        scopes = {scope.session_id: scope for scope in counts.sessions}
        own = {name: await agent.state("own", scope).read() for name, scope in scopes.items()}
        shared = await agent.state("shared").read(), await agent.state("all").read()
    await below.aclose()

    assert own.pop("s") == {"own": 1}
    assert list(own.values()) == [{"own": 2}]
    assert shared == ({"shared": 3}, {"all": 3})


SERVER = """
import json, sys
for line in sys.stdin:
    frame = json.loads(line)
    if "id" in frame:
        result = {"content": [{"type": "text", "text": "ran"}]}
        if frame["method"] == "tools/list":
            result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        answer = {"jsonrpc": "2.0", "id": frame["id"], "result": result}
        print(json.dumps(answer), flush=True)
"""
LIMIT = """
from toolbus import Agent, AgentComponent, Deny, guard, tool
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.models.scripted import ScriptedModel
from toolbus.store.sqlite import SqliteStore

class Limit(AgentComponent):
    @guard(TOOL_CALL_BEFORE)
    async def limit(self, ctx):
        count = await self.state(ctx.scope).update(lambda count: (count or 0) + 1)
        return Deny("too many calls") if count > 2 else None
"""


def test_a_proxy_keeps_sessions_apart(command, environment, tmp_path):
    here, answers = tmp_path / "here", []
    (here / "server.py").write_text(SERVER)
    (here / "limit.py").write_text(LIMIT)
    proxy = [sys.executable, "-m", "toolbus", "proxy", "--with", "limit.py:Limit"]
    frames = [
        {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "echo"}}
        for number in range(3)
    ]
    for _ in range(2):
        with subprocess.Popen(
            [*proxy, "--", sys.executable, "server.py"],
            cwd=here,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as client:
            for frame in frames:
                client.stdin.write(json.dumps(frame) + "\n")
                client.stdin.flush()
                answers.append(json.loads(client.stdout.readline())["result"])
            client.stdin.close()

    texts = [answer["content"][0]["text"] for answer in answers]
    assert texts == ["ran", "ran", "too many calls"] * 2


async def test_a_host_of_many_sessions_needs_a_scope():
    keeper = Keeper()
    async with Proxy([keeper]) as proxy:
        with pytest.raises(RegistrationError, match=r"give a scope: `state\(…, ctx.scope"):
            keeper.state()
        for session in "ab":
            await proxy.state("x", Scope(session_id=session)).update(lambda old, own=session: own)

        assert await proxy.state("x", Scope(session_id="a")).read() == "a"


async def test_a_guard_counts_before_the_call(store):
    limit, answers = Limit(3), [asking(*"0123456789"), "done"]
    async with agent_with(limit, store=store, answers=answers) as agent:
        await agent.run("go")
        results = [one.tool_response for one in agent.messages if isinstance(one, ToolMessage)]

        assert await limit.state().read() == 10
        assert sorted(one.text for one in results) == ["<>"] * 3 + ["too many calls"] * 7


async def test_fifty_parallel_calls_are_counted(store):
    @tool(name="echo")
    async def count() -> str:
        return str(await agent.state("count").update(one_more))

    answers = [asking(*map(str, range(50))), "done"]
    async with agent_with(store=store, answers=answers, tools=[count]) as agent:
        await agent.run("go")
        told = [one.text for one in agent.messages if isinstance(one, ToolMessage)]

        assert await agent.state("count").read() == 50
        assert sorted(map(int, told)) == list(range(1, 51))


def counting(path, *arguments):
    environment = os.environ | {"PYTHONPATH": str(Path(toolbus.__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, PROGRAM, path, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def go(child):
    child.stdin.write("\n")
    child.stdin.flush()


async def count_in(path):
    async with SqliteStore(path) as store:
        return await State(store, "s", "count").read()


async def test_four_processes_lose_no_count(path):
    children = [counting(path, "count", "100") for _ in range(4)]
    for child in children:
        assert child.stdout.readline() == "ready\n"

    for child in children:
        go(child)
    ends = [(child.communicate(), child.returncode) for child in children]

    assert [code for _, code in ends] == [0] * 4
    assert await count_in(path) == 400


async def test_a_killed_process_loses_nothing(path):
    with counting(path, "hang", "3") as child:
        assert child.stdout.readline() == "ready\n"
        go(child)
        assert child.stdout.readline() == "hangs\n"
        child.send_signal(signal.SIGKILL)
    before = await count_in(path)

    async with SqliteStore(path) as store:
        after = await State(store, "s", "count").update(one_more)

    assert (before, after) == (3, 4)


async def test_an_overtaken_update_still_counts(store):
    running, may_end = asyncio.Event(), asyncio.Event()

    @tool(name="echo")
    async def slow() -> str:
        running.set()
        await may_end.wait()
        return str(await agent.state("count").update(one_more))

    answers = [asking("c"), "done"]
    async with agent_with(store=store, answers=answers, tools=[slow]) as agent:
        run = asyncio.create_task(agent.run("go"))
        await running.wait()
        await store.append("s", AppendRequest(message=UserMessage(id="x", content="a stranger's")))
        may_end.set()
        with pytest.raises(SessionBusyError):
            await run

        assert await agent.state("count").read() == 1


async def test_a_resumed_session_goes_on(path):
    refused = []
    for _ in range(3):
        async with SqliteStore(path) as store, agent_with(Limit(), store=store) as agent:
            refused.append((await agent.call_tool("echo")).status)

    assert refused == ["ok", "ok", "denied"]


def recording(here, session):
    calls = [ToolCall(id=f"{session}{number}", name="echo") for number in range(3)]
    messages = [UserMessage(id=session, content="go")]
    for call in calls:
        answer = ToolResponse.from_text("ran")
        facts = {"tool_call_id": call.id, "tool_name": "echo", "tool_response": answer}
        messages.append(AssistantMessage(id=f"asks {call.id}", tool_calls=[call]))
        messages.append(ToolMessage(id=f"answers {call.id}", **facts))
    lines = [HeaderLine(), SessionLine(id=session)]
    lines += [MessageLine(message=one) for one in messages]
    lines.append(EndLine(messages=len(messages), records=0))
    (here / f"{session}.jsonl").write_bytes(b"".join(map(encode_line, lines)))
    return f"{session}.jsonl"


AGENT = """
agent = Agent(
    ScriptedModel([]), components=[Limit()], store=SqliteStore("store.db"), session_id="a"
)
"""


async def test_a_replay_begins_with_empty_states(command, tmp_path):
    here = tmp_path / "here"
    (here / "agent.py").write_text(LIMIT + dedent(AGENT))
    async with SqliteStore(here / "store.db") as store, agent_with(Limit(), store=store) as agent:
        for _ in range(2):
            await agent.state("Limit", Scope(session_id="a")).update(one_more)
    names = [recording(here, "a"), recording(here, "b")]

    done = command("replay", *names, "--with", "agent.py", "--json")

    found = [one for one in json.loads(done.stdout)["findings"] if one["role"] == "call"]
    assert [(one["session"], one["subject"], one["outcome"]) for one in found] == [
        ("a", "a2", "denied"),
        ("b", "b2", "denied"),
    ]
    async with SqliteStore(here / "store.db") as store:
        assert await State(store, "a", "Limit").read() == 2
        assert await store.read_state("b", "Limit") is None


class CountsOnItself(AgentComponent):
    """Does as `Limit` does, and as nobody should."""

    count = 0

    @guard(TOOL_CALL_BEFORE)
    def limit(self, ctx):
        self.count += 1
        return Deny("too many calls") if self.count > 3 else None


def test_a_check_begins_with_empty_states():
    # No call is the fourth of a session, so it lets all pass.
    check_guard(Limit(3), without=["is-reached"])

    with pytest.raises(LawBroken) as caught:
        check_guard(CountsOnItself())
    assert caught.value.law == "repeatable"


async def test_a_runner_without_an_agent_has_states():
    keeper, bus, toolset = Counter(), EventBus(), Toolset([echo])
    host = ComponentHost(bus)
    keeper.setup(host)
    runner = ToolRunner(bus, toolset, Scope(agent_id="agent", session_id="run"))

    for _ in range(2):
        await runner.call("echo", {"text": "x"})
    await bus.drain()

    assert await host.state("Counter", Scope(session_id="run")).read() == 2


class Counter(AgentComponent):
    """Counts what has ended."""

    @on(TOOL_CALL_AFTER)
    async def count(self, ctx):
        await self.state(ctx.scope).update(one_more)


async def make_store(path, *states, session="s"):
    """Make a store with a message, an original and *states* in a session."""
    async with SqliteStore(path) as store:
        body = json.dumps(SECRET).encode()
        original = Original(digest="d", body=body)
        stored = AppendRequest(message=UserMessage(id="m", content="hello"), originals=[original])
        await store.append(session, stored)
        for name in states:
            await State(store, session, name).update(lambda old: {"secret": SECRET})


def as_version_4(path):
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DROP TABLE states")
        file.execute("PRAGMA user_version = 4")


def as_version_5(path):
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DROP INDEX states_by_name")
        file.execute("PRAGMA user_version = 5")


@pytest.mark.parametrize("name", ["store-0.1.0.db", "version-4.db", "version-5.db"])
async def test_files_of_earlier_versions_are_upgraded(tmp_path, name, command):
    path, session = tmp_path / "here" / name, "plain"
    if "0.1.0" in name:
        shutil.copyfile(FIXTURES / name, path)
    else:
        await make_store(path, session=session)
        (as_version_4 if "4" in name else as_version_5)(path)
    before = path.read_bytes()

    async with SqliteStore(path, read_only=True) as store:
        messages = await store.read(session)
        assert await store.read_state(session, "x") is None
    checked = command("check", path)
    unchanged = path.read_bytes()
    async with SqliteStore(path) as store:
        await State(store, session, "x").update(lambda old: 1)
    async with SqliteStore(path) as store:
        upgraded = await store.read(session), await State(store, session, "x").read()

    assert messages
    assert unchanged == before
    assert upgraded == (messages, 1)
    assert [checked.returncode, command("check", path).returncode] == [0, 0]


def damage(path, name="one"):
    """Change a letter in the body of a state."""
    query = "UPDATE states SET body = replace(body, 'canary', 'carary') WHERE name = ?"
    with closing(sqlite3.connect(path)) as file, file:
        assert file.execute(query, (name,)).rowcount == 1


async def test_check_reports_states(path, command):
    await make_store(path, "one", "two")

    whole, facts = command("check", path), json.loads(command("check", path, "--json").stdout)
    damage(path)
    damaged = command("check", path)

    assert "2 states" in whole.stdout
    assert [one["states"] for one in facts["sessions"]] == [2]
    assert damaged.returncode == 1
    assert "state 'one' of session 's' cannot be read: it is damaged" in damaged.stdout
    assert "ary-4242" not in whole.stdout + damaged.stdout


async def test_a_damaged_state_is_refused(path):
    await make_store(path, "one")
    damage(path)

    async with SqliteStore(path) as store:
        state = State(store, "s", "one")
        for attempt in (state.read(), state.update(lambda old: 1)):
            with pytest.raises(StoreError, match="state 'one' of session 's' is damaged") as caught:
                await attempt
            assert isinstance(caught.value.__cause__, DecodeError)
        assert await store.forget_states("s") == 1
        assert await state.update(lambda old: old or 5) == 5


async def test_recovery_copies_states(path, tmp_path, command):
    await make_store(path, "one", "two")
    damage(path, "two")
    new = tmp_path / "new.db"

    done = command("check", path, "--recover", new)

    assert done.returncode == 1
    async with SqliteStore(new) as store:
        assert await State(store, "s", "one").read() == {"secret": SECRET}
        assert await State(store, "s", "two").read() is None
    assert command("check", new).returncode == 0


async def test_other_users_cannot_read_states(path, command):
    await make_store(path, "one")

    commands = (
        ("show", "s"),
        ("show", "s", "--json"),
        ("sessions", "--json"),
        ("check",),
        ("export",),
    )
    told = [command(verb, path, *words) for verb, *words in commands]

    assert all(one.returncode == 0 for one in told)
    assert SECRET not in "".join([one.stdout + one.stderr for one in told])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_forget_deletes_states_on_request(path, command):
    await make_store(path, "one")

    first = command("forget", path, "s")
    async with SqliteStore(path) as store:
        before = await State(store, "s", "one").read()
    second = command("forget", path, "s", "--state")
    third = json.loads(command("forget", path, "s", "--state", "--json").stdout)

    assert before == {"secret": SECRET}
    assert "1 original of session s deleted" in first.stdout
    assert "1 state of session s deleted; its messages and records stay" in second.stdout
    assert third == {"session": "s", "forgotten": 0}
    files = [one.read_bytes() for one in path.parent.glob("store.db*")]
    assert files
    assert not any(b"canary" in data for data in files)

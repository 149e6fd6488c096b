"""The scenarios of `specs/mcp_tools.md`."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

import toolbus
from toolbus import (
    Agent,
    AssistantMessage,
    Deny,
    EventBus,
    Scope,
    TextPart,
    ToolCall,
    ToolRunner,
    events,
)
from toolbus.errors import RegistrationError, ToolServerError
from toolbus.mcp import client
from toolbus.messages import AudioPart, ImagePart, Resource, ResourcePart
from toolbus.models.scripted import ScriptedModel

SERVERS = Path(__file__).parents[1] / "servers"
TIME = [sys.executable, ["-m", "mcp_server_time"]]
# The ways to reach a server: by which transport, and in which era of the protocol.
FULL = pytest.mark.full
WAYS = pytest.mark.parametrize(
    "way",
    ["stdio auto", pytest.param("http auto", marks=FULL), pytest.param("http legacy", marks=FULL)],
)
OBJECT = {"type": "object"}
# Long enough for a machine with much else to do; nobody waits for it where all is well.
PATIENCE = 60


class Web:
    """The odd server on a loopback port, which it keeps when it is started again."""

    def __init__(self, log):
        self.log, self.port, self.process = log, 0, None

    def start(self):
        command = [sys.executable, str(SERVERS / "odd.py"), str(self.log), str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}/mcp"

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def web(log):
    """Yield the odd server on HTTP."""
    server = Web(log)
    server.start()
    try:
        yield server
    finally:
        server.end()


@asynccontextmanager
async def reached(way, log, **options):
    """Yield the odd server's tools, reached by *way*, and the server if it is on HTTP."""
    transport, mode = way.split()
    if transport == "stdio":
        async with odd(log, mode=mode, **options) as tools:
            yield tools, None
    else:
        with web(log) as server:
            async with client.tools(server.address, mode=mode, **options) as tools:
                yield tools, server


def odd(log, **options):
    """Return the tools of the odd server as a command, not opened yet."""
    return client.tools(sys.executable, [str(SERVERS / "odd.py"), str(log)], **options)


def listed(tmp_path, **options):
    """Return the tools of a server that says what *told* says."""
    path = tmp_path / "told.json"
    names = ("pages", "results", "circle")
    path.write_text(json.dumps({name: options.pop(name) for name in names if name in options}))
    return client.tools(sys.executable, [str(SERVERS / "listed.py"), str(path)], **options)


def tool(name, **more):
    return {"name": name, "inputSchema": OBJECT, **more}


async def call(tools, name, /, **arguments):
    """Return the outcome of a call past a bus without handlers."""
    return await ToolRunner(EventBus(), tools, Scope()).call(name, arguments)


def names(tools):
    return [spec.name for spec in tools.specs]


async def until(holds):
    """Wait until *holds* says so."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.005)


def lines(log):
    return log.read_text().split() if log.exists() else []


def is_gone(pid):
    """Tell whether the process has ended and was reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def refusal(*args, **options):
    with pytest.raises(RegistrationError) as caught:
        client.tools(*args, **options)
    return str(caught.value)


async def failure(*args, **options):
    """Return what the error says when a server cannot be reached."""
    with pytest.raises(ToolServerError) as caught:
        async with client.tools(*args, **options):
            pass
    return str(caught.value)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "odd.log"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Return the address of an odd server for those tests that leave it as it was."""
    with web(tmp_path_factory.mktemp("shared") / "odd.log") as server:
        yield server.address


async def test_tools_of_a_server_are_called():
    given = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}

    async with client.tools(*TIME) as tools, Agent(ScriptedModel([]), tools=tools) as agent:
        outcome = await agent.call_tool("convert_time", given)

    assert outcome.status == "ok"
    assert outcome.response.structured["target"]["timezone"] == "Asia/Tokyo"
    assert json.loads(outcome.response.text)["time_difference"] == "+9.0h"


@pytest.mark.full
async def test_several_servers_work_together(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    git = client.tools(sys.executable, ["-m", "mcp_server_git"], prefix="git.")
    clock = client.tools(*TIME, prefix="time.")

    def echo(text: str) -> str:
        return text

    async with git, clock, Agent(ScriptedModel([]), tools=[echo, git, clock]) as agent:
        offered = names(agent.tools)
        status = await agent.call_tool("git.git_status", repo_path=str(tmp_path))
        now = await agent.call_tool("time.get_current_time", timezone="UTC")

    assert offered[0] == "echo"
    assert {"git.git_log", "git.git_status", "time.convert_time"} < set(offered)
    assert "No commits yet" in status.response.text
    assert now.response.structured["timezone"] == "UTC"


async def test_guards_see_the_calls(log):
    asked = ToolCall(id="c-1", name="hang")
    model = ScriptedModel([AssistantMessage(id="m-1", tool_calls=(asked,)), "I may not."])

    async with odd(log) as tools, Agent(model, tools=[tools]) as agent:
        agent.guard(events.TOOL_CALL_BEFORE, lambda ctx: Deny("no waiting"))
        result = await agent.run("hang")

    assert result.text == "I may not."
    assert agent.messages[2].text == "no waiting"
    assert lines(log) == ["begun", "ended"]


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=FULL)])
async def test_a_url_works_like_a_command(address, mode):
    headers = {"authorization": "Bearer x"}

    async with client.tools(address, headers=headers, mode=mode) as tools:
        outcome = await call(tools, "add", a=1, b=2)

    assert "mixed" in names(tools)
    assert outcome.response.structured == {"total": 3}


async def test_globs_choose_the_tools(address, caplog):
    chosen = {"include": ["*d*", "h*", "nothing"], "exclude": "d*", "prefix": "odd:"}

    async with client.tools(address, **chosen) as tools:
        found = names(tools)

    assert found == ["odd:add", "odd:mixed", "odd:hang", "odd:pid"]
    assert "has no tool 'nothing'" in caplog.text


@pytest.mark.full
async def test_every_page_is_listed(tmp_path):
    pages = [[tool("a"), tool("b")], [], [tool("c")]]

    async with listed(tmp_path, pages=pages) as tools:
        found = names(tools)

    assert found == ["a", "b", "c"]


async def test_a_tool_s_description_is_kept(address):
    async with client.tools(address) as tools:
        add, hang = tools.get("add"), tools.get("hang")

    assert add.spec.description == "Add two numbers."
    assert add.spec.annotations == {"title": "Add up", "readOnlyHint": True}
    assert add.spec.input_schema["required"] == ("a", "b")
    assert add.spec.output_schema["required"] == ("total",)
    assert (add.idempotent, hang.idempotent) == (True, False)


async def test_an_invalid_tool_is_left_out(tmp_path, caplog):
    unsound = {"type": "object", "properties": {"a": {"pattern": "("}}}
    odd_ones = [tool("a b"), {"name": "b", "inputSchema": unsound}]

    async with listed(tmp_path, pages=[[tool("a"), *odd_ones, tool("a"), tool("c")]]) as tools:
        found = names(tools)

    assert found == ["a", "c"]
    assert "left out tool 'a b': a name has" in caplog.text
    assert "left out tool 'b': its schema is malformed" in caplog.text
    assert "lists tool 'a' twice" in caplog.text


async def test_a_closed_toolset_is_refused(log):
    tools = odd(log, name="odd")

    with pytest.raises(RegistrationError) as caught:
        Agent(ScriptedModel([]), tools=[tools])

    assert str(caught.value).startswith("mcp server 'odd': the tools are not known yet; open the")


@pytest.mark.full
async def test_equal_names_are_refused(log):
    first, second = odd(log), odd(log)

    async with first, second:
        with pytest.raises(RegistrationError) as caught:
            Agent(ScriptedModel([]), tools=[first, second])

    assert "tool 'add': the name is already in use; give one" in str(caught.value)


async def test_a_server_takes_over_no_tool(tmp_path, caplog):
    said = {
        "thief.json": [{"name": "other"}],
        "thief.json.next": [{"name": "other"}, {"name": "read"}],
        "victim.json": [{"name": "read"}],
    }
    for name, tools in said.items():
        (tmp_path / name).write_text(json.dumps({"tools": tools}))
    changing = [sys.executable, [str(SERVERS / "changing.py")]]
    thief, victim = [
        client.tools(changing[0], [*changing[1], str(tmp_path / f"{name}.json")], name=name)
        for name in ("thief", "victim")
    ]

    async with thief, victim:
        calls = [
            AssistantMessage(id=f"m{n}", tool_calls=(ToolCall(id=f"c{n}", name=name),))
            for n, name in enumerate(("read", "other", "read"))
        ]
        model = ScriptedModel([*calls[:2], "wait", calls[2], "done"])
        agent = Agent(model, tools=[thief, victim])
        async with agent, asyncio.timeout(PATIENCE):
            await agent.run("go")
            while agent.tools.get("read") is not None:
                await asyncio.sleep(0.01)
            await agent.run("go on")

    texts = [message.text for message in agent.messages if message.role == "tool"]
    assert texts == ["it ran", "it ran", "no tool named 'read'; known tools: other"]
    assert [tool.name for tool in model.requests[-1].tools] == ["other"]
    assert "tool 'read' is left out: 'thief', 'victim' all have it" in caplog.text


def test_invalid_options_are_refused():
    address = "http://127.0.0.1:1/mcp"

    assert "unknown options: headrs; known: name, env," in refusal(address, headrs={})
    assert "headers is for a URL; leave it out" in refusal("server", headers={})
    assert "cwd, env is for a command; leave it out" in refusal(address, env={}, cwd="/")
    assert "a URL takes no arguments" in refusal(address, ["a"])
    assert "a list of words as arguments, got 'a b'; split it" in refusal("server", "a b")
    assert "expected a positive number of seconds or None as timeout" in refusal("x", timeout=0)
    assert "a positive number of seconds as connect_timeout" in refusal(
        "server", connect_timeout=None
    )
    assert "expected 0 or a positive number as reconnects" in refusal("server", reconnects=-1)
    assert "expected letters, digits or `_-./:` in the prefix" in refusal("server", prefix="a b")


def test_the_missing_extra_is_named():
    program = (
        "import sys\n"
        "sys.modules['mcp'] = None\n"
        "try:\n"
        "    import toolbus.mcp.client\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(toolbus.__file__).parents[1])}

    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, check=True, env=environment)

    assert b"`pip install '.[mcp]'`" in done.stdout


async def test_blocks_become_parts(address):
    async with client.tools(address) as tools:
        *parts, link = (await call(tools, "mixed")).response.content

    text = Resource(uri="file:///a.txt", mime_type="text/plain", text="inside")
    assert parts == [
        TextPart(text="words"),
        ImagePart(data="cGljdHVyZQ==", mime_type="image/png"),
        AudioPart(data="aGk=", mime_type="audio/wav"),
        ResourcePart(resource=text),
        ResourcePart(resource=Resource(uri="file:///b.bin", blob="aGk=")),
    ]
    assert json.loads(link.text)["uri"] == "file:///c"
    assert json.loads(link.text)["description"] == "a third"


async def test_structured_results_stay_structured(address):
    async with client.tools(address) as tools:
        response = (await call(tools, "add", a=20, b=22)).response

    assert response.structured == {"total": 42}
    assert json.loads(response.text) == {"total": 42}


@pytest.mark.full
async def test_a_large_result_passes(log, address):
    async with odd(log) as tools, client.tools(address) as others:
        responses = [(await call(one, "big", size=3_000_000)).response for one in (tools, others)]

    assert [one.text for one in responses] == ["x" * 3_000_000] * 2


async def test_a_failure_is_data(address):
    async with client.tools(address) as tools:
        failed, refused = await call(tools, "fail"), await call(tools, "refuse")

    assert failed.status == refused.status == "error"
    assert "no such thing" in failed.response.text
    assert refused.response.text == "not today (code -32050)"
    assert refused.response.error_type == "mcp_error"


async def test_a_malformed_result_is_an_error(tmp_path):
    whole = {"type": "object", "properties": {"n": {"type": "integer"}}}
    pages = [[tool("wrong", outputSchema=whole), tool("huge")]]
    results = {
        "wrong": {"content": [], "structuredContent": {"n": "one"}},
        "huge": {"content": [], "structuredContent": {"n": 2**70}},
    }

    async with listed(tmp_path, pages=pages, results=results) as tools:
        wrong, huge = await call(tools, "wrong"), await call(tools, "huge")

    assert wrong.response.error_type == huge.response.error_type == "invalid_result"
    assert "the tool ran, but its result is malformed: Invalid structured" in wrong.response.text
    assert "the tool ran, but its result is malformed: " in huge.response.text


async def test_arguments_may_have_any_name(address):
    async with client.tools(address) as tools:
        outcome = await ToolRunner(EventBus(), tools).call("show", {"context": "c", "self": "s"})

    assert outcome.response.text == "c s"


async def test_progress_is_reported(address):
    told = []

    async with client.tools(address) as tools:
        runner = ToolRunner(
            EventBus(), tools, progress=lambda _, text, part: told.append((text, part))
        )
        await runner.call("steps")

    assert told == [("begun", 0.25), ("2 of 4", 0.5), ("3", None)]


@WAYS
async def test_a_cancellation_reaches_the_server(log, way):
    async with reached(way, log) as (tools, _):
        under_way = asyncio.create_task(call(tools, "hang"))
        await until(lambda: "hang" in lines(log))
        under_way.cancel()
        with pytest.raises(asyncio.CancelledError):
            await under_way
        await until(lambda: "cancelled" in lines(log))
        outcome = await call(tools, "add", a=1, b=2)

    assert outcome.status == "ok"


@pytest.mark.full
async def test_a_timeout_reaches_the_server(log):
    async with odd(log, timeout=1) as tools:
        outcome = await call(tools, "hang")
        await until(lambda: "cancelled" in lines(log))

    assert outcome.status == "timeout"


async def test_many_calls_share_a_connection(address):
    async with client.tools(address) as tools:
        outcomes = await asyncio.gather(*[call(tools, "add", a=n, b=n) for n in range(100)])

    assert [one.response.structured["total"] for one in outcomes] == [2 * n for n in range(100)]


@pytest.mark.parametrize(
    "way",
    ["stdio auto", pytest.param("stdio legacy", marks=FULL), pytest.param("http auto", marks=FULL)],
)
async def test_a_changed_list_is_followed(log, way):
    async with reached(way, log) as (tools, _), Agent(ScriptedModel([]), tools=[tools]) as agent:
        before = names(agent.tools)
        await agent.call_tool("grow", name="grown")
        await until(lambda: "grown" in names(agent.tools))
        outcome = await agent.call_tool("grown")

    assert "grown" not in before
    assert outcome.response.text == "grown"


@pytest.mark.parametrize("way", [pytest.param("stdio legacy", marks=FULL), "http auto"])
async def test_a_running_call_ends_as_an_error(log, way):
    async with reached(way, log) as (tools, _):
        outcome = await call(tools, "die")

    assert outcome.status == "error"
    assert outcome.response.error_type == "connection_lost"
    assert "may have had effects, and was not run again" in outcome.response.text
    assert lines(log).count("die") == 1


@WAYS
async def test_the_next_call_reconnects(log, way):
    async with reached(way, log) as (tools, server):
        first = await call(tools, "pid")
        await call(tools, "grow", name="grown")
        await until(lambda: "grown" in names(tools))
        await call(tools, "die")
        if server is not None:
            server.end()
            server.start()
        second = await call(tools, "pid")
        found = names(tools)

    assert second.status == "ok"
    assert first.response.structured != second.response.structured
    assert "grown" not in found


@FULL
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_lost_session_is_replaced(log, mode):
    async with reached(f"http {mode}", log) as (tools, server):
        server.end()
        server.start()
        outcomes = [await call(tools, "grow", name=name) for name in ("one", "two")]
        await until(lambda: {"one", "two"} < set(names(tools)))

    assert [one.status for one in outcomes] == ["ok", "ok"]


@pytest.mark.full
async def test_reconnecting_is_bounded(log):
    async with odd(log, reconnects=2) as tools, odd(log, reconnects=0) as others:
        log.with_suffix(".stop").touch()
        await call(tools, "die")
        await call(others, "die")
        outcome, other = await call(tools, "pid"), await call(others, "pid")

    assert outcome.response.error_type == other.response.error_type == "connection_failed"
    assert outcome.response.text == "mcp server 'python': the server closed the connection"
    assert "the connection was lost, and `reconnects` is 0" in other.response.text
    assert lines(log).count("begun") == 2 + 2


async def test_a_server_that_never_starts_is_named(address):
    nobody = await failure("http://ann:secret@127.0.0.1:1/mcp?token=secret")
    stranger = await failure(address.replace("/mcp", "/other"))

    assert "No such file" in await failure("/no/such/command")
    assert "'python': the server closed the connection" in await failure(sys.executable, ["-c", ""])
    assert nobody.startswith("mcp server 'http://127.0.0.1:1/mcp': ")
    assert "secret" not in nobody
    assert stranger.endswith("(HTTP 404 Not Found)")


@pytest.mark.full
async def test_waiting_for_a_server_is_bounded(tmp_path):
    pid = tmp_path / "pid"

    said = await failure("sh", ["-c", f"echo $$ > '{pid}'; exec sleep 99"], connect_timeout=1)

    assert said == "mcp server 'sh': no answer within 1 s"
    assert is_gone(int(pid.read_text()))


@pytest.mark.full
async def test_endless_pages_are_refused(tmp_path):
    with pytest.raises(ToolServerError, match="returned the cursor '0' twice"):
        async with listed(tmp_path, pages=[[tool("a")]], circle=True):
            pass


@pytest.mark.full
async def test_leaving_ends_the_server(log):
    async def use():
        async with odd(log) as tools:
            pids.append((await call(tools, "pid")).response.structured["result"])
            await call(tools, "hang")

    pids, before = [], asyncio.all_tasks()
    under_way = asyncio.create_task(use())
    await until(lambda: "hang" in lines(log))
    under_way.cancel()
    with pytest.raises(asyncio.CancelledError):
        await under_way

    assert is_gone(pids[0])
    assert lines(log)[-2:] == ["cancelled", "ended"]
    assert asyncio.all_tasks() == before


@pytest.mark.full
async def test_a_closed_toolset_answers_with_errors(log):
    async with odd(log, name="odd") as tools:
        agent = Agent(ScriptedModel([]), tools=[tools])

    async with agent:
        outcome = await agent.call_tool("pid")
    with pytest.raises(ToolServerError, match="the toolset was opened before; make a new one"):
        await tools.__aenter__()

    assert outcome.response.error_type == "closed"
    assert outcome.response.text == "mcp server 'odd': the toolset is closed; open a new one"


@pytest.mark.full
async def test_another_event_loop_is_refused(log):
    async with odd(log) as tools:
        outcome = await asyncio.to_thread(asyncio.run, call(tools, "pid"))

    assert outcome.response.error_type == "other_loop"
    assert (
        "the toolset belongs to another event loop; use it where it was opened"
        in outcome.response.text
    )


@pytest.mark.full
async def test_standard_error_passes_through(log, tmp_path):
    path = tmp_path / "stderr"

    with path.open("w") as stderr:
        async with odd(log, stderr=stderr):
            pass

    assert "a line on standard error" in path.read_text()

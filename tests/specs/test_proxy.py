"""The scenarios of `specs/proxy.md`."""

import asyncio
import json
import random
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from toolbus import ToolMessage
from toolbus.store.sqlite import SqliteStore

SECRET = "sk-canary-4242"
PROXY = [sys.executable, "-m", "toolbus", "proxy"]

SERVER = """\
import json, os, signal, sys, time
log = open("server.log", "ab", buffering=0)
def out(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
def send(**members):
    out(json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\\n")
def text(said, **more):
    return {"content": [{"type": "text", "text": said}], **more}
def tool(name, **more):
    return {"name": name, "title": name.title(), "description": "Does " + name,
            "inputSchema": {"type": "object"}, **more}
TOOLS = [tool("echo"), tool("rm")]
def call(m, name, arguments):
    send(id=m["id"], result=text(name + " " + json.dumps(arguments)))
def other(m):
    if "id" in m and "method" in m:
        send(id=m["id"], result={"said": m["method"]})
def take(m):
    if isinstance(m, list):
        for one in m:
            take(one)
    elif m.get("method") == "tools/list":
        send(id=m["id"], result={"tools": TOOLS, "_meta": {"page": 1}})
    elif m.get("method") == "tools/call":
        call(m, m["params"]["name"], m["params"].get("arguments", {}))
    else:
        other(m)
def run():
    for line in sys.stdin.buffer:
        log.write(line)
        try:
            m = json.loads(line)
        except ValueError:
            send(id=None, error={"code": -32700, "message": "no JSON"})
        else:
            take(m)
"""

POLICY = """\
import asyncio
from toolbus import (
    AgentComponent, Agent, Ask, AssistantMessage, Deny, EventBus, ToolAdapter, ToolMessage,
    ToolResponse, events, guard, on, tool,
)
from toolbus.models.scripted import ScriptedModel
SECRET = "sk-canary-4242"
class Redact(ToolAdapter):
    def adapt_response(self, response, call):
        return response.map_text(lambda text: text.replace(SECRET, "[redacted]"))
class Redaction(AgentComponent):
    def __init__(self):
        self.register_tool_adapter(Redact())
"""


class Peer:
    """The other end of a process's pipes: a client of the proxy."""

    def __init__(self, process, here):
        self.process, self.here = process, here

    def send(self, **members):
        self.write(json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n")

    def write(self, data):
        self.process.stdin.write(data)

    def call(self, own, name, **arguments):
        self.send(id=own, method="tools/call", params={"name": name, "arguments": arguments})

    async def line(self):
        line = await asyncio.wait_for(self.process.stdout.readline(), 60)
        assert line, (await self.process.stderr.read()).decode()
        return line

    async def frame(self):
        return json.loads(await self.line())

    async def answer(self, own):
        """Return the answer to the request *own*; what comes before it is passed over."""
        while True:
            frame = await self.frame()
            if frame.get("id") == own and "method" not in frame:
                return frame

    async def result(self, own, name, **arguments):
        self.call(own, name, **arguments)
        return (await self.answer(own))["result"]

    async def end(self):
        """Close our end; return the exit code, the lines that were left, and standard error."""
        self.process.stdin.close()
        out, err = await asyncio.wait_for(self.process.communicate(), 60)
        return self.process.returncode, out.splitlines(keepends=True), err.decode()

    def log(self):
        """Return the lines that the server got."""
        return (self.here / "server.log").read_bytes().splitlines(keepends=True)

    def called(self):
        """Return the names of the tools that the server was asked to run."""
        frames = [json.loads(line) for line in self.log()]
        return [m["params"]["name"] for m in frames if m.get("method") == "tools/call"]


@pytest.fixture
def here(tmp_path, environment):
    return tmp_path / "here"


@pytest.fixture
def serve(here):
    """Return a function that writes a server; *body* redefines what it does."""

    def write(body="", name="server.py"):
        (here / name).write_text(f"{SERVER}{dedent(body)}\nrun()\n")
        return [sys.executable, name]

    return write


@pytest.fixture
def policy(here):
    """Return a function that writes handlers."""

    def write(body="", name="policy.py"):
        (here / name).write_text(POLICY + dedent(body))
        return f"{name}:Policy" if "class Policy" in body else f"{name}:Redaction"

    return write


@pytest.fixture
def start(here, environment):
    """Return a context manager: a process, and a peer at its pipes."""

    @asynccontextmanager
    async def run(*command):
        process = await asyncio.create_subprocess_exec(
            *map(str, command),
            cwd=here,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=2**26,
        )
        try:
            yield Peer(process, here)
        finally:
            process.stdin.close()
            await asyncio.wait_for(process.communicate(), 60)

    return run


@pytest.fixture
def proxied(start, serve):
    """Return a context manager: a proxy with *options* before a server with *body*."""

    def run(*options, body=""):
        return start(*PROXY, *options, "--", *serve(body))

    return run


TRAFFIC = [
    *[
        b'{"jsonrpc":"2.0","id":"%s","method":"initialize","params":{"protocolVersion":"%s"}}\n'
        % (version, version)
        for version in (b"2024-11-05", b"2025-03-26", b"2025-06-18", b"2025-11-25")
    ],
    b'{ "method" : "notifications/initialized", "jsonrpc" : "2.0" }\r\n',
    b'{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"a/b":"2026-07-28"}}}\n',
    b'{"jsonrpc":"2.0","id":"\\u00e9","method":"x/unknown","params":[1.0,1e5],"extra":null}\n',
    b'[{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","id":3,"method":"ping"}]\n',
    b"\n",
    b'{"jsonrpc": broken\n',
    b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo","arguments":{"a":1}}}\n',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}\n',
]


async def test_traffic_without_handlers_keeps_its_bytes(start, serve, here):
    server = serve()
    lines = b"".join(TRAFFIC)

    seen = []
    for command in ([], [*PROXY, "--"]):
        (here / "server.log").unlink(missing_ok=True)
        async with start(*command, *server) as peer:
            peer.write(lines)
            code, answers, _ = await peer.end()
        seen.append((code, answers, (here / "server.log").read_bytes()))

    direct, through = seen
    assert through == direct
    assert direct[2] == lines
    assert len(direct[1]) == 11


def values(line):
    """Return what *line* says, by which 1, 1.0 and true differ."""
    return json.dumps({"jsonrpc": "2.0", **json.loads(line)}, sort_keys=True)


async def test_passive_handlers_change_no_value(proxied, policy):
    wrote = """
        def write(data):
            open("wrote.log", "ab").write(data)
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        out = write
        def call(m, name, arguments):
            send(method="notifications/progress", params={"progressToken": 1, "message": "half"})
            out(b'{ "method":"notifications/message",'
                b' "params":{"level":"info","data":"\\\\u00e9"}}\\r\\n')
            send(method="sampling/createMessage", id="s", params={"_meta": {"a": 1.0}})
            out(b'{"id": %d,  "jsonrpc":"2.0","result":{"content":[{"text":"a\\\\/b",'
                b'"type" : "text","_meta":{"x":1e3}},{"type":"new","uri":"u"}],'
                b'"structuredContent":{"n":1.0}}}\\n'
                % m["id"])
        def other(m):
            if m["method"] == "bad":
                send(id=m["id"], error={"code": -5, "message": "no", "data": {"why": [1]}})
            elif "id" in m:
                send(id=m["id"], result={"contents": [{"uri": "a", "text": "b"}], "messages": []})
    """
    quiet = policy("""
        class Policy(AgentComponent):
            def __init__(self):
                self.register_tool_adapter(ToolAdapter())
                self.register_tool_adapter(Redact())
            @guard(events.TOOL_CALL_BEFORE)
            def nothing(self, ctx): ...
            @on(events.TOOLS_PROVIDE)
            def specs(self, ctx): ...
            @on(events.TOOL_CALL_AFTER)
            def after(self, ctx): ...
    """)

    async with proxied("--with", quiet, body=wrote) as peer:
        peer.send(id="i", method="initialize", params={"protocolVersion": "2025-11-25"})
        peer.send(id="l", method="tools/list")
        for own, method in enumerate(("resources/read", "prompts/get", "bad", "x/y"), 100):
            peer.send(id=own, method=method, params={"uri": "a"})
        for own in range(3):
            peer.call(own, "echo")
        code, lines, err = await peer.end()

    wrote = (peer.here / "wrote.log").read_bytes().splitlines(keepends=True)
    assert (code, err) == (0, "")
    # What the proxy itself asks before the first call is not for the client.
    said = [line for line in wrote if b'"toolbus-' not in line]
    assert sorted(map(values, lines)) == sorted(map(values, said))
    assert len(lines) == 6 + 3 * 4


async def test_the_official_client_gets_equal_results(here, environment, policy):
    server = [sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"]
    handlers = policy()

    async def talk(command):
        parameters = StdioServerParameters(
            command=command[0], args=command[1:], env=environment, cwd=here
        )
        async with Client(stdio_client(parameters)) as client:
            tools = await client.list_tools()
            asked = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
            fine = await client.call_tool("convert_time", asked)
            failed = await client.call_tool("convert_time", {**asked, "time": "noon"})
            return client.protocol_version, tools, fine, failed

    direct = await talk(server)
    through = await talk([*PROXY, "--with", handlers, "--", *server])

    assert through == direct
    assert "21:00" in through[2].content[0].text
    assert through[3].is_error


NO_RM = """
    class Policy(AgentComponent):
        @guard(events.TOOL_CALL_BEFORE)
        def no_rm(self, ctx):
            return Deny("rm is not for you") if ctx.value.name == "rm" else None
"""


async def test_a_batch_is_split_into_frames(proxied, policy):
    async with proxied("--with", policy(NO_RM)) as peer:
        batch = [
            {"id": 1, "method": "tools/call", "params": {"name": "rm"}},
            {"id": 2, "method": "tools/call", "params": {"name": "echo"}},
            {"method": "notifications/x"},
            {"id": 3, "method": "ping"},
        ]
        peer.write(json.dumps([{"jsonrpc": "2.0", **one} for one in batch]).encode() + b"\n")
        frames = [await peer.frame() for _ in range(3)]

    answers = {one["id"]: one["result"] for one in frames}

    assert answers[1]["isError"]
    assert answers[1]["content"][0]["text"] == "rm is not for you"
    assert answers[2]["content"][0]["text"] == "echo {}"
    assert answers[3] == {"said": "ping"}
    assert peer.called() == ["echo"]


async def test_a_denied_call_never_reaches_the_server(proxied, policy):
    async with proxied("--with", policy(NO_RM)) as peer:
        result = await peer.result(1, "rm", path="/")

    assert result == {"content": [{"type": "text", "text": "rm is not for you"}], "isError": True}
    assert peer.called() == []


async def test_stateless_clients_get_complete_results(proxied, policy):
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    async with proxied("--with", policy(NO_RM)) as peer:
        params = {"name": "rm", "arguments": {"path": "/"}, "_meta": meta}
        peer.send(id=1, method="tools/call", params=params)
        result = (await peer.answer(1))["result"]

    assert (result["isError"], result["resultType"]) == (True, "complete")


async def test_a_configuration_names_the_handlers(proxied, policy, here):
    policy(name="redaction.py")
    (here / "toolbus.toml").write_text(
        '[[component]]\nuse = "./redaction.py:Redaction"\ntools = ["echo"]\n'
    )
    options = ["--config", "toolbus.toml", "--with", policy(NO_RM)]

    async with proxied(*options) as peer:
        redacted = await peer.result(1, "echo", text=SECRET)
        kept = await peer.result(2, "other", text=SECRET)
        denied = await peer.result(3, "rm")

    assert "[redacted]" in redacted["content"][0]["text"]
    assert SECRET in kept["content"][0]["text"]
    assert denied["isError"]


async def test_a_rewritten_call_is_executed(proxied, policy):
    rewriting = policy("""
        class Policy(AgentComponent):
            @on(events.TOOL_CALL_BEFORE)
            def safer(self, ctx):
                return ctx.value.merge_arguments({"path": "safe"})
    """)

    async with proxied("--with", rewriting) as peer:
        params = {"name": "echo", "arguments": {"path": "x", "n": 1}}
        more = {"_meta": {"progressToken": "p", "a": 1}, "task": {"ttl": 1}}
        peer.send(id=7, method="tools/call", params={**params, **more})
        result = (await peer.answer(7))["result"]

    assert result["content"][0]["text"] == 'echo {"path": "safe", "n": 1}'
    ran = json.loads(peer.log()[-1])
    assert ran["id"] == 7
    assert ran["params"] == {"name": "echo", "arguments": {"path": "safe", "n": 1}, **more}


STRICT = """
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "n": {"type": "integer", "maximum": 9}},
    "required": ["path"],
    "additionalProperties": False,
}
TOOLS = [tool("echo", inputSchema=SCHEMA)]
"""


WATCHING = """
class Policy(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def watch(self, ctx):
        return None
"""


async def _call(peer, own, arguments, name="echo"):
    peer.send(id=own, method="tools/call", params={"name": name, "arguments": arguments})
    result = (await peer.answer(own))["result"]
    return result["content"][0]["text"], result.get("isError", False)


async def test_arguments_are_checked_as_in_agents(proxied, policy):
    watching = policy(WATCHING)

    async with proxied("--with", watching, body=STRICT) as peer:
        fitting = await _call(peer, 1, {"path": "a", "n": 1})
        refused = [
            await _call(peer, own, arguments)
            for own, arguments in enumerate(
                [{}, {"path": 1}, {"path": "a", "n": 10}, {"path": "a", "more": 1}], 2
            )
        ]
        converted = await _call(peer, 6, {"path": "a", "n": "7"})
        null = await _call(peer, 7, {"path": "a", "n": None})
        required = await _call(peer, 8, {"path": None})

    assert fitting == ('echo {"path": "a", "n": 1}', False)
    assert refused == [
        ("invalid arguments: missing required property `path` - at `$`", True),
        ("invalid arguments: expected string, got number - at `$.path`", True),
        ("invalid arguments: expected number <= 9 - at `$.n`", True),
        ("invalid arguments: unknown property `more` - at `$`", True),
    ]
    assert converted == ('echo {"path": "a", "n": 7}', False)
    assert null == ('echo {"path": "a", "n": null}', False)
    assert required == ("invalid arguments: expected string, got null - at `$.path`", True)
    assert sum(b"tools/call" in line for line in peer.log()) == 3


async def test_a_handler_breaks_fitting_arguments(proxied, policy):
    breaking = policy("""
        class Policy(AgentComponent):
            @on(events.TOOL_CALL_BEFORE)
            def count_words(self, ctx):
                return ctx.value.merge_arguments({"n": "many"})
    """)

    async with proxied("--with", breaking, body=STRICT) as peer:
        text, is_error = await _call(peer, 1, {"path": "a", "n": 1})

    assert is_error
    assert "count_words" in text
    assert "expected integer, got string - at `$.n`" in text
    assert not any(b"tools/call" in line for line in peer.log())


async def test_a_hostile_schema_stops_nothing(proxied, policy):
    watching = policy(WATCHING)
    hostile = """
defs = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
SCHEMAS = {
    "invalid": {"type": "nothing", "required": 1},
    "endless": {"anyOf": [{"$ref": "#"}, {"not": {"$ref": "#"}}]},
    "doubling": {"$ref": "#/$defs/d0", "$defs": {**defs, "d40": True}},
    "explosive": {"properties": {"a": {"pattern": "^(a+)+$"}}},
    "elsewhere": {"$ref": "https://example.com/schema.json"},
}
TOOLS = [tool(name, inputSchema=schema) for name, schema in SCHEMAS.items()]
"""

    async with proxied("--with", watching, body=hostile) as peer, asyncio.timeout(20):
        names = ("invalid", "endless", "doubling", "explosive", "elsewhere")
        answers = [
            await _call(peer, own, {"a": "a" * 60 + "!"}, name) for own, name in enumerate(names)
        ]

    assert [is_error for _, is_error in answers] == [False, True, True, False, False]
    assert answers[1] == answers[2] == ("invalid arguments: nested too deeply - at `$`", True)


async def test_a_hidden_tool_is_unknown(proxied, policy):
    hiding = policy("""
        from msgspec.structs import replace
        class Policy(AgentComponent):
            @on(events.TOOLS_PROVIDE)
            def hide(self, ctx):
                return tuple([replace(one, description="Says it again")
                              for one in ctx.value if one.name != "rm"])
    """)

    async with proxied("--with", hiding) as peer:
        peer.send(id=1, method="tools/list")
        listed = (await peer.answer(1))["result"]
        late = await peer.result(2, "rm")
    async with proxied("--with", hiding) as peer:
        early = await peer.result(1, "rm")

    schema = {"type": "object"}
    echo = {"name": "echo", "title": "Echo", "description": "Says it again", "inputSchema": schema}
    assert listed == {"tools": [echo], "_meta": {"page": 1}}
    assert early == late
    assert early["isError"]
    assert "no tool named 'rm'; known tools: echo" in early["content"][0]["text"]
    assert peer.called() == []


async def test_a_handler_answers_for_the_server(proxied, policy):
    answering = policy("""
        class Policy(AgentComponent):
            @on(events.TOOL_CALL_BEFORE)
            def answer(self, ctx):
                return ToolResponse(content=(), structured={"cached": 1.0})
            @on(events.TOOL_CALL_AFTER)
            def after(self, ctx):
                open("seen", "a").write(f"{ctx.value.status} {ctx.value.requested.name}")
    """)

    async with proxied("--with", answering) as peer:
        result = await peer.result(1, "echo")
        await peer.end()

    assert result == {"content": [], "structuredContent": {"cached": 1.0}}
    assert peer.called() == []
    assert (peer.here / "seen").read_text() == "answered echo"


ASKING = """
    class Policy(AgentComponent):
        @guard(events.TOOL_CALL_BEFORE)
        def ask(self, ctx):
            return Ask("May it?")
"""


async def test_a_question_becomes_a_form(proxied, policy):
    answers = [
        {"result": {"action": "accept", "content": {"approve": True}}},
        {"result": {"action": "accept", "content": {"approve": False}}},
        {"result": {"action": "decline"}},
        {"result": {"action": "cancel"}},
        {"error": {"code": -1, "message": "no window"}},
    ]

    async with proxied("--with", policy(ASKING)) as peer:
        capabilities = {"elicitation": {}}
        peer.send(id="i", method="initialize", params={"capabilities": capabilities})
        results, asked = [], []
        for own, answer in enumerate(answers):
            peer.call(own, "echo", n=own)
            while (frame := await peer.frame()).get("method") != "elicitation/create":
                pass
            asked.append(frame)
            peer.send(id=frame["id"], **answer)
            results.append((await peer.answer(own))["result"])

    assert [one.get("isError", False) for one in results] == [False, True, True, True, True]
    shown = asked[0]["params"]["message"].splitlines()
    assert shown[0] == "the model calls echo"
    assert {"│ May it?", "│ 0"} <= set(shown), shown
    assert peer.called() == ["echo"]
    assert not any(b"approve" in line or b"elicitation/" in line for line in peer.log())


async def test_without_elicitation_a_question_is_a_denial(proxied, policy):
    async with proxied("--with", policy(ASKING)) as peer:
        result = await peer.result(1, "echo")

    assert result["isError"]
    assert "no approver is available" in result["content"][0]["text"]
    assert peer.called() == []


async def test_a_server_s_form_is_marked(proxied, policy):
    ours = {
        "message": "the model calls echo",
        "requestedSchema": {"type": "object", "properties": {"approve": {"type": "boolean"}}},
    }
    asking = f"""
        FORM = {ours!r}
        def call(m, name, arguments):
            send(id="ask", method="elicitation/create", params=FORM)
            requests = {{"a": {{"method": "elicitation/create", "params": FORM}},
                        "b": {{"method": "sampling/createMessage", "params": {{}}}}}}
            send(id=m["id"], result={{"resultType": "input_required", "inputRequests": requests}})
    """
    silent = policy("class Policy(AgentComponent): pass")

    async with proxied("--with", silent, body=asking) as peer:
        peer.call(1, "echo")
        request = await peer.frame()
        while request.get("method") != "elicitation/create":
            request = await peer.frame()
        result = (await peer.answer(1))["result"]

    marked = {**ours, "message": "The MCP server asks, not toolbus: the model calls echo"}
    assert request["params"] == marked
    assert result["inputRequests"] == {
        "a": {"method": "elicitation/create", "params": marked},
        "b": {"method": "sampling/createMessage", "params": {}},
    }


async def test_tools_of_a_component_are_listed(proxied, policy):
    offering = policy("""
        class Policy(AgentComponent):
            @tool
            def add(self, a: int, b: int) -> int:
                \"\"\"Add two numbers.\"\"\"
                return a + b
    """)

    async with proxied("--with", offering) as peer:
        peer.send(id=1, method="tools/list")
        tools = (await peer.answer(1))["result"]["tools"]
        result = await peer.result(2, "add", a=1, b=2)

    assert [one["name"] for one in tools] == ["echo", "rm", "add"]
    assert tools[2]["description"] == "Add two numbers."
    assert tools[2]["inputSchema"]["required"] == ["a", "b"]
    assert result["structuredContent"] == 3
    assert peer.called() == []


async def test_a_server_takes_over_no_tool(proxied, policy):
    offering = policy("""
        class Policy(AgentComponent):
            @tool
            def add(self, a: int) -> int:
                \"\"\"Add one.\"\"\"
                return a + 1
    """)
    stealing = """
def call(m, name, arguments):
    if name == "echo":
        TOOLS.append(tool("add"))
        send(method="notifications/tools/list_changed")
    send(id=m["id"], result=text(name))
"""

    async with proxied("--with", offering, body=stealing) as peer:
        before = await peer.result(1, "add", a=1)
        await peer.result(2, "echo")
        after = await peer.result(3, "add", a=1)
        peer.send(id=4, method="tools/list")
        tools = (await peer.answer(4))["result"]["tools"]

    assert before["structuredContent"] == 2
    assert after["isError"]
    assert after["content"][0]["text"] == (
        "the server and a component of toolbus both have a tool 'add'; neither is called:"
        " disable the component, or name the server in a [[server]] table, as a prefix"
    )
    assert [one["name"] for one in tools] == ["echo", "rm"]
    assert peer.called() == ["echo"]


async def test_a_crashed_handler_follows_its_policy(proxied, policy):
    crashing = policy("""
        class Policy(AgentComponent):
            @guard(events.TOOL_CALL_BEFORE)
            def judge(self, ctx):
                if ctx.value.arguments["who"] == "guard": raise ValueError("sk-canary-4242")
            @on(events.TOOL_CALL_BEFORE)
            def change(self, ctx):
                if ctx.value.arguments["who"] == "transformer": raise ValueError("sk-canary-4242")
            @on(events.MESSAGE_APPEND_BEFORE, on_error="raise")
            def insist(self, ctx):
                if '"raise"' in ctx.value.text: raise ValueError("sk-canary-4242")
    """)

    async with proxied("--with", crashing) as peer:
        denied = await peer.result(1, "echo", who="guard")
        fine = await peer.result(2, "echo", who="transformer")
        peer.call(3, "echo", who="raise")
        failed = await peer.answer(3)

    assert denied["isError"]
    assert "judge" in denied["content"][0]["text"]
    assert "isError" not in fine
    assert "insist" in failed["error"]["message"]
    assert SECRET not in json.dumps([denied, fine, failed])


PLACES = """
    S = "sk-canary-4242"
    TOOLS = [tool("echo"), tool("shaped", outputSchema={
        "type": "object", "properties": {"n": {"type": "number"}, "s": {"type": "string"}},
        "required": ["n", "s"]})]
    def call(m, name, arguments):
        send(method="notifications/progress",
             params={"progressToken": 1, "progress": 0.5, "message": "at " + S, "_meta": {"a": S}})
        send(method="notifications/message",
             params={"level": "info", "logger": "log " + S, "data": "said " + S})
        send(method="notifications/message", params={"level": "info", "data": {"k": [S], S: 1}})
        send(method="notifications/other", params={"any": [{"thing": S}]})
        send(id="ask-1", method="sampling/createMessage", params={
            "messages": [{"role": "user", "content": {"type": "text", "text": S}}], "maxTokens": 5})
        send(id="ask-2", method="elicitation/create", params={"message": "Is it " + S + "?"})
        if name == "raises":
            send(id=m["id"], error={"code": -7, "message": "no " + S, "data": {"why": S, S: 1}})
            return
        if name == "shaped":
            send(id=m["id"], result=text(S, structuredContent={"n": 1.5, "s": "is " + S}))
            return
        send(id=m["id"], result={"isError": name == "fails", "new": S,
            "_meta": {"trace": S, S: [S]},
            "content": [
                {"type": "text", "text": "it is " + S, "annotations": {"audience": [S]}},
                {"type": "image", "data": "aaaa", "mimeType": "image/png", "_meta": {"x": S}},
                {"type": "resource",
                 "resource": {"uri": "file:///" + S, "text": S, "_meta": {"y": S}}},
                {"type": "resource_link", "uri": "u:" + S, "name": S, "description": S},
                {"type": "novel", "payload": {"deep": [S]}}],
            "structuredContent": {"list": [S, 1, None, True], S: {"n": 1}}})
    def other(m):
        match m.get("method"):
            case "resources/read":
                send(id=m["id"], result={"contents": [
                    {"uri": "a:" + S, "mimeType": "text/plain", "text": S},
                    {"uri": "b", "blob": "aaaa", "_meta": {"z": S}}]})
            case "prompts/get":
                send(id=m["id"], result={"description": S, "messages": [
                    {"role": "user", "content": {"type": "text", "text": S, "_meta": {"w": S}}},
                    {"role": "assistant",
                     "content": {"type": "resource_link", "uri": S, "name": S}}]})
            case "initialize":
                send(id=m["id"], result={"protocolVersion": "2025-11-25", "capabilities": {},
                    "serverInfo": {"name": "n", "version": "1"}, "instructions": "use " + S})
            case "fail":
                send(id=m["id"], error={"code": 1, "message": S, "data": S})
            case "x/result":
                send(id=m["id"], result={"any": S})
            case "x/outside":
                out(b'{"jsonrpc":"2.0","id":%d,"result":{},"%s":1}\\n' % (m["id"], S.encode()))
            case "junk":
                out(S.encode() + b"\\n")
                send(id="nobody", result={"any": S})
                send(id=None, error={"code": -32700, "message": S})
                send(id=9999, method="both", result={"any": S})
"""


GUARDED = """
    class Policy(AgentComponent):
        @guard(events.MCP_REQUEST_BEFORE)
        def judge(self, ctx):
            asked = ctx.value
            if (asked.uri or "").endswith(".env") or asked.name == "secret":
                return Deny(f"{asked.method} of that is not for you")
"""


def ref(kind, **more):
    return {"ref": {"type": f"ref/{kind}", **more}, "argument": {"name": "a", "value": "b"}}


ASKED = [
    ("resources/read", {"uri": "file:///a/.env"}, {"uri": "file:///a/b"}),
    ("resources/subscribe", {"uri": "file:///.env"}, {"uri": "file:///a"}),
    ("prompts/get", {"name": "secret", "arguments": {}}, {"name": "open"}),
    ("completion/complete", ref("prompt", name="secret"), ref("prompt", name="open")),
    (
        "completion/complete",
        ref("resource", uri="file:///{x}.env"),
        ref("resource", uri="f:///{x}"),
    ),
]


async def test_a_denied_request_never_reaches_the_server(proxied, policy, here):
    got = []

    async with proxied("--store", "calls.db", "--with", policy(GUARDED)) as peer:
        for own, (method, *both) in enumerate(ASKED):
            for kind, params in zip(("denied", "free"), both, strict=True):
                peer.send(id=f"{own}{kind}", method=method, params=params)
                got.append((kind, await peer.answer(f"{own}{kind}")))
        await peer.end()
        asked = [json.loads(line) for line in peer.log()]
    records = [one async for one in read_records(here / "calls.db")]

    denied = [answer["error"] for kind, answer in got if kind == "denied"]
    assert {one["code"] for one in denied} == {-32001}
    assert [one["message"].split()[0] for one in denied] == [method for method, *_ in ASKED]
    assert all("result" in answer for kind, answer in got if kind == "free")
    assert [one["params"] for one in asked] == [free for *_, free in ASKED]
    refused = [one for one in records if one.event == "mcp:request:before" and one.reason]
    assert len(refused) == len(ASKED)
    assert {entry.name for one in refused for entry in one.entries} == {"Policy.judge"}


async def read_records(path):
    """Give the records of the only session in a store."""
    store = SqliteStore(path)
    (session,) = await store.sessions()
    for record in await store.records(session.id):
        yield record
    await store.close()


async def test_a_rewritten_request_is_sent(proxied, policy):
    changing = policy("""
        from toolbus.events import McpRequest
        class Policy(AgentComponent):
            @on(events.MCP_REQUEST_BEFORE)
            def change(self, ctx):
                match ctx.value.uri:
                    case "a":
                        return McpRequest(method="resources/read", params={"uri": "b"})
                    case "x":
                        return McpRequest(method="prompts/get", params={"name": "b"})
                    case "y":
                        return Deny
    """)

    async with proxied("--with", changing) as peer:
        for own in "axyz":
            peer.send(id=own, method="resources/read", params={"uri": own})
        got = {own: await peer.answer(own) for own in "xyaz"}
        asked = [json.loads(line) for line in peer.log()]

    assert [(one["id"], one["params"]["uri"]) for one in asked] == [("a", "b"), ("z", "z")]
    assert "a handler changed the method" in got["x"]["error"]["message"]
    assert got["y"]["error"]["code"] == -32001
    assert got["a"]["result"] == got["z"]["result"] == {"said": "resources/read"}


async def test_a_cancelled_request_ends_before_the_server(proxied, policy):
    slow = policy("""
        class Policy(AgentComponent):
            @guard(events.MCP_REQUEST_BEFORE)
            async def judge(self, ctx):
                if ctx.value.uri == "slow":
                    await asyncio.Event().wait()
    """)

    async with proxied("--with", slow) as peer:
        peer.send(id=1, method="resources/read", params={"uri": "slow"})
        peer.send(method="notifications/cancelled", params={"requestId": 1})
        peer.send(id=2, method="resources/read", params={"uri": "fast"})
        answer = await peer.frame()
        asked = [json.loads(line) for line in peer.log()]

    assert answer["id"] == 2
    assert [one["id"] for one in asked] == [2]


async def test_a_secret_never_reaches_the_client(proxied, policy):
    names = ["echo", "fails", "shaped", "raises"]
    methods = ["initialize", "resources/read", "prompts/get", "fail", "x/result", "x/outside"]

    async with proxied("--with", policy(), body=PLACES) as peer:
        for own, method in enumerate(methods):
            peer.send(id=own, method=method, params={"uri": "a"})
        for own, name in enumerate(names, 10):
            peer.call(own, name)
        peer.send(method="junk")
        code, lines, err = await peer.end()

    frames = [json.loads(line) for line in lines]
    answers = {one["id"]: one for one in frames if "method" not in one}
    told = [one["method"] for one in frames if "method" in one]
    assert code == 0
    assert SECRET.encode() not in b"".join(lines)
    assert len(answers) == len(names) + len(methods) + 1
    assert len(told) == len(names) * 6, err
    content = answers[10]["result"]["content"]
    assert [one["type"] for one in content] == [
        "text", "image", "resource", "resource_link", "novel",
    ]  # fmt: skip
    assert content[0] == {
        "type": "text", "annotations": {"audience": ["[redacted]"]}, "text": "it is [redacted]",
    }  # fmt: skip
    assert content[1]["data"] == "aaaa"
    assert content[4] == {"type": "novel", "payload": {"deep": ["[redacted]"]}}
    assert answers[10]["result"]["structuredContent"]["list"] == ["[redacted]", 1, None, True]
    assert answers[11]["result"]["isError"]
    assert answers[12]["result"]["structuredContent"] == {"n": 1.5, "s": "is [redacted]"}
    assert answers[13]["error"]["code"] == -7
    assert answers[13]["error"]["message"] == "no [redacted]"
    assert answers[0]["result"]["instructions"] == "use [redacted]"
    assert answers[1]["result"]["contents"][1]["blob"] == "aaaa"
    assert answers[2]["result"]["messages"][0]["role"] == "user"


async def test_a_redacted_structure_keeps_its_schema(proxied, policy):
    shaped = """
        TOOLS = [tool("shaped", outputSchema={"type": "object", "required": ["s"],
                 "properties": {"s": {"type": "string"}}})]
        def call(m, name, arguments):
            send(id=m["id"], result=text("", structuredContent={"s": "sk-canary-4242"}))
    """
    breaking = policy(
        """
        from msgspec.structs import replace
        class Policy(AgentComponent):
            @on(events.MESSAGE_APPEND_BEFORE)
            def breaks(self, ctx):
                if isinstance(ctx.value, ToolMessage):
                    response = replace(ctx.value.tool_response, structured={"s": 1})
                    return ctx.value.with_tool_response(response)
    """,
        "breaking.py",
    )

    async with proxied("--with", policy(), body=shaped) as peer:
        kept = await peer.result(1, "shaped")
    async with proxied("--with", breaking, body=shaped) as peer:
        broken = await peer.result(1, "shaped")

    assert kept["structuredContent"] == {"s": "[redacted]"}
    assert broken["isError"]
    assert "structuredContent" not in broken
    assert "breaks" in broken["content"][0]["text"]


async def test_a_failing_adapter_withholds_the_message(proxied, policy):
    crashing = policy("""
        class Crash(ToolAdapter):
            def adapt_response(self, response, call):
                if SECRET in str(response): raise ValueError(SECRET)
        class Policy(AgentComponent):
            def __init__(self):
                self.register_tool_adapter(Crash())
    """)
    talking = """
        S = "sk-canary-4242"
        def call(m, name, arguments):
            send(method="notifications/message", params={"level": "info", "data": S})
            send(id="s", method="sampling/createMessage", params={"text": S})
            send(id=m["id"], result=text(S) if name == "rm" else text("fine"))
        def other(m):
            if "method" in m:
                send(id=m["id"], result={"contents": [{"uri": "a", "text": S}]})
    """

    async with proxied("--with", crashing, body=talking) as peer:
        peer.call(1, "rm")
        peer.send(id=2, method="resources/read", params={"uri": "a"})
        peer.call(3, "echo")
        code, lines, _ = await peer.end()

    frames = {one["id"]: one for one in map(json.loads, lines)}
    assert code == 0
    assert SECRET.encode() not in b"".join(lines)
    assert set(frames) == {1, 2, 3}
    assert frames[1]["result"]["isError"]
    assert "Crash" in frames[2]["error"]["message"]
    assert frames[3]["result"]["content"][0]["text"] == "fine"
    refused = [json.loads(line) for line in peer.log() if b'"error"' in line]
    assert [one["id"] for one in refused] == ["s", "s"]


async def test_resources_and_prompts_are_messages(proxied, policy):
    judging = policy("""
        class Policy(AgentComponent):
            @guard(events.MESSAGE_APPEND_BEFORE)
            def judge(self, ctx):
                if isinstance(ctx.value, ToolMessage) and ctx.value.tool_name == "resources/read":
                    assert ctx.value.tool_response.parameters == {"uri": "a"}
                    return Deny("not that: " + ctx.value.text)
    """)
    talking = """
        def other(m):
            block = {"type": "text", "text": "hello"}
            send(id=m["id"], result={"contents": [{"uri": "a", "text": "b"}],
                                     "messages": [{"role": "user", "content": block}]})
    """

    async with proxied("--with", judging, body=talking) as peer:
        peer.send(id=1, method="resources/read", params={"uri": "a"})
        peer.send(id=2, method="prompts/get", params={"name": "p"})
        resource, prompt = await peer.answer(1), await peer.answer(2)

    assert resource["error"] == {"code": -32001, "message": "not that: b"}
    assert prompt["result"]["messages"][0]["content"]["text"] == "hello"


async def test_the_store_holds_the_session(proxied, policy):
    store = ["--store", "calls.db", "--with", policy()]
    reading = """
        def call(m, name, arguments):
            send(id=m["id"], result=text(f"{name} sk-canary-4242"))
        def other(m):
            send(id=m["id"], result={"contents": [{"uri": "a", "text": "b"}]})
    """

    async with proxied(*store, body=reading) as peer:
        peer.call(1, "echo", n=1)
        peer.call(2, "rm", n=2)
        peer.send(id=3, method="resources/read", params={"uri": "a"})
        code, _, err = await peer.end()

    assert (code, err) == (0, "")
    kept = SqliteStore(peer.here / "calls.db", read_only=True)
    (session,) = await kept.sessions()
    messages = await kept.read(session.id)
    records = await kept.records(session.id)
    await kept.close()
    answers = [one for one in messages if isinstance(one, ToolMessage)]
    asked = {call.id: call for one in messages for call in getattr(one, "tool_calls", ())}
    assert len(messages) == 6
    assert {one.tool_name: one.text for one in answers} == {
        "echo": "echo [redacted]", "rm": "rm [redacted]", "resources/read": "b",
    }  # fmt: skip
    assert all(asked[one.tool_call_id].name == one.tool_name for one in answers)
    assert any(entry.name == "Redact" for one in records for entry in one.entries)


async def test_calls_survive_a_killed_proxy(proxied):
    hanging = """
        def call(m, name, arguments):
            if name == "echo":
                send(id=m["id"], result=text("done"))
    """

    async def kept(path):
        store = SqliteStore(path, read_only=True)
        try:
            return [one for info in await store.sessions() for one in await store.read(info.id)]
        finally:
            await store.close()

    async with proxied("--store", "calls.db", body=hanging) as peer:
        await peer.result(1, "echo")
        peer.call(2, "rm")
        async with asyncio.timeout(60):
            while len(await kept(peer.here / "calls.db")) < 3:
                await asyncio.sleep(0.01)
        peer.process.kill()
        await peer.process.wait()
        messages = await kept(peer.here / "calls.db")

    names = [[call.name for call in getattr(one, "tool_calls", ())] for one in messages]
    assert names == [["echo"], [], ["rm"]]
    assert messages[1].text == "done"


DYING = """
    def other(m):
        sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":1,"res')
        sys.stdout.buffer.flush()
        os.kill(os.getpid(), signal.SIGKILL) if m["method"] == "kill" else sys.exit(3)
    def call(m, name, arguments): ...
"""


@pytest.mark.parametrize(
    ("method", "code", "judged"), [("kill", 137, True), ("exit", 3, True), ("exit", 3, False)]
)
async def test_a_dead_server_leaves_no_request_open(proxied, policy, method, code, judged):
    options = ["--with", policy()] if judged else []

    async with proxied(*options, body=DYING) as peer:
        peer.call(1, "echo")
        peer.call(2, "echo")
        peer.send(id=3, method=method)
        answers = {one["id"]: one for one in [await peer.frame() for _ in range(3)]}
        ended, rest, _ = await peer.end()

    assert set(answers) == {1, 2, 3}
    for one in answers.values():
        assert f"exit code {code}" in one["error"]["message"]
        assert "may have had effects" in one["error"]["message"]
    assert (ended, rest) == (code, [])


@pytest.mark.parametrize(("end", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137)])
async def test_exit_code_and_standard_error_are_kept(start, end, code):
    async with start(*PROXY, "--", "sh", "-c", f"echo oh no >&2; {end}") as peer:
        ended, lines, err = await peer.end()

    assert (ended, lines, err) == (code, [], "oh no\n")


@pytest.mark.parametrize(
    "broken",
    [
        rb'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"te',
        rb'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\xff"}]}}',
        rb'{"jsonrpc":"2.0","id":1,"result":{"_meta":%s}}' % (b"[" * 300 + b"]" * 300),
        rb'{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"n":1%s}}}' % (b"0" * 40),
    ],
)
async def test_an_invalid_response_is_an_error(proxied, policy, broken):
    writing = f"""
        def call(m, name, arguments):
            out({broken!r}.replace(b"\\\\xff", b"\\xff") + b"\\n") if m["id"] == 1 else send(
                id=m["id"], result=text("fine"))
    """

    async with proxied("--with", policy(), body=writing) as peer:
        peer.call(1, "echo")
        first = await peer.answer(1)
        second = await peer.result(2, "echo")

    assert "error" in first or first["result"]["isError"]
    assert second == {"content": [{"type": "text", "text": "fine"}]}


@pytest.mark.parametrize("judged", [True, False])
async def test_unexpected_responses_are_dropped(proxied, policy, judged):
    writing = """
        def call(m, name, arguments):
            for own in ("nobody", m["id"], m["id"], 12345):
                send(id=own, result=text("once"))
    """
    options = ["--with", policy()] if judged else []

    async with proxied(*options, body=writing) as peer:
        peer.call(1, "echo")
        peer.call(2, "echo")
        _, lines, err = await peer.end()

    assert [json.loads(line)["id"] for line in lines] == [1, 2]
    assert err.count("which is not an open request") == 6


@pytest.mark.parametrize("judged", [True, False])
async def test_an_endless_frame_stops_the_server(proxied, policy, judged):
    writing = """
        def call(m, name, arguments):
            out(b"x" * 2**21)
            time.sleep(60)
    """
    options = ["--with", policy()] if judged else []

    async with proxied("--max-frame", "1", *options, body=writing) as peer:
        peer.call(1, "echo")
        answer = await peer.answer(1)
        code, _, err = await peer.end()

    assert "more than 1048576 bytes" in answer["error"]["message"]
    assert "--max-frame" in err
    assert code == 143


async def test_a_large_result_passes(proxied, policy):
    writing = """
        def call(m, name, arguments):
            send(id=m["id"], result=text("x" * 20_000_000))
    """

    async with proxied("--with", policy(), body=writing) as peer:
        peer.call(1, "echo")
        line = await peer.line()

    result = {"content": [{"type": "text", "text": "x" * 20_000_000}]}
    assert json.loads(line) == {"jsonrpc": "2.0", "id": 1, "result": result}


async def test_a_slow_call_times_out(proxied, policy):
    slow = """
        def call(m, name, arguments): ...
    """

    async with proxied("--timeout", "0.2", "--with", policy(), body=slow) as peer:
        result = await peer.result(1, "echo")
        await peer.end()

    assert result["isError"]
    assert "0.2" in result["content"][0]["text"]
    cancelled = [json.loads(line) for line in peer.log()][-1]
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"]["requestId"] == 1


async def test_a_cancelled_call_is_cancelled_at_the_server(proxied, policy):
    slow = """
        def call(m, name, arguments):
            send(method="started") if name == "rm" else send(id=m["id"], result=text("fine"))
        def other(m): ...
    """

    async with proxied("--with", policy(), body=slow) as peer:
        peer.call(1, "rm")
        started = await peer.frame()
        line = b'{"jsonrpc":"2.0", "method":"notifications/cancelled","params":{"requestId":1}}\n'
        peer.write(line)
        result = await peer.result(2, "echo")
        _, rest, _ = await peer.end()

    assert started["method"] == "started"
    assert result["content"][0]["text"] == "fine"
    assert json.loads(line) in map(json.loads, peer.log())
    assert rest == []


STUBBORN = """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    def call(m, name, arguments):
        child = os.fork()
        if not child:
            time.sleep(60)
        send(method="pids", params=[os.getpid(), child])
        while True:
            time.sleep(60)
"""


def alive(pid):
    """Tell whether the process *pid* runs; one that nobody has waited for yet does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


async def gone(*pids):
    """Wait until *pids* have ended: the kernel needs a moment."""
    async with asyncio.timeout(60):
        while any(map(alive, pids)):
            await asyncio.sleep(0.01)


async def test_a_dead_server_delays_nothing(start, policy):
    denying = policy("""
        class Policy(AgentComponent):
            @guard(events.TOOL_CALL_BEFORE)
            def judge(self, ctx): return Deny("not today")
    """)
    options = ["--grace", "7200", "--with", denying]

    async with start(*PROXY, *options, "--", "true") as peer:
        peer.call(1, "echo")
        code, (line,), _ = await peer.end()

    assert json.loads(line)["result"]["content"][0]["text"] == "not today"
    assert code == 0


@pytest.mark.parametrize("judged", [True, False])
async def test_the_server_ends_when_the_client_leaves(proxied, policy, judged):
    options = ["--with", policy()] if judged else []

    async with proxied("--grace", "0.2", *options, body=STUBBORN) as peer:
        peer.call(1, "echo")
        pids = (await peer.frame())["params"]
        code, _, _ = await peer.end()

    assert code == 137
    await gone(*pids)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_killed_proxy_leaves_no_server(proxied, number):
    stubborn = (
        STUBBORN if number == signal.SIGTERM else STUBBORN.replace("os.fork()", "os.getpid()")
    )

    async with proxied("--grace", "0.2", body=stubborn) as peer:
        peer.call(1, "echo")
        pids = (await peer.frame())["params"]
        peer.process.send_signal(number)
        await asyncio.wait_for(peer.process.wait(), 60)

    await gone(*pids)


FAULTY = """
    import random
    dice = random.Random(int(os.environ["SEED"]))
    def call(m, name, arguments):
        open("ran.log", "a").write(f"{arguments['n']}\\n")
        frame = json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": text("fine")}).encode()
        match dice.choice(["good"] * 6 + ["error", "twice", "cut", "utf", "junk", "late", "die"]):
            case "good": out(frame + b"\\n")
            case "error": send(id=m["id"], error={"code": 1, "message": "no"})
            case "twice": out((frame + b"\\n") * 2)
            case "cut": out(frame[: dice.randrange(20, len(frame))] + b"\\n")
            case "utf": out(frame.replace(b"fine", b"\\xff\\xfe") + b"\\n")
            case "junk": out(b"Listening...\\n[[]\\n" + frame + b"\\n")
            case "late": time.sleep(0.3)
            case "die": out(frame[: dice.randrange(len(frame))]); os._exit(9)
"""


@pytest.mark.parametrize(
    "seed",
    [*range(3), *[pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 8)]],
)
async def test_random_faults_leave_each_call_one_answer(proxied, policy, seed, environment, here):
    environment["SEED"] = str(seed)
    dice = random.Random(seed)
    calls = dice.randrange(5, 25)

    async with proxied("--timeout", "0.5", "--with", policy(), body=FAULTY) as peer:
        for own in range(calls):
            if dice.random() < 0.2:
                peer.write(dice.choice([b"{\n", b"\xff\n", b"[]\n", b'{"id":[]}\n', b"\0\n"]))
            peer.call(own, "echo", n=own)
        _, lines, _ = await peer.end()

    answered = [frame["id"] for line in lines if (frame := json.loads(line)).get("id") is not None]
    ran = (here / "ran.log").read_text().split()
    assert sorted(answered) == list(range(calls))
    assert len(ran) == len(set(ran))


HTTP_SERVER = """\
from mcp.server.mcpserver import Context, MCPServer
server = MCPServer("demo")
@server.tool()
async def echo(ctx: Context, said: str) -> str:
    await ctx.report_progress(1, 2, "half of sk-canary-4242")
    return said + " sk-canary-4242"
server.run("streamable-http", port=0)
"""


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.full)])
async def test_an_official_http_server_works(start, here, environment, policy, mode):
    (here / "http_server.py").write_text(HTTP_SERVER)
    async with start(sys.executable, "http_server.py") as server:
        while (at := b"http://127.0.0.1:") not in (line := await server.process.stderr.readline()):
            assert line
        url = "http://127.0.0.1:" + line.partition(at)[2].split()[0].decode() + "/mcp"
        parameters = StdioServerParameters(
            command=PROXY[0],
            args=[*PROXY[1:], "--with", policy(), "--", url],
            env=environment,
            cwd=here,
        )
        told = []

        async def progress(_done, _total, message):
            told.append(message)

        async with Client(stdio_client(parameters), mode=mode) as client:
            tools = (await client.list_tools()).tools
            result = await client.call_tool("echo", {"said": "hi"}, progress_callback=progress)
            failed = await client.call_tool("echo", {})
        server.process.terminate()

    assert [one.name for one in tools] == ["echo"]
    assert result.structured_content == {"result": "hi [redacted]"}
    assert result.content[0].text == "hi [redacted]"
    assert told == ["half of [redacted]"]
    assert failed.is_error


@pytest.fixture
def listen():
    """Return a context manager: an HTTP server that answers with what *take* gives as bytes."""

    @asynccontextmanager
    async def run(take):
        seen = []

        async def serve(reader, writer):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(headers["content-length"]))
            seen.append((head[0].split()[0], headers, json.loads(body) if body else None))
            writer.write(take(*seen[-1]))
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1")
        async with server:
            port = server.sockets[0].getsockname()[1]
            yield f"http://127.0.0.1:{port}/mcp", seen

    return run


def http(body=b"", kind="application/json", status="200 OK", **more):
    """Return an HTTP response, a last one of its connection; a *body* other than bytes is JSON."""
    body = body if isinstance(body, bytes) else json.dumps(body, indent=1).encode()
    named = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in more.items())
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{named}"
    # The server closes then; a client that is not told may lose a request on the closed connection.
    return head.encode() + b"connection: close\r\n\r\n" + body


async def test_headers_carry_session_revision_and_token(start, listen, environment):
    environment["TOOLBUS_PROXY_TOKEN"] = "token-4242"

    def take(method, headers, frame):
        if method == "GET":
            return http(status="405 Method Not Allowed")
        if not frame or "id" not in frame:
            return http(status="202 Accepted")
        result = {"protocolVersion": "2025-11-25", "tools": []}
        return http({"jsonrpc": "2.0", "id": frame["id"], "result": result}, Mcp_Session_Id="s-1")

    async with listen(take) as (url, seen), start(*PROXY, "--", url) as peer:
        peer.send(id=1, method="initialize", params={})
        await peer.answer(1)
        peer.send(method="notifications/initialized")
        peer.send(id=2, method="tools/list")
        await peer.answer(2)
        code, lines, err = await peer.end()

    assert (code, lines, err) == (0, [], "")
    assert {one["authorization"] for _, one, _ in seen} == {"Bearer token-4242"}
    assert "mcp-session-id" not in seen[0][1]
    assert {one["mcp-session-id"] for _, one, _ in seen[1:]} == {"s-1"}
    assert {one["mcp-protocol-version"] for _, one, _ in seen[1:]} == {"2025-11-25"}
    assert [method for method, _, _ in seen][-1] == "DELETE"


@pytest.mark.parametrize("judged", [True, False])
async def test_a_broken_stream_is_resumed(start, listen, policy, judged):
    def event(own, **frame):
        return f"id: {own}\ndata: {json.dumps({'jsonrpc': '2.0', **frame})}\n\n".encode()

    def take(method, headers, frame):
        if method == "GET":
            return http(event("e2", id=1, result={"content": []}), "text/event-stream")
        if frame["method"] == "tools/list":
            return http({"jsonrpc": "2.0", "id": frame["id"], "result": {"tools": []}})
        half = event("e1", method="notifications/message", params={"data": "half"})
        return http(half + b"data: {cut", "text/event-stream")

    options = ["--with", policy()] if judged else []
    async with listen(take) as (url, seen), start(*PROXY, *options, "--", url) as peer:
        peer.call(1, "echo")
        first, second = await peer.frame(), await peer.frame()
        _, rest, _ = await peer.end()

    assert first["params"] == {"data": "half"}
    assert second["result"] == {"content": []}
    assert rest == []
    assert seen[-1][1]["last-event-id"] == "e1"


async def test_a_cancelled_stateless_call_is_disconnected(start):
    got, cut = [], asyncio.Event()

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        got.append(json.loads(await reader.readexactly(length)))
        if "id" in got[-1]:
            await reader.read()
            cut.set()
        else:
            writer.write(http(status="202 Accepted"))
        writer.close()

    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    server = await asyncio.start_server(serve, "127.0.0.1")
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    async with server, start(*PROXY, "--grace", "0.1", "--", url) as peer:
        peer.send(id=1, method="tools/call", params={"name": "echo", "_meta": meta})
        peer.send(id=2, method="tools/call", params={"name": "echo"})
        async with asyncio.timeout(60):
            while len(got) < 2:
                await asyncio.sleep(0.01)
            peer.send(method="notifications/cancelled", params={"requestId": 1})
            await cut.wait()
            peer.send(method="notifications/cancelled", params={"requestId": 2})
            while len(got) < 3:
                await asyncio.sleep(0.01)
        _, lines, _ = await peer.end()

    assert [one.get("id") for one in got[:2]] == [1, 2]
    assert [one["params"]["requestId"] for one in got[2:]] == [2]
    assert lines == []


FAILURES = (
    (http(status="503 Service Unavailable"), "HTTP status 503"),
    (http(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"who?"}}',
          status="401 No"), "who?"),
    (b"SSH-2.0-OpenSSH_9\r\n\r\n", "does not speak HTTP/1.1"),
    (b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{", "was lost"),
    (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{", "was lost"),
    (b"HTTP/1.1 200", "was lost"),
    (http(b"data: {}\n\n", "text/event-stream"), "without a JSON-RPC response"),
    (http(), "without a JSON-RPC response"),
    (http(b"x" * 2_000_000), "more than 1048576 bytes"),
)  # fmt: skip


async def test_an_http_server_that_fails_is_an_error(start, listen):
    failed, answers = [], [answer for answer, _ in FAILURES]
    async with (
        listen(lambda *_: answers[len(failed)]) as (url, _),
        start(*PROXY, "--max-frame", "1", "--", url) as peer,
    ):
        for _ in FAILURES:
            peer.call(1, "echo")
            failed.append(await peer.answer(1))
        code, rest, _ = await peer.end()
    async with start(*PROXY, "--", "http://127.0.0.1:9/mcp") as peer:
        peer.call(1, "echo")
        refused = await peer.answer(1)

    for said, (_, words) in zip(failed, FAILURES, strict=True):
        assert words in said["error"]["message"]
    assert (code, rest) == (0, [])
    assert "cannot connect to 127.0.0.1:9" in refused["error"]["message"]


def test_an_unencrypted_remote_server_causes_a_warning(command, here):
    warned = {}
    for url in ("http://a.example/mcp", "https://a.example/mcp", "http://127.0.0.1:9/mcp"):
        # A log that cannot be written ends the proxy before it connects.
        table = f'[[server]]\nname = "a"\nurl = "{url}"\n'
        (here / "toolbus.toml").write_text(table)
        alone = command("proxy", "--log", "no/where", "--", url)
        listed = command("proxy", "--log", "no/where", "--config", "toolbus.toml")
        warned[url] = ["not encrypted" in done.stderr for done in (alone, listed)]

    assert [*warned.values()] == [[True, True], [False, False], [False, False]]


def test_usage_errors_name_the_mistake(command, here):
    (here / "agent.py").write_text(f"{POLICY}agent = Agent(ScriptedModel([]))\n")

    ends = {
        command("proxy"): "give its command after --",
        command("proxy", "--", "no-such-program"): "cannot start 'no-such-program'",
        command("proxy", "--with", "agent.py:agent", "--", "true"): "give its components",
        command("proxy", "--with", "nowhere.py", "--", "true"): "no file 'nowhere.py'",
        command("proxy", "--timeout", "-1", "--", "true"): "seconds above 0",
        command("proxy", "--max-frame", "x", "--", "true"): "whole number of megabytes",
        command("proxy", "--wiht", "a.py", "--", "true"): "--with",
    }

    for done, words in ends.items():
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
        assert done.stderr.count("\n") == 1

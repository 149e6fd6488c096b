"""The scenarios of `specs/proxy_http.md`."""

import asyncio
import gzip
import json
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from textwrap import dedent

import httpx2
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import ElicitResult

from toolbus.store.sqlite import SqliteStore
from wires import wired

pytestmark = pytest.mark.full  # Many processes and thousands of calls.

SECRET = "sk-canary-4242"
ODD = str(Path(__file__).parents[1] / "servers/odd.py")
BOTH = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
STATELESS = "2026-07-28"
VERSION = "io.modelcontextprotocol/protocolVersion"

POLICY = """\
import asyncio
from toolbus import (
    AgentComponent, Ask, Deny, EventBus, ToolAdapter, ToolMessage, ToolResponse, events, guard, on,
)
SECRET = "sk-canary-4242"
class Redact(ToolAdapter):
    def adapt_response(self, response, call):
        return response.map_text(lambda text: text.replace(SECRET, "[redacted]"))
class Policy(AgentComponent):
    def __init__(self):
        self.register_tool_adapter(Redact())
    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx):
        if ctx.value.name == "rm":
            return Deny("not this one")
        return Ask("may it?") if ctx.value.name == "ask" else None
"""


def frame(own=None, method=None, **more):
    """Return the bytes of a frame."""
    named = ({} if own is None else {"id": own}) | ({} if method is None else {"method": method})
    return json.dumps({"jsonrpc": "2.0", **named, **more}).encode()


def call(own, name, meta=None, **arguments):
    """Return the bytes of a tool call."""
    params = {"name": name, "arguments": arguments} | ({"_meta": meta} if meta else {})
    return frame(own, "tools/call", params=params)


def stateless(own, name, meta=None, **arguments):
    """Return the body and the headers of a tool call that stands for itself."""
    more = {"mcp-protocol-version": STATELESS, "mcp-method": "tools/call", "mcp-name": name}
    capable = {"io.modelcontextprotocol/clientCapabilities": {}}
    return call(own, name, {VERSION: STATELESS, **capable, **(meta or {})}, **arguments), more


def event(own=None, retry=None, **members):
    """Return the bytes of an event that carries a frame."""
    named = b"" if own is None else f"id: {own}\n".encode()
    again = b"" if retry is None else f"retry: {retry}\n".encode()
    return named + again + b"data: " + json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n\n"


def answer(body=b"", kind="application/json", status="200 OK", **more):
    """Return an HTTP answer."""
    named = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in more.items())
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{named}"
    return head.encode() + b"\r\n" + body


def frames_in(reply):
    """Return the frames that an answer carries, as JSON or as events."""
    if reply.headers.get("content-type", "").startswith("text/event-stream"):
        return [
            json.loads(text) for text in re.findall(r"^data: ?(\S.*)$", reply.text, re.MULTILINE)
        ]
    return [json.loads(reply.text)] if reply.text.strip() else []


class Web:
    """A client of a server at *url*, whose *session* is remembered."""

    def __init__(self, url, http):
        self.url, self.http, self.session = url, http, {}

    async def post(self, body, **headers):
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return await self.http.post(
            self.url, content=body, headers={**BOTH, **self.session, **named}
        )

    async def begin(self, version="2025-11-25", **capabilities):
        params = {"protocolVersion": version, "capabilities": capabilities,
                  "clientInfo": {"name": "t", "version": "1"}}  # fmt: skip
        begun = await self.post(frame(0, "initialize", params=params))
        assert begun.status_code == 200, begun.text
        if "mcp-session-id" in begun.headers:
            self.session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        await self.post(frame(None, "notifications/initialized"))
        return begun

    async def answer(self, own, name, meta=None, **arguments):
        """Return the answer to a call."""
        found = frames_in(await self.post(call(own, name, meta, **arguments)))
        return next(one for one in found if one.get("id") == own and "method" not in one)

    async def text(self, own, name, **arguments):
        return (await self.answer(own, name, **arguments))["result"]["content"][0]["text"]

    def stream(self, method, body=b"", **headers):
        """Return a context manager: an answer that is read as it comes."""
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        sent = {**BOTH, **self.session, **named}
        return self.http.stream(method, self.url, content=body, headers=sent)


async def events_of(reply):
    """Give the events of a stream, each a dictionary of its fields."""
    found = {}
    async for line in reply.aiter_lines():
        name, _, value = line.partition(": ")
        if line:
            found[name] = value
        elif found:
            yield found
            found = {}


@pytest.fixture
def here(tmp_path, environment):
    return tmp_path / "here"


@pytest.fixture
def policy(here):
    """Return the option for handlers; *body* is added to them."""

    def write(body=""):
        (here / "policy.py").write_text(POLICY + dedent(body))
        return ["--with", "policy.py:Policy"]

    return write


@pytest.fixture(params=[False, True], ids=["plain", "judged"])
def handlers(request, policy):
    """Return the option for handlers, or for none."""
    return policy() if request.param else []


@pytest.fixture
def listening(here, environment):
    """Return a context manager: a proxy with *options* that listens, and a client of it."""

    @asynccontextmanager
    async def run(*options, host="127.0.0.1", **variables):
        where = ["--listen", f"{host}:0"]
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", "toolbus", "proxy", *where, *map(str, options)],
            cwd=here,
            env=environment | variables,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said = await asyncio.wait_for(process.stderr.readline(), 60)
        if b"may use the proxy" in said:
            said = await asyncio.wait_for(process.stderr.readline(), 60)
        found = re.fullmatch(rb"toolbus: listening on (http://[0-9.]+:\d+/\S*)\n", said)
        assert found, said
        async with httpx2.AsyncClient(timeout=60, limits=httpx2.Limits()) as http:
            web = Web(found[1].decode(), http)
            web.process = process
            err = asyncio.create_task(process.stderr.read())

            async def end(number=signal.SIGTERM):
                """Return the exit code and what was logged."""
                if process.returncode is None:
                    process.send_signal(number)
                await asyncio.wait_for(process.wait(), 60)
                return process.returncode, (await err).decode()

            web.end = end
            try:
                yield web
            finally:
                await end(signal.SIGKILL if process.returncode is None else signal.SIGTERM)

    return run


@pytest.fixture
def odd(here, environment):
    """Return a context manager: the odd server over HTTP, and a client that goes straight to it."""

    @asynccontextmanager
    async def run():
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, ODD, "odd.log", "0"],
            cwd=here,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        port = int(await asyncio.wait_for(process.stdout.readline(), 60))
        async with httpx2.AsyncClient(timeout=60) as http:
            yield Web(f"http://127.0.0.1:{port}/mcp", http)
        process.kill()
        await process.wait()

    return run


@pytest.fixture
def raw():
    """Return a context manager: a server that answers with the bytes that *take* gives."""

    @asynccontextmanager
    async def run(take):
        seen = []

        async def serve(reader, writer):
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while await serve_one(reader, writer):
                    pass
            writer.close()

        async def serve_one(reader, writer):
            """Answer a request; tell whether the answer has an end of its own."""
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            pairs = [line.split(": ", 1) for line in lines[1:] if line]
            headers = [(name.lower(), value) for name, value in pairs]
            length = dict(headers).get("content-length", 0)
            body = await reader.readexactly(int(length))
            seen.append((lines[0].split()[0], headers, body))
            said = take(lines[0].split()[0], dict(headers), body)
            said = said if isinstance(said, bytes) else await said(reader, writer)
            writer.write(said)
            await writer.drain()
            length = re.match(rb"HTTP/1.1 .*?\r\ncontent-length: (\d+)\r\n", said, re.DOTALL)
            return length and int(length[1]) == len(said.partition(b"\r\n\r\n")[2])

        server = await asyncio.start_server(serve, "127.0.0.1", limit=2**27)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", seen

    return run


def noted(here):
    """Return what the odd server has lived through."""
    path = here / "odd.log"
    return path.read_text().split() if path.exists() else []


async def until(condition):
    """Wait until *condition* holds."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


# --- an address ---------------------------------------------------------------------------------


async def test_one_line_names_the_address(listening):
    async with listening("--path", "/here", "--", sys.executable, ODD, "odd.log") as web:
        begun = await web.begin()
        code, logged = await web.end()

    assert web.url.endswith("/here")
    assert frames_in(begun)[0]["result"]["serverInfo"]["name"] == "odd"
    assert (code, logged) == (0, "a line on standard error\n")


def test_without_h11_the_extra_is_named(command, here, tmp_path):
    (tmp_path / "site/h11").mkdir(parents=True)
    (tmp_path / "site/h11/__init__.py").write_text("raise ImportError('there is none')\n")
    source = f"{tmp_path / 'site'}{os.pathsep}{Path(sys.modules['toolbus'].__file__).parents[1]}"

    refused = [
        command("proxy", "--listen", "0", "--", "true", PYTHONPATH=source),
        command("proxy", "--", "http://127.0.0.1:9/mcp", PYTHONPATH=source),
    ]
    served = command("proxy", "--", "true", PYTHONPATH=source)

    assert [ended.returncode for ended in (*refused, served)] == [2, 2, 0]
    assert all("`pip install '.[http]'`" in ended.stderr for ended in refused)
    assert [ended.stderr.count("\n") for ended in refused] == [1, 1]


def test_invalid_addresses_are_named(command):
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        ends = {
            command("proxy", "--listen", "x", "--", "true"): "a host and a port, not 'x'",
            command("proxy", "--listen", "70000", "--", "true"): "not '70000'",
            command("proxy", "--listen", "0", "--path", "mcp", "--", "true"): "begins with /",
            command("proxy", "--listen", port, "--", "true"): f"cannot listen on 127.0.0.1:{port}",
            command("proxy", "--listen", "0", "--", "no-such-program"): "cannot start 'no-such-pro",
            command("proxy", "--listen", "0.0.0.0:0", "--", "true"): "set TOOLBUS_LISTEN_TOKEN",
            command("proxy", "--listen", "0", "--max-sessions", "0", "--", "true"): "from 1 up",
        }

    for done, words in ends.items():
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
        assert done.stderr.count("\n") == 1


# --- the relay ----------------------------------------------------------------------------------


async def lived(client):
    """Return what a client of the SDK lives through with the odd server."""
    told = []

    async def progress(done, total, message):
        told.append((done, total, message))

    async with client:
        tools = [one.name for one in (await client.list_tools()).tools]
        results = [
            await client.call_tool(name, arguments, progress_callback=progress)
            for name, arguments in [
                ("add", {"a": 1, "b": 2}),
                ("mixed", {}),
                ("steps", {}),
                ("fail", {}),
                ("add", {"a": -1, "b": 3}),
                ("big", {"size": 100_000}),
            ]
        ]
        try:
            results.append(await client.call_tool("refuse", {}))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the same
            results.append(repr(error))
        if client.protocol_version != STATELESS:
            results.append(await client.call_tool("greet", {}))
        return client.protocol_version, tools, told, results


async def elicited(_context, _params):
    return ElicitResult(action="accept", content={"name": "Ada"})


@pytest.mark.parametrize("mode", ["legacy", STATELESS])
async def test_a_relay_gives_the_official_client_equal_results(odd, listening, policy, mode):
    async with AsyncExitStack() as stack:
        direct = await stack.enter_async_context(odd())
        plain = await stack.enter_async_context(listening("--", direct.url))
        judged = await stack.enter_async_context(listening(*policy(), "--", direct.url))

        straight, *relayed = [
            await lived(Client(one.url, mode=mode, elicitation_callback=elicited))
            for one in (direct, plain, judged)
        ]

    assert straight[0] == (STATELESS if mode == STATELESS else "2025-11-25")
    assert len(straight[3]) == (7 if mode == STATELESS else 8)
    assert relayed == [straight, straight]


ODDITIES = [
    answer(b'{ "jsonrpc":"2.0",\r\n "id" : 1,"result":{"x":1.0, "y":"\\u00e9"} }', x_more="1"),
    answer(b': hi\n\nid: p\nretry: 1500\ndata:\n\nevent: message\r\nid: 7\r\ndata: {"jsonrpc":'
           b'"2.0",\ndata:  "id":1,"result":{}}\n\n: bye\n\n', "text/event-stream",
           cache_control="no-cache"),
    answer(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"gone"}}\n',
           status="404 Not Found"),
    answer(b"<h1>who?</h1>", "text/html; charset=x", "401 Unauthorized",
           www_authenticate='Bearer resource_metadata="https://x/y"'),
    answer(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}', status="404 No"),
    answer(status="202 Accepted"),
    answer(b"", "text/plain", "405 Method Not Allowed", allow="POST"),
]  # fmt: skip

BODIES = [
    ("POST", b'{"jsonrpc" : "2.0",\n "id":1, "method":"x/odd", "params":[1.0, "\\u00e9"]}'),
    ("POST", b'{"jsonrpc":"2.0","method":"notifications/odd"}'),
    ("POST", b'{"jsonrpc":"2.0","id":"s","result":{"roots":[]}}'),
    ("GET", b""),
    ("DELETE", b""),
]


def metadata_of(web):
    """Return where a relay has the metadata that a client needs for a login through it."""
    return web.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")


async def test_requests_and_answers_keep_their_bytes(raw, listening):
    said = [ODDITIES[0]]
    own = {"mcp-session-id": "s-1", "x-odd": "caf\u00e9".encode("latin-1"), "cookie": "a=b"}
    plain = [*ODDITIES[2:4], *ODDITIES[5:]]
    kinds = [
        (method, body, one)
        for method, body in BODIES
        for one in (ODDITIES[:5] if b"x/odd" in body else plain)
    ]

    async with raw(lambda *_: said[0]) as (url, seen), listening("--", url) as web:
        got = []
        for target in (url, web.url):
            for method, body, said[0] in kinds:
                reply = await web.http.request(
                    method, f"{target}?a=b", content=body, headers={**BOTH, **own}
                )
                got.append((reply.status_code, sorted(reply.headers.multi_items()), reply.content))

    straight, relayed = seen[: len(kinds)], seen[len(kinds) :]
    dropped = {"connection", "accept-encoding", "host", "content-length"}
    for one, other in zip(straight, relayed, strict=True):
        assert (one[0], one[2]) == (other[0], other[2])
        kept, passed = (
            [p for p in headers if p[0] not in dropped] for headers in (one[1], other[1])
        )
        assert kept == passed
    for one, other in zip(got[: len(kinds)], got[len(kinds) :], strict=True):
        assert (one[0], one[2]) == (other[0], other[2])
        expected = [
            (name, value.replace("https://x/y", metadata_of(web))) for name, value in one[1]
        ]
        assert [p for p in expected if p[0] != "content-length"] == [
            p for p in other[1] if p[0] not in {"content-length", "transfer-encoding"}
        ]


async def test_host_is_replaced_and_origin_passes(raw, listening):
    said = answer(b'{"jsonrpc":"2.0","id":1,"result":{}}', keep_alive="timeout=5", x_kept="yes")
    about = {"origin": "http://localhost:3000", "connection": "x-drop, keep-alive", "x-drop": "1",
             "keep-alive": "5", "te": "trailers", "proxy-authorization": "Basic x"}  # fmt: skip
    async with raw(lambda *_: said) as (url, seen), listening("--", url) as web:
        reply = await web.post(frame(1, "ping"), **about)

    headers = dict(seen[0][1])
    assert headers["host"] == url.removeprefix("http://").removesuffix("/mcp")
    assert headers["origin"] == "http://localhost:3000"
    assert not {"x-drop", "keep-alive", "te", "proxy-authorization"} & headers.keys()
    assert "keep-alive" not in reply.headers
    assert reply.headers["x-kept"] == "yes"


async def test_a_relay_withholds_what_handlers_withhold(raw, listening, policy):
    text = {
        "content": [{"type": "text", "text": f"a {SECRET}"}],
        "structuredContent": {"a": SECRET},
    }
    told = {"level": "info", "data": f"log {SECRET}"}

    def take(method, headers, body):
        kind, stream = headers.get("x-kind"), "text/event-stream"
        asked = json.loads(body or b"{}")
        if asked.get("method") == "tools/list":
            tools = [{"name": "echo", "inputSchema": {"type": "object"}}]
            return answer(frame(asked["id"], result={"tools": tools}))
        if kind == "events" or method == "GET":
            said = event(1, method="notifications/message", params=told)
            own = b"" if method == "GET" else event(2, id=1, result=text)
            return answer(b": " + SECRET.encode() + b"\n\n" + said + own, stream)
        if kind == "html":
            return answer(SECRET.encode(), "text/html", "500 No")
        if kind == "null":
            error = {"code": -32000, "message": SECRET}
            return answer(json.dumps({"id": None, "error": error}).encode(), status="400 No")
        return answer(frame(1, result=text))

    async with raw(take) as (url, seen), listening(*policy(), "--", url) as web:
        got = [await web.post(call(1, "echo"), x_kind=kind) for kind in ("", "events", "html")]
        got.append(await web.post(call(1, "echo"), x_kind="null"))
        got.append(await web.post(frame(None, "notifications/x"), x_kind="html"))
        got.append(await web.http.get(web.url, headers={"accept": "text/event-stream"}))
        denied = frames_in(await web.post(call(1, "rm")))
    called = [json.loads(one[2])["method"] for one in seen if b"rm" in one[2]]

    assert all(SECRET not in one.text for one in got)
    assert all("[redacted]" in one.text for one in got)
    assert [one.status_code for one in got] == [200, 200, 500, 400, 500, 200]
    assert [one.get("id") for one in frames_in(got[1])] == [None, 1]
    assert denied[0]["result"]["content"][0]["text"] == "not this one"
    assert called == []


async def test_headers_repeat_a_rewritten_call(raw, listening, policy):
    rewrite = """\
        class Policy(Policy):
            @on(events.TOOL_CALL_BEFORE)
            def move(self, ctx):
                return ctx.value.merge_arguments({"region": "süd", "at": {"deep": True}, "n": 2})
        """
    deep = {"type": "object", "properties": {"deep": {"type": "boolean", "x-mcp-header": "Deep"}}}
    marked = {"type": "string", "x-mcp-header": "Region"}
    schema = {"type": "object", "properties": {"region": marked, "at": deep, "n": {}}}

    def take(_method, _headers, body):
        asked = json.loads(body)
        tools = [{"name": "move", "inputSchema": schema}]
        return answer(frame(asked["id"], result={"tools": tools, "content": []}))

    async with raw(take) as (url, seen), listening(*policy(rewrite), "--", url) as web:
        body, headers = stateless(1, "move", region="west", at={"deep": False})
        headers |= {"mcp-param-region": "west", "mcp-param-deep": "false"}
        await web.http.post(web.url, content=body, headers=BOTH | headers)

    listed, moved = ({k: v for k, v in one[1] if k.startswith("mcp-")} for one in seen)
    assert listed == {"mcp-protocol-version": STATELESS, "mcp-method": "tools/list"}
    assert moved == {
        "mcp-protocol-version": STATELESS,
        "mcp-method": "tools/call",
        "mcp-name": "move",
        "mcp-param-region": "=?base64?c8O8ZA==?=",
        "mcp-param-deep": "true",
    }
    assert json.loads(seen[1][2])["params"]["arguments"]["region"] == "süd"


async def test_stateless_calls_share_a_tool_list(raw, listening, policy):
    def take(_method, _headers, body):
        tools = [{"name": "echo", "inputSchema": {"type": "object"}}]
        return answer(frame(json.loads(body)["id"], result={"tools": tools, "content": []}))

    async with raw(take) as (url, seen), listening(*policy(), "--", url) as web:
        for who in ("Bearer a", "Bearer a", "Bearer b"):
            for own in (1, 2):
                body, headers = stateless(own, "echo")
                named = BOTH | headers | {"authorization": who, "x-request-id": f"{who} {own}"}
                await web.http.post(web.url, content=body, headers=named)
    asked = [(json.loads(one[2])["method"], dict(one[1])["authorization"]) for one in seen]

    assert [who for method, who in asked if method == "tools/list"] == ["Bearer a", "Bearer b"]
    assert sum(method == "tools/call" for method, _ in asked) == 6


HIDE = """
    class Hide(ToolAdapter):
        tools = ("echo",)
        def adapt_response(self, response, call):
            return response.map_text(lambda text: text.replace("canary", "[hidden]"))
    class Policy(AgentComponent):
        def __init__(self):
            self.register_tool_adapter(Hide())
"""


async def test_a_stateless_task_belongs_to_its_client(raw, listening, policy):
    def take(_method, _headers, body):
        asked = json.loads(body)
        done = {"content": [{"type": "text", "text": "a canary"}]}
        state = {"taskId": "t1", "status": "completed", "result": done}
        return answer(frame(asked["id"], result={"tools": [], "content": [], **state}))

    async with raw(take) as (url, _), listening(*policy(HIDE), "--", url) as web:

        async def ask(method, name, who):
            params = {"name": name, "taskId": name, "arguments": {}, "_meta": {VERSION: STATELESS}}
            body = frame(1, method, params=params)
            headers = {"mcp-method": method, "mcp-name": name, "authorization": who}
            named = BOTH | headers | {"mcp-protocol-version": "2026-07-28"}
            return (await web.http.post(web.url, content=body, headers=named)).json()

        await ask("tools/call", "echo", "Bearer a")
        own, other = [await ask("tasks/get", "t1", f"Bearer {who}") for who in "ab"]

    assert own["result"]["result"]["content"][0]["text"] == "a [hidden]"
    assert "no call of this session created the task" in other["error"]["message"]


@pytest.mark.parametrize("judged", [False, True])
async def test_a_relayed_stream_can_be_resumed(raw, listening, policy, judged, here):
    count = """\
        class Policy(Policy):
            @on(events.MESSAGE_APPEND_BEFORE)
            def look(self, ctx):
                if getattr(ctx.value, "tool_response", None):
                    print("saw", ctx.value.tool_response.text, file=open("saw.log", "a"))
        """

    def take(method, headers, body):
        if method == "GET":
            assert headers["last-event-id"] in {"e1", "e2"}
            said = [
                event("e2", method="notifications/message", params={"data": "on"}),
                event("e3", id=1, result={"content": [{"type": "text", "text": "done"}]}),
            ]
            return answer(b"".join(said), "text/event-stream")  # fmt: skip
        if b"tools/list" in body:
            said = [
                b"id: x1\nretry: 9\ndata:\n\n",
                event("x2", method="notifications/message", params={"data": "soon"}),
                event("x3", id=json.loads(body)["id"], result={"tools": []}),
            ]
            return answer(b"".join(said), "text/event-stream")
        if b"initialize" in body:
            result = {"protocolVersion": "2025-11-25", "capabilities": {}}
            return answer(frame(0, result=result), mcp_session_id="s-1")
        return answer(b"id: e1\nretry: 10\ndata:\n\n", "text/event-stream")

    options = policy(count) if judged else []
    async with raw(take) as (url, _), listening(*options, "--", url) as web:
        await web.begin()
        first = await web.post(call(1, "echo"))
        last = {**web.session, "accept": "text/event-stream", "last-event-id": "e1"}
        resumed = [await web.http.get(web.url, headers=last) for _ in range(2)]

    assert first.content.endswith(b"id: e1\nretry: 10\ndata:\n\n")
    assert re.findall(r"^(?:id|retry): (.*)$", first.text, re.MULTILINE) == ["e1", "10"]
    assert [one["params"]["data"] for one in frames_in(first)] == ["soon"] * judged
    for one in resumed:
        assert re.findall(r"^id: (.*)$", one.text, re.MULTILINE) == ["e2", "e3"]
        assert frames_in(one)[-1]["result"]["content"][0]["text"] == "done"
    assert not judged or (here / "saw.log").read_text().count("saw done") == 1


async def test_a_closed_connection_closes_the_server_s(odd, raw, listening, handlers, here):
    ends = []

    async def hang(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hi\n\n")
        ends.append(await reader.read())
        return b""

    def take(_method, _headers, body):
        if b"tools/list" in body:
            return answer(frame(json.loads(body)["id"], result={"tools": []}))
        return hang

    async with raw(take) as (url, _), listening(*handlers, "--", url) as web:
        async with web.stream("POST", call(1, "echo")) as reply:
            await anext(reply.aiter_bytes())
        await until(lambda: ends)
    async with odd() as direct, listening(*handlers, "--", direct.url) as web:
        body, headers = stateless(1, "hang")
        asking = asyncio.create_task(web.http.post(web.url, content=body, headers=BOTH | headers))
        await until(lambda: "hang" in noted(here))
        asking.cancel()
        await until(lambda: "cancelled" in noted(here))
        body, headers = stateless(1, "add", a=1, b=2)
        after = await web.http.post(web.url, content=body, headers=BOTH | headers)

    assert ends == [b""]
    assert frames_in(after)[0]["result"]["structuredContent"] == {"total": 3}


@pytest.mark.parametrize("approved", [True, False])
async def test_a_guard_s_question_uses_the_stream(raw, listening, policy, approved):
    def take(_method, _headers, body):
        asked = json.loads(body)
        if "id" not in asked:
            return answer(status="202 Accepted")
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "tools": [],
                  "content": [{"type": "text", "text": "ran"}]}  # fmt: skip
        return answer(frame(asked["id"], result=result), mcp_session_id="s-1")

    async with raw(take) as (url, seen), listening(*policy(), "--", url) as web:
        await web.begin(elicitation={})
        got = []
        async with web.stream("POST", call(1, "ask", x=1)) as reply:
            async for one in events_of(reply):
                got.append(json.loads(one["data"]))
                if got[-1].get("method") == "elicitation/create":
                    said = {"action": "accept", "content": {"approve": approved}}
                    accepted = await web.post(frame(got[-1]["id"], result=said))
    methods = [json.loads(one[2]).get("method") for one in seen]

    assert "may it?" in got[0]["params"]["message"]
    assert accepted.status_code == 202
    assert got[-1]["id"] == 1
    assert (got[-1]["result"]["content"][0]["text"] == "ran") is approved
    assert methods.count("tools/call") == int(approved)
    assert None not in methods


async def bytes_of(web, body):
    """Return what comes of the answer to *body*, which may be cut."""
    parts = []
    with suppress(httpx2.RemoteProtocolError):
        async with web.stream("POST", body) as reply:
            async for part in reply.aiter_bytes():
                parts.append(part)  # noqa: PERF401 - a cut answer raises, and its parts are kept
    return b"".join(parts)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", "does not speak HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{", "was lost"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{", "was lost"),
        (b"HTTP/1.1 200", "was lost"),
        (answer(b"data: {}\n\n", "text/event-stream"), "without a JSON-RPC response"),
        (answer(status="202 Accepted"), "not valid JSON-RPC"),
        (answer(b"[[[" * 9), "not valid JSON-RPC"),
        (answer(b"x" * 2_000_000), "more than 1048576 bytes"),
        (answer(b"data: " + b"x" * 2_000_000, "text/event-stream"), "more than 1048576 bytes"),
        (answer(status="307 Over There", location="http://127.0.0.1:9/"), "the server redirected"),
    ],
)
async def test_a_failing_server_leaves_an_error(raw, listening, handlers, said, words):
    def take(_method, _headers, body):
        listed = json.loads(body)["method"] == "tools/list"
        return answer(frame(json.loads(body)["id"], result={"tools": []})) if listed else said

    options = ["--max-frame", "1", *handlers]
    async with raw(take) as (url, seen), listening(*options, "--", url) as web:
        if whole := not handlers and re.search(rb"^HTTP/.*?\r\n\r\n.*", said, re.DOTALL):
            passed = await bytes_of(web, call(1, "echo"))
        else:
            failed = frames_in(await web.post(call(1, "echo")))
        again = frames_in(await web.post(frame(2, "tools/list")))
    async with listening(*options, "--", "http://127.0.0.1:9/mcp") as web:
        refused = await web.post(call(1, "echo"))
        noticed = await web.post(frame(None, "notifications/x"))

    if whole:
        assert passed in {whole[0].partition(b"\r\n\r\n")[2], whole[0].rpartition(b"\r\n")[2]}
    else:
        assert [one["id"] for one in failed if "id" in one] == [1]
        assert words in failed[-1]["error"]["message"]
    assert again[0]["result"] == {"tools": []}
    assert sum(b'"echo"' in one[2] for one in seen) == 1
    assert (refused.status_code, noticed.status_code) == (502, 502)
    assert "cannot connect to 127.0.0.1:9" in frames_in(refused)[0]["error"]["message"]


async def test_a_relay_drops_idle_sessions(raw, listening, policy, here):
    def take(_method, _headers, body):
        if b"initialize" not in body:
            return answer(frame(1, result={"messages": []}))
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "instructions": SECRET}
        return answer(frame(0, result=result), mcp_session_id="s-1")

    options = ["--idle", "0.3", "--store", "calls.db", *policy()]
    async with raw(take) as (url, _), listening(*options, "--", url) as web:
        begun = await web.begin()
        kept = SqliteStore(here / "calls.db", read_only=True)
        async with kept, asyncio.timeout(60):
            while not (sessions := await kept.sessions()):
                await asyncio.sleep(0.01)
            records = [one for each in sessions for one in await kept.records(each.id)]
        served = await web.post(frame(1, "prompts/get", params={"name": "p"}))

    assert SECRET not in begun.text
    assert any(entry.name == "Redact" for one in records for entry in one.entries)
    assert frames_in(served) == [{"jsonrpc": "2.0", "id": 1, "result": {"messages": []}}]


def dispatched(body):
    """Return the events that the HTML standard, 9.2.6, finds in *body*, and its lines."""
    lines = re.split(rb"\r\n|\r|\n", body.removeprefix(b"\xef\xbb\xbf"))
    found, data, last = [], [], None
    for line in lines:
        name, _, value = line.partition(b":")
        if not line and data:
            found.append((last, b"\n".join(data)))
            data = []
        elif name == b"data":
            data.append(value.removeprefix(b" "))
        elif name == b"id":
            last = value.removeprefix(b" ")
    return found, lines


async def test_filtered_events_are_rewritten(raw, listening, policy):
    text = {"content": [{"type": "text", "text": f"a {SECRET}"}]}
    own = frame(1, result=text)
    note = frame(None, "notifications/message", params={"level": "info", "data": "n"})
    streams = [
        b"id: 1\rdata: " + own + b"\r\rid: 2\n\n",
        b"id: 1\r\n: x\rdata: " + own + b"\r\n\r\n",
        b"\xef\xbb\xbfdata: " + own + b"\n\n",
        b"event: " + SECRET.encode() + b"\ndata: " + own + b"\n\n",
        b"event: message\nx: " + SECRET.encode() + b"\n: " + SECRET.encode() + b"\ndata: "
        + own.replace(b", ", b",\ndata:") + b"\n\n",
        b"id: 7\0" + SECRET.encode() + b"\nretry: " + b"9" * 5000 + b"\ndata:" + own + b"\n\n",
        b"id: 7\xe2\x80\xa8data: " + own + b"\nretry: 5\ndata: " + note + b"\n\ndata: " + own
        + b"\n\n",
    ]  # fmt: skip
    said = []

    def take(_method, _headers, body):
        if b"tools/list" in body:
            return answer(frame(json.loads(body)["id"], result={"tools": []}))
        return answer(said[0], "text/event-stream")

    async with raw(take) as (url, _), listening(*policy(), "--", url) as web:
        got = []
        for said[:] in ([one] for one in streams):
            got.append(await web.post(call(1, "echo")))

    for one in got:
        found, lines = dispatched(one.content)
        assert SECRET not in one.text
        known = rb"id: \d+|event: message|retry: \d+|data:.*|:|"
        assert all(re.fullmatch(known, line) for line in lines), one.content
        assert json.loads(found[-1][1])["result"]["content"][0]["text"] == "a [redacted]"
    assert [len(dispatched(one.content)[0]) for one in got] == [1, 1, 1, 1, 1, 1, 2]
    assert dispatched(got[0].content)[0][0][0] == b"1"
    assert dispatched(got[5].content)[0][0][0] is None


async def test_filtered_responses_are_rewritten(raw, listening, policy):
    quiet = """\
        class Quiet(AgentComponent):
            @on(events.MESSAGE_APPEND_BEFORE)
            def look(self, ctx): return None
        """
    policy(quiet)
    result = frame(1, result={"content": []})
    bodies = [
        (result, "200 OK"),
        (b"\xef\xbb\xbf" + result, "200 OK"),
        (b"\xef\xbb\xbf" + result, "500 No"),
        (result.decode().encode("utf-16"), "500 No"),
        (b"<h1>who?</h1>", "401 Unauthorized"),
        (b"", "202 Accepted"),
    ]
    said = []
    async with (
        raw(lambda *_: answer(said[0][0], "text/html", said[0][1])) as (url, _),
        listening("--with", "policy.py:Quiet", "--", url) as web,
    ):
        got = []
        for said[:] in ([one] for one in bodies):
            asked = frame(1, "ping") if said[0][0] else frame(None, "notifications/x")
            got.append(await web.post(asked))

    assert [one.status_code for one in got] == [200, 200, 500, 500, 401, 202]
    assert got[0].json()["result"] == {"content": []}
    assert all(one.json()["error"]["message"] for one in got[1:5])
    assert all(one.json()["id"] == 1 for one in got[1:5])
    assert {one.headers["content-type"] for one in got[:5]} == {"application/json"}
    assert "who?" in got[4].text
    assert got[5].content == b""


async def test_compressed_bodies_are_refused(raw, listening, handlers):
    result = {"content": [{"type": "text", "text": "hidden"}]}
    stored = gzip.compress(frame(1, result=result), 0)
    squeezed = gzip.compress(call(1, "echo"))

    def take(_method, _headers, body):
        if b"tools/list" in body:
            return answer(frame(json.loads(body)["id"], result={"tools": []}))
        return answer(stored, content_encoding="gzip")

    async with raw(take) as (url, seen), listening(*handlers, "--", url) as web:
        came = await web.post(call(1, "echo"))
        sent = await web.post(squeezed, content_encoding="gzip")
        plain = await web.post(call(2, "echo"), content_encoding="x-gzip")
        odd = await web.post(call(3, "echo"), content_type="application/json; charset=utf-7")

    if handlers:
        assert "hidden" not in came.text
        assert came.json()["id"] == 1
        assert "compressed" in came.json()["error"]["message"]
        assert [one.status_code for one in (came, sent, plain, odd)] == [502, 415, 415, 415]
        assert [one.json()["id"] for one in (sent, plain, odd)] == [None, 2, 3]
        assert sum(b"echo" in one[2] for one in seen) == 1
    else:
        assert came.json()["result"] == result
        assert [one[2] for one in seen][1] == squeezed
        assert dict(seen[1][1])["content-encoding"] == "gzip"
        assert dict(seen[3][1])["content-type"] == "application/json; charset=utf-7"


async def test_only_three_methods_pass(raw, listening, handlers):
    methods = ["PUT", "PATCH", "OPTIONS", "HEAD", "TRACE", "FOO", "LINK", "GET", "DELETE"]
    said = answer(frame(1, result={}))
    async with raw(lambda *_: said) as (url, seen), listening(*handlers, "--", url) as web:
        got = {}
        for method in methods:
            for body in (call(1, "rm"), b""):
                reply = await web.http.request(method, web.url, content=body, headers=BOTH)
                got[method, bool(body)] = reply.status_code, reply.headers.get("allow")
        asks = {"origin": "http://localhost:1", "access-control-request-method": "POST"}
        preflight = await web.http.options(web.url, headers=asks)

    for (method, body), (status, allow) in got.items():
        if method in {"GET", "DELETE"}:
            assert (status == 400) is body
        else:
            assert (status, allow) == (405, "GET, POST, DELETE")
    assert [one[0] for one in seen] == ["GET", "DELETE", "OPTIONS"]
    assert {one[2] for one in seen} == {b""}
    assert preflight.status_code == 200


async def test_contradicting_headers_are_refused(raw, listening, policy):
    def take(_method, _headers, body):
        return answer(frame(json.loads(body)["id"], result={"tools": [], "content": []}))

    body, good = stateless(1, "echo", where="west", n=1)
    older = {"mcp-protocol-version": "2025-11-25"}
    bad = [
        good | {"mcp-name": "rm"},
        good | {"mcp-method": "tools/list"},
        good | {"mcp-name": "=?base64?cm0=?="},
        good | {"mcp-param-where": "east"},
        good | {"mcp-protocol-version": "2027-01-01"},
        older | {"mcp-name": "rm"},
        {"mcp-name": "rm"},
        [*good.items(), ("mcp-name", "echo")],
        [*older.items(), ("mcp-name", "rm"), ("mcp-name", "echo")],
    ]
    fine = [
        good | {"mcp-param-where": "west", "mcp-param-n": "1.0"},
        older | {"mcp-name": "echo", "mcp_name": "rm"},
        {"x-http-method-override": "PUT", "X_HTTP_METHOD": "PUT", "x-method-override": "PUT"},
    ]
    older_body = call(1, "echo", where="west", n=1)
    async with raw(take) as (url, seen), listening(*policy(), "--", url) as web:
        got = []
        for one in [*bad, *fine]:
            given = one if isinstance(one, list) else one.items()
            asked = body if "2026" in str(one) or "2027" in str(one) else older_body
            got.append(await web.http.post(web.url, content=asked, headers=[*BOTH.items(), *given]))
        refused, passed = got[: len(bad)], got[len(bad) :]
        batch = await web.post(b"[" + call(1, "echo") + b"]", mcp_method="ping")
    called = [dict(one[1]) for one in seen if b"tools/call" in one[2]]

    assert [one.status_code for one in (*refused, batch)] == [400] * 10
    assert [one.json()["id"] for one in (*refused, batch)] == [*[1] * 7, None, None, None]
    assert {one.json()["error"]["code"] for one in refused[:7]} == {-32020}
    assert [one.status_code for one in passed] == [200] * 3
    assert len(called) == 3
    assert not [name for one in called for name in one if "override" in name or "_" in name]
    assert "mcp-name" not in called[1]


async def test_only_known_headers_are_returned(raw, listening, policy):
    said = []
    asks = (
        f'Bearer realm="{SECRET}", error="invalid_token", error_description="{SECRET}", '
        'resource_metadata="https://x.example/y", scope="a b"'
    )
    odd = {"x_note": SECRET, "set_cookie": f"a={SECRET}", "server": SECRET, "mcp_x": SECRET,
           "retry_after": SECRET, "cache_control": f'private="{SECRET}"'}  # fmt: skip
    known = {"mcp_session_id": "s-1", "retry-after": "7", "cache-control": "no-store",
             "access_control_allow_origin": "http://localhost:1"}  # fmt: skip

    def take(_method, _headers, body):
        if b"tools/list" in body:
            return answer(frame(json.loads(body)["id"], result={"tools": []}))
        result = {"content": []}
        if said[0] == "event":
            return answer(event(1, id=1, result=result), "text/event-stream", **odd, **known)
        status = "401 Unauthorized" if said[0] == "401" else "200 OK"
        kind = f"application/json; x={SECRET}"
        return answer(frame(1, result=result), kind, status, **odd, **known, www_authenticate=asks)

    async with raw(take) as (url, _), listening(*policy(), "--", url) as web:
        got = []
        for said[:] in (["json"], ["event"], ["401"]):
            got.append(await web.post(call(1, "echo")))

    for one in got:
        assert SECRET not in str(one.headers) + one.text
        assert one.headers["mcp-session-id"] == "s-1"
        assert one.headers["retry-after"] == "7"
        assert one.headers["access-control-allow-origin"] == "http://localhost:1"
    kinds = [one.headers["content-type"] for one in got]
    assert kinds == ["application/json", "text/event-stream", "application/json"]
    assert got[2].headers["www-authenticate"] == (
        f'Bearer error="invalid_token", resource_metadata="{metadata_of(web)}", scope="a b"'
    )


SCHEMAS = [
    {"a": {"type": "string", "x-mcp-header": "A\r\nx-evil: 1"}},
    {"a": {"type": "string", "x-mcp-header": "A: 1"}, "b": {"x-mcp-header": "\u00e9"}},
    {"a": "odd", "b": [1], "c": None, "d": True},
]


@pytest.mark.parametrize("properties", SCHEMAS)
async def test_a_schema_injects_no_header(raw, listening, policy, properties):
    rewrite = """\
        class Policy(Policy):
            @on(events.TOOL_CALL_BEFORE)
            def move(self, ctx):
                return ctx.value.merge_arguments({"a": "x\\r\\nx-evil: 1", "b": 2, "c": {}, "d": 1})
        """

    def take(_method, _headers, body):
        tools = [{"name": "move", "inputSchema": {"type": "object", "properties": properties}}]
        return answer(frame(json.loads(body)["id"], result={"tools": tools, "content": []}))

    async with raw(take) as (url, seen), listening(*policy(rewrite), "--", url) as web:
        body, headers = stateless(1, "move", a="x")
        asked = web.http.post(web.url, content=body, headers=BOTH | headers)
        got = await asyncio.wait_for(asked, 60)

    assert got.json()["id"] == 1
    names = {name for one in seen for name, _ in one[1]}
    assert not [one for one in names if "evil" in one or one.startswith("mcp-param-")]


BROKEN = """\
import asyncio, os
from asyncio import BaseEventLoop
connect = BaseEventLoop.create_connection
async def fail(*args, **kwargs):
    if os.path.exists("broken"):
        raise LookupError("unforeseen")
    return await connect(*args, **kwargs)
BaseEventLoop.create_connection = fail
"""


async def test_a_failed_task_leaves_an_error(raw, listening, policy, here, environment):
    (here / "broken").touch()
    options = policy(BROKEN)

    def take(_method, _headers, body):
        return answer(frame(json.loads(body)["id"], result={"tools": [], "content": []}))

    async with raw(take) as (url, _):
        async with listening(*options, "--", url) as web:
            asked = [call(1, "echo"), frame(2, "ping"), b"[" + frame(3, "ping") + b"]",
                     frame(None, "notifications/x")]  # fmt: skip
            got = [await asyncio.wait_for(web.post(one), 60) for one in asked]
            (here / "broken").unlink()
            after = await web.post(frame(4, "ping"))
            _, logged = await web.end()
        (here / "broken").touch()
        proxy = [sys.executable, "-m", "toolbus", "proxy", *options, "--", url]
        async with wired(proxy, cwd=here, env=environment, stderr=subprocess.PIPE) as wire:
            failed = [await wire.ask(5, "tools/call", {"name": "echo"}), await wire.ask(6, "ping")]
            (here / "broken").unlink()
            served = await wire.ask(7, "ping")
            wire.process.stdin.close()
            told = (await wire.process.stderr.read()).decode()

    answered = [json.loads(one.text) for one in got[:3]]
    assert [one["id"] for one in answered[:2]] == [1, 2]
    assert [one["id"] for one in answered[2]] == [3]
    for one in (*answered[:2], answered[2][0], *failed):
        assert "error" in one or one["result"]["isError"]
    assert got[3].status_code == 502
    assert "result" in after.json()
    assert "result" in served
    assert "unforeseen" in logged
    assert "unforeseen" in told


async def test_a_refused_batch_is_answered(raw, listening):
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no batch"}}
    refusals = [
        answer(json.dumps(error).encode(), status="400 Bad Request"),
        answer(json.dumps(error).encode()),
        answer(status="202 Accepted"),
        b"",
    ]
    body = b"[" + frame(1, "ping") + b"," + frame(2, "ping") + b"]"
    said = []
    async with raw(lambda *_: said[0]) as (url, _), listening("--", url) as web:
        got = []
        for said[:] in ([one] for one in refusals):
            got.append(await asyncio.wait_for(web.post(body), 60))
    async with listening("--", "http://127.0.0.1:9/mcp") as web:
        got.append(await asyncio.wait_for(web.post(body), 60))

    assert [one.status_code for one in got] == [400, 200, 202, 502, 502]
    assert [one.json()["error"]["message"] for one in got[:2]] == ["no batch"] * 2
    assert "was lost" in got[3].json()["error"]["message"]
    assert "cannot connect" in got[4].json()["error"]["message"]


LATE = """\
import json, sys
held = []
for line in sys.stdin:
    got = json.loads(line)
    for m in got if isinstance(got, list) else [got]:
        if not isinstance(m, dict) or "id" not in m:
            continue
        result = {"protocolVersion": "2025-03-26", "capabilities": {}, "tools": [], "content": [],
                  "serverInfo": {"name": "late", "version": "1"}}
        held.append(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}))
        if m.get("params", {}).get("name") == "hold":
            print(m["id"], file=open("held.log", "a"))
        else:
            print(*held, sep="\\n", flush=True)
            held.clear()
"""


def ids_in(reply):
    """Return the ids of all answers in *reply*, and those of results."""
    parts = [one if isinstance(one, list) else [one] for one in frames_in(reply)]
    answers = [one for part in parts for one in part]
    return [one["id"] for one in answers], [one["id"] for one in answers if "result" in one]


@pytest.mark.parametrize("kind", ["relay", "plain bridge", "judged bridge"])
@pytest.mark.parametrize("in_batch", [False, True])
async def test_a_batch_gets_all_its_responses(raw, listening, policy, here, *, kind, in_batch):
    (here / "late.py").write_text(LATE)
    released, held = asyncio.Event(), here / "held.log"

    def take(_method, _headers, body):
        own = json.loads(body or b"{}").get("id")

        async def wait(_reader, _writer):
            with held.open("a") as log:
                print(own, file=log)
            await released.wait()
            return answer(frame(own, result={"content": []}))

        if b'"hold"' in body:
            return wait
        said = {"content": [], "tools": []}
        return answer(status="202 Accepted") if own is None else answer(frame(own, result=said))

    cancel = frame(None, "notifications/cancelled", params={"requestId": 1})
    body = b"[" + call(1, "hold") + b"," + call(2, "hold") + b"]"
    handlers = [] if kind == "plain bridge" else policy()
    async with raw(take) as (url, _):
        server = [url] if kind == "relay" else [sys.executable, "late.py"]
        async with listening(*handlers, "--", *server) as web:
            if kind == "relay":
                web.session = {"mcp-session-id": "s"}
                await web.post(call(0, "x"))
            else:
                await web.begin("2025-03-26")
            strange = await asyncio.wait_for(web.post(b"[1," + call(7, "x") + b"]"), 60)
            asking = asyncio.create_task(web.post(body))
            await until(lambda: held.exists() and len(held.read_text().split()) == 2)
            await web.post(b"[" + cancel + b"]" if in_batch else cancel)
            released.set()
            await web.post(call(3, "release"))
            got = await asyncio.wait_for(asking, 60)

    assert ids_in(strange)[1] == [7]
    assert sorted(ids_in(got)[0]) == [1, 2]
    assert 2 in ids_in(got)[1]


def streamed_lines(raw_lines, goes_on):
    """Return what answers with *raw_lines*: the rest when *goes_on* is set."""

    async def say(_reader, writer):
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
        writer.write(head + raw_lines[0])
        await writer.drain()
        await goes_on.wait()
        return b"".join(raw_lines[1:])

    return say


def lines_of_an_answer():
    """Return frames on lines: a notification, one more with odd spacing, and the answer to 1."""
    told = {"level": "info", "data": f"log {SECRET}"}
    return [
        frame(None, "notifications/message", params=told) + b"\n",
        b'\r\n{ "params":{"level":"info","data":"two"}, "method":"notifications/message"}\r\n',
        frame(1, result={"said": f"a {SECRET}"}),
    ]


@pytest.fixture
def piped(here, environment):
    """Return a context manager: a wire to a proxy with *options*."""

    def run(*options):
        command = [sys.executable, "-m", "toolbus", "proxy", *options]
        return wired(command, env=environment, cwd=here)

    return run


async def test_a_body_of_lines_is_a_stream(raw, listening, handlers, piped):
    said, goes_on = lines_of_an_answer(), asyncio.Event()
    say, parts = streamed_lines(said, goes_on), []

    async with raw(lambda *_: say) as (url, _):
        async with piped(*handlers, "--", url) as wire:
            wire.write(frame(1, "x/ask"))
            got = [await wire.frame()]
            goes_on.set()
            got += [await wire.frame(), await wire.frame()]
        goes_on.clear()
        async with listening(*handlers, "--", url) as web:
            async with web.stream("POST", frame(1, "x/ask")) as reply:
                async for text in reply.aiter_text():
                    parts.append(text)
                    goes_on.set()
            kind = reply.headers["content-type"].partition(";")[0]

    whole = "".join(parts)
    found = re.findall(r"^(?:data: )?(\{.*\})\r?$", whole, re.MULTILINE)
    secret = "[redacted]" if handlers else SECRET
    for frames in (got, [json.loads(text) for text in found]):
        one, two, three = frames
        assert (one["params"]["data"], two["params"]["data"]) == (f"log {secret}", "two")
        assert three["result"] == {"said": f"a {secret}"}
    assert kind == ("text/event-stream" if handlers else "application/json")
    assert handlers or whole.encode() == b"".join(said)


# --- its connections ----------------------------------------------------------------------------

PEM = Path(__file__).parents[1] / "servers/localhost.pem"
"""A certificate for this machine, with its key: no secret, for nobody else trusts it."""


@asynccontextmanager
async def keeping(take, *, secure=False):
    """Run a server that keeps connections; give its address, and the requests of each of them.

    *take* gets how many came before on the connection, the method and the body; what it returns is
    the answer, None to close the connection without one, and a tuple to close it afterwards.
    """
    connections = []

    async def serve(reader, writer):
        mine = []
        connections.append(mine)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                found = re.search(r"content-length: (\d+)", head)
                body = await reader.readexactly(int(found[1]) if found else 0)
                mine.append((head.split()[0].upper(), body))
                said = take(len(mine) - 1, *mine[-1])
                if said is None:
                    break
                writer.write(said if isinstance(said, bytes) else said[0])
                await writer.drain()
                if not isinstance(said, bytes):
                    break
        writer.close()
        mine.append("closed")

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if secure else None
    if context is not None:
        context.load_cert_chain(PEM)
    server = await asyncio.start_server(serve, "127.0.0.1", limit=2**27, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http{'s' if secure else ''}://127.0.0.1:{port}/mcp", connections


def served(_number, _method, body):
    """Answer like a server, every second time with an event."""
    asked = json.loads(body or b"{}")
    if "id" not in asked:
        return answer(status="202 Accepted")
    content = [{"type": "text", "text": str(asked["id"])}]
    result = {"tools": [], "content": content, "capabilities": {}, "protocolVersion": "2025-11-25"}
    if asked["id"] in {"list", *range(0, 1000, 2)}:
        return answer(frame(asked["id"], result=result))
    said = event(id=asked["id"], result=result)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
    return head + b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(said), said)


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
async def test_one_connection_serves_a_hundred_calls(
    listening, handlers, here, environment, secure
):
    trusted = {"SSL_CERT_FILE": str(PEM)}
    async with keeping(served, secure=secure) as (url, connections):
        async with listening(*handlers, "--", url, **trusted) as web:
            relayed = [await web.text(own, "echo") for own in range(100)]
        proxy = [sys.executable, "-m", "toolbus", "proxy", *handlers, "--", url]
        async with wired(proxy, cwd=here, env=environment | trusted) as wire:
            piped = [await wire.ask(own, "tools/call", {"name": "echo"}) for own in range(100)]

    assert relayed == [str(own) for own in range(100)]
    assert [one["result"]["content"][0]["text"] for one in piped] == relayed
    calls = [sum("tools/call" in str(asked) for asked in one) for one in connections]
    assert calls == [100, 100]


async def test_a_stale_connection_is_noticed(listening):
    async with (
        keeping(lambda *asked: (served(*asked),)) as (url, connections),
        listening("--", url) as web,
    ):
        got = []
        for own in range(20):
            got.append(await web.text(own, "echo"))
            await until(lambda: all(one[-1] == "closed" for one in connections))

    assert got == [str(own) for own in range(20)]
    assert [len(one) for one in connections] == [2] * 20


async def test_no_request_with_effects_is_repeated(listening):
    def take(number, method, body):
        closes = number == 1 and (method == "GET" or b'"id": 2' in body)
        return None if closes else served(number, method, body)

    async with keeping(take) as (url, connections), listening("--", url) as web:
        first = await web.post(call(1, "echo"))
        failed = await web.post(call(2, "echo"))
        again = await web.post(call(3, "echo"))
        streamed = await web.http.get(web.url, headers={"accept": "text/event-stream"})
        last = await web.post(call(4, "echo"))
    seen = [[asked[0] for asked in one if asked != "closed"] for one in connections]

    assert [one.status_code for one in (first, failed, again, streamed, last)] == [
        200, 502, 200, 202, 200,
    ]  # fmt: skip
    assert "was lost" in failed.json()["error"]["message"]
    assert seen == [["POST", "POST"], ["POST", "GET"], ["GET", "POST"]]


async def test_responses_stay_with_their_requests(listening, handlers):
    def take(number, method, body):
        asked = json.loads(body or b"{}")
        said = served(number, method, body)
        more = answer(frame(asked.get("id"), result={"content": [], "tools": []}))
        return said + more * (asked.get("id") in {5, 6, 7})

    async with keeping(take) as (url, _), listening(*handlers, "--", url) as web:

        async def ask(own):
            asking = asyncio.create_task(web.answer(own, "echo"))
            if own % 5 == 4:
                await asyncio.sleep(0)
                asking.cancel()
                return None
            return (await asking)["result"]["content"][0]["text"]

        got = [await ask(own) for own in range(20)]
        got += await asyncio.gather(*[ask(own) for own in range(20, 60)])

    assert got == [None if own % 5 == 4 else str(own) for own in range(60)]


# --- the bridge ---------------------------------------------------------------------------------

SAYING = """\
import json, os, sys, threading, time
log = open("saying.log", "a", buffering=1)
def send(**members):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **members}) + "\\n")
    sys.stdout.flush()
def say(text):
    send(method="notifications/message", params={"level": "info", "data": text})
print("begun", file=log)
held = []
for line in sys.stdin:
    m = json.loads(line)
    print(line.strip(), file=log)
    name = m.get("params", {}).get("name")
    if m.get("method") == "initialize":
        result = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {},
                  "serverInfo": {"name": "saying", "version": "1"}}
        send(id=m["id"], result=result)
    elif m.get("method") == "tools/list":
        send(id=m["id"], result={"tools": []})
    elif name == "later":
        threading.Timer(0.01, say, ["late"]).start()
        send(id=m["id"], result={"content": []})
    elif name == "steps":
        while not os.path.exists("go"):
            if not os.path.exists("said"):
                open("said", "w").close()
                say("first")
            time.sleep(0.01)
        for token in [*held, m["params"].get("_meta", {}).get("progressToken")]:
            send(method="notifications/progress", params={"progressToken": token, "progress": 1})
        send(id=m["id"], result={"content": [{"type": "text", "text": "done"}]})
    elif name == "big":
        text = "x" * (m["params"]["arguments"]["mb"] * 2**20)
        if m["params"]["arguments"].get("told"):
            say("now")
        send(id=m["id"], result={"content": [{"type": "text", "text": text}]})
    elif name == "hold":
        held.append(m["params"]["_meta"]["progressToken"])
    elif "id" in m and "method" in m:
        send(id=m["id"], result={"content": [{"type": "text", "text": json.dumps(m)}]})
"""


@pytest.fixture
def saying(here):
    """Return the command of a server that says what it is told to say."""
    (here / "saying.py").write_text(SAYING)
    return [sys.executable, "saying.py"]


@pytest.mark.parametrize("mode", ["legacy", STATELESS])
async def test_a_bridge_gives_the_official_client_equal_results(
    listening, handlers, here, environment, mode
):
    (here / "straight").mkdir()
    straight = await lived(
        Client(
            stdio_client(StdioServerParameters(command=sys.executable, args=[ODD, "straight/log"],
                                               env=environment, cwd=here)),
            mode=mode,
            elicitation_callback=elicited,
        )
    )  # fmt: skip
    async with listening(*handlers, "--", sys.executable, ODD, "odd.log") as web:
        bridged = await lived(Client(web.url, mode=mode, elicitation_callback=elicited))

    assert straight[0] == (STATELESS if mode == STATELESS else "2025-11-25")
    assert len(straight[3]) == (7 if mode == STATELESS else 8)
    assert bridged == straight


async def test_sessions_are_kept_apart(listening, handlers, here):
    async with listening(*handlers, "--", sys.executable, ODD, "odd.log") as one:
        other = Web(one.url, one.http)
        await one.begin()
        await other.begin()
        pids = [await one.text(1, "pid"), await other.text(1, "pid")]
        asking = [asyncio.create_task(web.post(call(2, "hang"))) for web in (one, other)]
        await until(lambda: noted(here).count("hang") == 2)
        cancelled = await one.post(frame(None, "notifications/cancelled", params={"requestId": 2}))
        await until(lambda: "cancelled" in noted(here))
        ended = await asyncio.wait_for(asking[0], 60)
        strange = await other.post(call(3, "pid"), mcp_session_id="x" * 32)
        closed = await one.http.delete(one.url, headers=one.session)
        await until(lambda: not alive(pids[0]))
        gone = await one.post(call(4, "pid"))
        still = await other.text(5, "pid")
        goes_on = not asking[1].done()
        cancels = noted(here).count("cancelled")
        asking[1].cancel()

    assert pids[0] != pids[1] == still
    assert len(one.session["mcp-session-id"]) >= 32
    assert (cancelled.status_code, closed.status_code) == (202, 200)
    assert frames_in(ended)[-1]["error"]["message"]
    assert (goes_on, cancels) == (True, 1)
    assert [strange.status_code, gone.status_code] == [404, 404]


EXITS = """\
import sys
class Exits(Policy):
    @guard(events.TOOL_CALL_BEFORE, tools="mark")
    def exit(self, ctx):
        if ctx.value.arguments["number"] == 1:
            sys.exit(3)
    @guard(events.TOOL_CALL_BEFORE, tools="mark")
    async def exit_later(self, ctx):
        await asyncio.sleep(0)
        if ctx.value.arguments["number"] == 2:
            sys.exit(3)
    @on(events.MESSAGE_APPEND_BEFORE, on_error="closed")
    def exit_at_result(self, ctx):
        if ctx.value.text == "3":
            sys.exit(3)
"""


async def test_a_handler_s_exit_fails_one_call(listening, policy):
    policy(EXITS)
    command = [sys.executable, ODD, "odd.log"]
    async with listening("--with", "policy.py:Exits", "--", *command) as one:
        other = Web(one.url, one.http)
        await one.begin()
        await other.begin()
        failed = [await one.answer(number, "mark", number=number) for number in (1, 2, 3)]
        texts = [await web.text(9, "mark", number=4) for web in (one, other)]

    assert ["error" in each for each in failed] == [True] * 3
    assert texts == ["4", "4"]


async def test_a_lost_stream_is_resumed(listening, handlers, saying, here):
    async with listening(*handlers, "--", *saying) as web:
        await web.begin()
        async with web.stream("POST", call(1, "steps", {"progressToken": "p"})) as reply:
            found = []
            async for one in events_of(reply):
                found.append(one)
                if "data" in one and "first" in one["data"]:
                    break
        (here / "go").touch()
        last = {**web.session, "accept": "text/event-stream", "last-event-id": found[-1]["id"]}
        again = [await web.http.get(web.url, headers=last) for _ in range(2)]
        wrong = await web.http.get(web.url, headers={**last, "last-event-id": "9-9"})

    for one in again:
        told = frames_in(one)
        assert [m.get("method") for m in told] == ["notifications/progress", None]
        assert told[-1]["result"]["content"][0]["text"] == "done"
    assert found[0]["id"]
    assert wrong.status_code == 400
    assert (here / "saying.log").read_text().count('"steps"') == 1


async def test_the_server_s_messages_reach_a_stream(listening, saying, here):
    async with listening("--", *saying) as web:
        await web.begin()
        async with AsyncExitStack() as stack:
            reply = await stack.enter_async_context(web.stream("GET"))
            events = events_of(reply)
            primer = await anext(events)
            await web.answer(1, "later")
            on_get = await anext(events)
        await web.answer(2, "later")
        async with web.stream("GET") as reply:
            waited = [one async for one in first_of(events_of(reply), 2)]
        (here / "said").touch()
        (here / "go").touch()
        async with web.stream("POST", call(3, "hold", {"progressToken": "h"})) as holding:
            await until(lambda: '"hold"' in (here / "saying.log").read_text())
            stepped = frames_in(await web.post(call(4, "steps", {"progressToken": 7})))
            held = [one async for one in first_of(events_of(holding), 2)]

    assert "data" not in primer or not primer["data"]
    assert json.loads(on_get["data"])["params"]["data"] == "late"
    assert [m.get("method") for m in stepped] == ["notifications/progress", None]
    assert json.loads(held[-1]["data"])["params"]["progressToken"] == "h"
    assert json.loads(waited[-1]["data"])["params"]["data"] == "late"
    assert waited[-1]["id"] != on_get["id"]


async def first_of(items, count):
    for _ in range(count):
        yield await anext(items)


async def test_each_stateless_client_has_a_process(listening, handlers, here):
    async with listening(*handlers, "--", sys.executable, ODD, "odd.log") as web:

        async def ask(name, meta=None, who="a", **arguments):
            body, headers = stateless(1, name, meta, **arguments)
            shown = {"authorization": f"Bearer {who}"}
            return await web.http.post(web.url, content=body, headers=BOTH | headers | shown)

        hanging = asyncio.create_task(ask("hang"))
        await until(lambda: "hang" in noted(here))
        sums = await asyncio.gather(*[ask("add", a=n, b=1000) for n in range(20)])
        told = await asyncio.gather(*[ask("steps", {"progressToken": "t"}) for _ in range(5)])
        pids = await asyncio.gather(*[ask("pid", who=who) for who in "aabbc"])
        before = noted(here).count("cancelled")
        hanging.cancel()
        await until(lambda: "cancelled" in noted(here))
        after = await ask("add", a=1, b=2)
        other = await web.http.get(web.url, headers={"mcp-protocol-version": STATELESS})

    totals = [frames_in(one)[-1]["result"]["structuredContent"]["total"] for one in sums]
    assert totals == list(range(1000, 1020))
    for one in told:
        assert [m["id"] for m in frames_in(one) if "id" in m] == [1]
        steps = [m["params"] for m in frames_in(one) if "method" in m]
        assert [(m["progressToken"], m["progress"]) for m in steps] == [("t", n) for n in (1, 2, 3)]
    names = [frames_in(one)[0]["result"]["content"][0]["text"] for one in pids]
    assert [names.index(name) for name in names] == [0, 0, 2, 2, 4]
    assert before == 0
    assert frames_in(after)[0]["result"]["structuredContent"] == {"total": 3}
    assert noted(here).count("begun") == 3
    assert other.status_code == 405


async def test_a_dead_process_ends_its_session(listening, handlers, here):
    async with listening(*handlers, "--", sys.executable, ODD, "odd.log") as web:
        await web.begin()
        hanging = asyncio.create_task(web.answer(1, "hang"))
        await until(lambda: "hang" in noted(here))
        died = await web.answer(2, "die")
        hung = await asyncio.wait_for(hanging, 60)
        later = await web.post(call(3, "pid"))
        body, headers = stateless(1, "die")
        alone = await web.http.post(web.url, content=body, headers=BOTH | headers)
        body, headers = stateless(1, "pid")
        again = await web.http.post(web.url, content=body, headers=BOTH | headers)
        web.session = {}
        await web.begin()
        fresh = await web.answer(4, "pid")

    for one in (died, hung, *frames_in(alone)):
        assert "the server ended with exit code 3" in one["error"]["message"]
    assert later.status_code == 404
    assert int(frames_in(again)[0]["result"]["content"][0]["text"])
    assert int(fresh["result"]["content"][0]["text"])
    assert noted(here).count("die") == 2


FAULTY = """\
import json, os, sys, threading
print(os.getpid(), file=open("pids.log", "a"))
def out(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
def made(m, **result):
    return json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}).encode() + b"\\n"
def act(m, deed):
    said = made(m, content=[])
    if deed == "die":
        os._exit(3)
    elif deed == "cut":
        out(said[:20])
        os._exit(0)
    elif deed == "broken":
        out(b'{"jsonrpc": "2.0", "id": ' + json.dumps(m["id"]).encode() + b', "result": {]}\\n')
    elif deed == "latin":
        out(b"\\xff\\xfe\\n" + said)
    elif deed != "never":
        out(said * (2 if deed == "twice" else 1))
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "initialize":
        out(made(m, protocolVersion="2025-11-25", capabilities={}))
    elif m.get("method") == "tools/list":
        out(made(m, tools=[]))
    elif m.get("method") == "tools/call":
        print(m["params"]["arguments"]["number"], file=open("ran.log", "a"))
        deed = m["params"]["name"]
        if deed == "late":
            threading.Timer(0.05, act, [m, "well"]).start()
        else:
            act(m, deed)
"""


@pytest.mark.parametrize("seed", range(3))
async def test_random_faults_leave_calls_answered(listening, handlers, here, seed):
    (here / "faulty.py").write_text(FAULTY)
    chance, answered, stayed = random.Random(seed), {}, []
    deeds = ["well"] * 6 + ["die", "cut", "twice", "late", "late", "never"]
    deeds += ["broken", "latin"] if handlers else []
    play = [
        [(chance.choice(deeds), chance.random() < 0.15) for _ in range(8)] for _client in range(6)
    ]
    command = [sys.executable, "faulty.py"]
    # Without handlers nobody bounds a call but its client.
    options = [*handlers, "--timeout", "2"]
    async with listening(*options, "--", *command) as web:

        async def live(number, calls):
            mine = Web(web.url, web.http)
            for own, (deed, leaves) in enumerate(calls):
                body, headers = call(own, deed, number=f"{number}-{own}"), {}
                if number % 2:
                    body, headers = stateless(own, deed, number=f"{number}-{own}")
                elif not mine.session:
                    await mine.begin()
                sent = BOTH | mine.session | headers
                asking = asyncio.create_task(web.http.post(web.url, content=body, headers=sent))
                if leaves or (deed == "never" and not handlers):
                    await asyncio.sleep(0.02)
                    asking.cancel()
                    continue
                stayed.append(f"{number}-{own}")
                reply = await asking
                if reply.status_code == 404 and not number % 2:
                    mine.session = {}
                answered[f"{number}-{own}"] = [m for m in frames_in(reply) if "method" not in m]

        await asyncio.wait_for(
            asyncio.gather(*[live(number, calls) for number, calls in enumerate(play)]), 60
        )
        code, _ = await web.end()
    pids = (here / "pids.log").read_text().split()
    await until(lambda: not any(alive(pid) for pid in pids))
    ran = (here / "ran.log").read_text().split()

    assert code == 0
    assert sorted(answered) == sorted(stayed)
    assert {len(one) for one in answered.values()} == {1}
    assert any("result" in one[0] for one in answered.values())
    assert any("error" in one[0] for one in answered.values())
    assert len(ran) == len(set(ran))


async def test_sessions_have_an_end(listening, here):
    options = ["--max-sessions", "1", "--idle", "0.3"]
    async with listening(*options, "--", sys.executable, ODD, "odd.log") as web:
        await web.begin()
        first, pid = web.session, await web.text(1, "pid")
        refused = await Web(web.url, web.http).post(frame(0, "initialize", params={}))
        deleted = await web.http.delete(web.url, headers=first)
        await until(lambda: not alive(pid))
        web.session = {}
        await until_begun(web)
        second = await web.text(1, "pid")
        async with web.stream("GET"):
            await asyncio.sleep(0.6)
            held = alive(second)
        await until(lambda: not alive(second))
        gone = await web.post(call(2, "pid"))
        body, headers = stateless(1, "pid")
        shared = await web.http.post(web.url, content=body, headers=BOTH | headers)
        third = frames_in(shared)[0]["result"]["content"][0]["text"]
        await until(lambda: not alive(third))

    assert (refused.status_code, deleted.status_code, gone.status_code) == (503, 200, 404)
    assert held
    assert noted(here).count("ended") == 3


async def test_an_ending_process_keeps_its_slot(listening, here):
    (here / "stubborn.py").write_text(STUBBORN + SAYING + "time.sleep(600)\n")
    options, most = ["--max-sessions", "2", "--grace", "0.2"], 0

    def running():
        return sum(map(alive, (here / "pids.log").read_text().split()))

    async with listening(*options, "--", sys.executable, "stubborn.py") as web:
        body, headers = stateless(1, "echo")
        for number in range(4):
            served = await web.post(body, x_client=str(number), **headers)
            most = max(most, running())
            await web.begin()
            most = max(most, running())
            await web.http.delete(web.url, headers=web.session)
            web.session = {}
            assert served.status_code == 200

    assert most == 2


async def until_begun(web):
    """Begin as soon as there is room."""
    async with asyncio.timeout(60):
        while (await web.post(frame(9, "ping"))).status_code == 503:
            await asyncio.sleep(0.01)
        await web.begin()


# --- who may come in ----------------------------------------------------------------------------


async def test_unknown_hosts_and_origins_are_refused(raw, listening):
    said = answer(frame(1, result={}))
    options = ["--allow-host", "Tools.example", "--allow-origin", "https://app.example"]
    async with raw(lambda *_: said) as (url, seen), listening(*options, "--", url) as web:
        port = web.url.rpartition(":")[2].removesuffix("/mcp")
        good = [{"host": f"localhost:{port}"}, {"host": "tools.EXAMPLE"}, {"host": "[::1]:1"},
                {"host": "tools.example:8000"}, {"origin": f"http://localhost:{port}"},
                {"origin": "http://[::1]:3000"}, {"origin": "https://app.example"}]  # fmt: skip
        bad = [{"host": "evil.example"}, {"host": f"evil.example:{port}"}, {"host": ""},
               {"host": "localhost.evil.example"}, {"host": "tools.example.evil"},
               {"origin": "https://evil.example"}, {"origin": "null"}, {"origin": "http://["},
               {"origin": "https://app.example.evil"}, {"origin": "file://localhost"},
               {"origin": "http://127.0.0.1.evil.example"}]  # fmt: skip
        taken = [await web.post(frame(1, "ping"), **one) for one in good]
        refused = [await web.post(frame(1, "ping"), **one) for one in bad]

    assert {one.status_code for one in taken} == {200}
    assert {one.status_code for one in refused} == {403}
    assert len(seen) == len(good)
    assert all("--allow-" in frames_in(one)[0]["error"]["message"] for one in refused)


async def test_each_side_has_its_token(raw, listening):
    tokens = {"TOOLBUS_LISTEN_TOKEN": "listen-4242", "TOOLBUS_PROXY_TOKEN": "proxy-4242"}
    shown = ["Bearer listen-4242", "bearer listen-4242", "Bearer wrong-4242", "Bearer", "Basic eA",
             "listen-4242", "Bearer proxy-4242", "Bearer listen-42424"]  # fmt: skip

    async with (
        raw(lambda *_: answer(b"no", status="500 No")) as (url, seen),
        listening("--", url, **tokens) as web,
    ):
        got = [await web.post(frame(1, "ping"), authorization=one) for one in shown]
        got.append(await web.post(frame(1, "ping")))
        _, logged = await web.end()

    assert [one.status_code for one in got] == [500, 500, *[401] * 7]
    assert all(one.headers["www-authenticate"].startswith("Bearer") for one in got[2:])
    sent = [value for one in seen for name, value in one[1] if name == "authorization"]
    assert sent == ["Bearer proxy-4242"] * 2
    assert "-4242" not in logged + "".join(one.text for one in got)


@pytest.mark.parametrize("token", [None, "proxy-4242"])
async def test_without_a_token_client_credentials_pass(raw, listening, token):
    given = {} if token is None else {"TOOLBUS_PROXY_TOKEN": token}
    said = answer(frame(1, result={}))
    async with raw(lambda *_: said) as (url, seen), listening("--", url, **given) as web:
        await web.post(frame(1, "ping"), authorization="Bearer own-4242")
        await web.post(frame(1, "ping"))

    own, none = (dict(one[1]).get("authorization") for one in seen)
    assert own == "Bearer own-4242"
    assert none == (None if token is None else "Bearer proxy-4242")


@pytest.mark.parametrize("kind", ["command", "address"])
async def test_an_open_host_needs_a_token(command, listening, kind):
    server = [sys.executable, ODD, "odd.log"] if kind == "command" else ["http://127.0.0.1:9/mcp"]

    refused = command("proxy", "--listen", "0.0.0.0:0", "--", *server)
    codes = []
    for options, variables in ((["--open"], {}), ([], {"TOOLBUS_LISTEN_TOKEN": "t-4242"})):
        async with listening(*options, "--", *server, host="0.0.0.0", **variables) as web:
            codes.append((await web.end())[0])

    assert refused.returncode == 2
    assert "TOOLBUS_LISTEN_TOKEN" in refused.stderr
    assert "--open" in refused.stderr
    assert codes == [0, 0]


async def said_to(url, data):
    """Return all that the proxy says to the bytes *data* until it closes the connection."""
    port = int(re.search(r":(\d+)/", url)[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()


@pytest.mark.parametrize("kind", ["relay", "bridge"])
async def test_headers_are_parsed_strictly(raw, listening, saying, here, kind):
    forbidden = [
        "origin: http://[::1].evil.example", "origin: http://[::1]evil",
        "origin: http://localhost:x@evil.example", "origin: http://localhost@evil.example",
        "origin: http://localhost/x", "origin: http://localhost:123456", "origin: http://localhost:",
    ]  # fmt: skip
    hosts = ["localhost:x", "localhost:", "[::1]x", "x@localhost", "localhost/x", "localhost:1:1"]
    twice = [
        "origin: http://localhost\r\norigin: http://localhost",
        "transfer-encoding: chunked",
        "content-type: application/json",
        "mcp-session-id: a\r\nMcp-Session-Id: b",
        "authorization: Bearer a\r\nauthorization: Bearer b",
    ]
    body = frame(1, "ping")

    def request(more="", host="localhost"):
        head = f"POST /mcp HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        return f"{head}content-length: {len(body)}\r\n{more}\r\n\r\n".encode() + body

    async with raw(lambda *_: answer(frame(1, result={}))) as (url, seen):
        server = [url] if kind == "relay" else saying
        async with listening("--patience", "3", "--", *server) as web:
            got = [await said_to(web.url, request(one)) for one in forbidden]
            got += [await said_to(web.url, request("x: y", host=one)) for one in hosts]
            bad = [await said_to(web.url, request(one)) for one in twice]
            bad.append(await said_to(web.url, request("host: localhost")))

    assert {one.split(b" ")[1] for one in got} == {b"403"}
    assert {one.split(b" ")[1] for one in bad} == {b"400"}
    assert not seen
    assert not (here / "saying.log").exists()


async def test_invalid_requests_have_their_status(listening, saying):
    async with listening("--", *saying) as web:
        await web.begin()
        ping, own = frame(1, "ping"), web.session
        body, modern = stateless(1, "echo")

        async def status(method="POST", body=b"", url=web.url, **headers):
            named = {key.replace("_", "-"): value for key, value in headers.items()}
            reply = await web.http.request(method, url, content=body, headers=BOTH | named)
            assert reply.is_success or "error" in frames_in(reply)[0]
            return reply.status_code

        got = {
            "path": await status(url=web.url + "/x"),
            "put": await status("PUT", **own),
            "stateless get": await status("GET", **modern),
            "type": await status(body=ping, content_type="text/plain", **own),
            "accept": await status(body=ping, accept="text/html", **own),
            "get json": await status("GET", accept="application/json", **own),
            "event": await status("GET", last_event_id="9" * 5_000 + "-1", **own),
            "no session": await status(body=ping),
            "strange session": await status(body=ping, mcp_session_id="who"),
            "strange end": await status("DELETE", mcp_session_id="who"),
            "no json": await status(body=b"{", **own),
            "empty": await status(**own),
            "revision": await status(body=ping, mcp_protocol_version="2025-03-26", **own),
            "name": await status(body=body, **(modern | {"mcp-name": "other"})),
            "no name": await status(body=body, **{k: modern[k] for k in list(modern)[:2]}),
            "no meta": await status(body=call(1, "echo"), **modern),
            "no number": await status(body=body.replace(b'"arguments": {}', b'"a":NaN'), **modern),
            "an answer": await status(body=frame(1, result={}), **modern),
            "base64": await status(body=body, **(modern | {"mcp-name": "=?base64?ZWNobw==?="})),
            "notified": await status(body=frame(None, "notifications/x"), **modern),
        }

    assert got == {
        "path": 404, "put": 405, "stateless get": 405, "type": 415, "accept": 406, "get json": 406,
        "event": 400, "no number": 400,
        "no session": 400, "strange session": 404, "strange end": 404, "no json": 400, "empty": 400,
        "revision": 200, "name": 400, "no name": 400, "no meta": 400, "an answer": 400,
        "base64": 200, "notified": 202,
    }  # fmt: skip


async def test_slow_and_oversized_clients_are_disconnected(listening, raw, saying):
    unread = []

    async def endless(_, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        try:
            while True:
                writer.write(event(method="notifications/message", params={"data": "y" * 2**16}))
                await writer.drain()
        except ConnectionError:
            unread.append(True)
        return b""

    head = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    starts = [
        b"",
        b"POST /mcp HT",
        head + b"x: y",
        head + b"content-length: 9\r\n\r\n{",
        b"GET /x HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /x HTTP/1.1\r\nhost: localhost\r\n\r\nGET",
        head + b"x: " + b"y" * 200_000,
    ]
    async with listening("--patience", "3", "--max-frame", "1", "--", *saying) as web:
        port = int(web.url.rpartition(":")[2].removesuffix("/mcp"))

        async def said(start):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(start)
            try:
                return await asyncio.wait_for(reader.read(), 60)
            except ConnectionResetError:
                return b"reset"
            finally:
                writer.close()

        ends = await asyncio.gather(*[said(one) for one in starts])
        long = await web.post(b" " * 2**20 + frame(1, "ping"))

        async def pieces():
            for _ in range(40):
                yield b" " * 2**16

        try:
            unsaid = (await web.http.post(web.url, content=pieces(), headers=BOTH)).status_code
        except httpx2.TransportError:
            unsaid = 413  # It was still sending when the connection ended.
        begun = await web.begin()
    async with (
        raw(lambda *_: endless) as (url, _),
        listening("--patience", "1", "--", url) as web,
        web.stream("POST", call(1, "talk")),
    ):
        await until(lambda: unread)

    assert unread == [True]
    assert ends[:3] == [b"", b"", b""]
    assert b" 408 " in ends[3].split(b"\r\n")[0]
    assert all(b" 404 " in one.split(b"\r\n")[0] for one in ends[4:6])
    assert b" 431 " in ends[6].split(b"\r\n")[0]
    assert (long.status_code, unsaid, begun.status_code) == (413, 413, 200)


async def test_an_oversized_body_gets_413(listening, saying):
    head = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    size = 50 * 2**20
    async with listening("--max-frame", "1", "--", *saying) as web:
        port = int(web.url.rpartition(":")[2].removesuffix("/mcp"))

        async def status(*pieces):
            """Return the status that comes after all *pieces* were sent."""
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            line = await asyncio.wait_for(reader.readline(), 60)
            writer.close()
            return int(line.split()[1])

        chunk = b"%x\r\n%b\r\n" % (2**20, b" " * 2**20)
        got = [
            await status(head + b"content-length: 10000000000\r\n\r\n"),
            await status(head + b"content-length: %d\r\n\r\n" % size, *[b" " * 2**20] * 50),
            await status(head + b"transfer-encoding: chunked\r\n\r\n", *[chunk] * 50, b"0\r\n\r\n"),
        ]
        begun = await web.begin()

    assert got == [413, 413, 413]
    assert begun.status_code == 200


# --- many and much ------------------------------------------------------------------------------

GATHERING = """\
import json, sys
waiting = []
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "tools/list":
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"tools": []}}), flush=True)
    elif m.get("method") == "tools/call":
        waiting.append(m)
    if len(waiting) == 1000:
        for m in waiting:
            text = m["params"]["arguments"]["said"]
            result = {"content": [{"type": "text", "text": text}]}
            print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}))
        sys.stdout.flush()
"""


@pytest.mark.parametrize("kind", ["relay", "bridge"])
async def test_a_thousand_calls_are_under_way(raw, listening, handlers, here, kind):
    (here / "gathering.py").write_text(GATHERING)
    count, all_there = [0], asyncio.Event()

    def take(_method, _headers, body):
        asked = json.loads(body)
        if asked["method"] == "tools/list":
            return answer(frame(asked["id"], result={"tools": []}))
        count[0] += 1
        if count[0] == 1000:
            all_there.set()

        async def wait(_reader, _writer):
            await all_there.wait()
            content = [{"type": "text", "text": asked["params"]["arguments"]["said"]}]
            return answer(frame(asked["id"], result={"content": content}))

        return wait

    async with raw(take) as (url, _):
        server = [url] if kind == "relay" else [sys.executable, "gathering.py"]
        async with listening(*handlers, "--", *server) as web:
            limits = httpx2.Limits(max_connections=None)
            async with httpx2.AsyncClient(timeout=120, limits=limits) as http:

                async def ask(number):
                    body, headers = stateless(1, "echo", said=f"n{number}")
                    return await http.post(web.url, content=body, headers=BOTH | headers)

                got = await asyncio.gather(*[ask(number) for number in range(1000)])
            code, logged = await web.end()

    assert {one.status_code for one in got} == {200}
    texts = [frames_in(one)[0]["result"]["content"][0]["text"] for one in got]
    assert texts == [f"n{number}" for number in range(1000)]
    assert (code, logged) == (0, "")


async def test_fifty_megabytes_pass(raw, listening, handlers, saying):
    result = {"content": [{"type": "text", "text": "x" * 50 * 2**20}]}
    whole = {b"json": answer(frame(1, result=result)),
             b"event": answer(event(1, id=1, result=result), "text/event-stream")}  # fmt: skip

    def take(_method, _headers, body):
        if b"tools/list" in body:
            return answer(frame(json.loads(body)["id"], result={"tools": []}))
        return whole[b"json" if b'"json"' in body else b"event"]

    async with raw(take) as (url, _), listening(*handlers, "--", url) as web:
        relayed = [await web.post(call(1, name)) for name in ("json", "event")]
    async with listening(*handlers, "--", *saying) as web:
        await web.begin()
        bridged = [await web.post(call(1, "big", mb=50, told=told)) for told in (False, True)]

    assert [frames_in(one)[-1]["result"] for one in relayed] == [result, result]
    sizes = [len(frames_in(one)[-1]["result"]["content"][0]["text"]) for one in bridged]
    assert sizes == [50 * 2**20] * 2
    kinds = [one.headers["content-type"].partition(";")[0] for one in bridged]
    assert kinds == ["application/json", "text/event-stream"]


async def test_a_batch_is_sent_in_portions(raw, listening, policy):
    under_way, most = [0], [0]

    def take(_method, _headers, body):
        async def wait(_reader, _writer):
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
            await asyncio.sleep(0.01)
            under_way[0] -= 1
            return answer(frame(json.loads(body)["id"], result={}))

        return wait

    async with raw(take) as (url, _), listening(*policy(), "--", url) as web:
        got = await web.post(b"[" + b",".join(frame(own, "ping") for own in range(200)) + b"]")

    assert sorted(one["id"] for one in got.json()) == list(range(200))
    assert 2 <= most[0] <= 16


# --- the end ------------------------------------------------------------------------------------

STUBBORN = """\
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
import os, time
print(os.getpid(), file=open("pids.log", "a"))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
async def test_a_signal_ends_all_requests_and_processes(listening, handlers, raw, here, number):
    (here / "stubborn.py").write_text(STUBBORN + SAYING + "time.sleep(600)\n")
    options = ["--grace", "1", *handlers]

    async def hang(reader, _writer):
        await reader.read()
        return b""

    def take(_method, _headers, body):
        listed = b"tools/list" in body
        return answer(frame(json.loads(body)["id"], result={"tools": []})) if listed else hang

    async with listening(*options, "--", sys.executable, "stubborn.py") as web:
        other = Web(web.url, web.http)
        await web.begin()
        await other.begin()
        async with web.stream("GET") as listens:
            await anext(listens.aiter_bytes())
            steps = frame(1, "notifications/x", params={"name": "steps"})
            calls = [asyncio.create_task(web.post(steps))]
            body, headers = stateless(1, "steps")
            asked = web.http.post(web.url, content=body, headers=BOTH | headers)
            calls.append(asyncio.create_task(asked))
            await until(lambda: (here / "saying.log").read_text().count('"steps"') == 2)
            pids = (here / "pids.log").read_text().split()
            ends = [(await web.end(number))[0]]
        await until(lambda: not any(alive(pid) for pid in pids))
    async with raw(take) as (url, seen), listening(*options, "--", url) as web:
        calls.append(asyncio.create_task(web.post(call(1, "echo"))))
        await until(lambda: any(b"echo" in one[2] for one in seen))
        ends.append((await web.end(number))[0])
    got = await asyncio.gather(*calls, return_exceptions=True)

    assert len(pids) == 3
    assert ends == [-number if number == signal.SIGKILL else 0] * 2
    for one in got if number != signal.SIGKILL else ():
        assert "the proxy has ended" in frames_in(one)[-1]["error"]["message"]

"""The scenarios of `specs/proxy_secrets.md`."""

import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from wires import PROXY, wired

SECRET = "sk-canary-4242"
TELLTALE = Path(__file__).parents[1] / "servers/telltale.py"
POLICY = """\
import base64
from msgspec.structs import replace
from toolbus import AgentComponent, Deny, ToolAdapter, events, guard
from toolbus.messages.parts import AudioPart, ImagePart, Resource, ResourcePart
SECRET = "sk-canary-4242"

def clean(text):
    return text.replace(SECRET, "[redacted]")

def coded(data):
    plain = base64.b64decode(data)
    new = plain.replace(SECRET.encode(), b"[redacted]")
    return data if new == plain else base64.b64encode(new).decode()

def look(part):
    if isinstance(part, ImagePart | AudioPart):
        return replace(part, data=coded(part.data))
    if isinstance(part, ResourcePart) and part.resource.blob:
        return replace(part, resource=replace(part.resource, blob=coded(part.resource.blob)))
    return part

class Redact(ToolAdapter):
    def adapt_response(self, response, call):
        response = response.map_text(clean)
        return replace(response, content=tuple(map(look, response.content)))

class Redaction(AgentComponent):
    def __init__(self):
        self.register_tool_adapter(Redact())

class Cut(ToolAdapter):
    def adapt_response(self, response, call):
        return response.with_text(response.text[:10])

class Cutting(AgentComponent):
    def __init__(self):
        self.register_tool_adapter(Cut())

class Guarding(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def no_rm(self, ctx):
        return Deny("no") if "rm" in str(ctx.value) else None

class Watching(AgentComponent):
    def __init__(self):
        self.register_tool_adapter(ToolAdapter())
"""


class Web:
    """A client of a proxy that listens at *url*; *raw* holds all that it got."""

    def __init__(self, url):
        self.url, self.raw, self.headers = url, b"", {}

    async def ask(self, own, method, params=None):
        body = {"jsonrpc": "2.0", "id": own, "method": method, "params": params or {}}
        return await asyncio.to_thread(self._post, body)

    def _post(self, body):
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            **self.headers,
        }
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            got = answer.read()
            self.headers |= {k: v for k, v in answer.headers.items() if k == "mcp-session-id"}
        self.raw += got
        lines = [line.removeprefix(b"data:") for line in got.splitlines()]
        frames = [json.loads(line) for line in lines if line.lstrip().startswith(b"{")]
        return next(one for one in frames if one.get("id") == body["id"] and "method" not in one)


class Pipes:
    """A client at the pipes of a proxy."""

    def __init__(self, wire):
        self.wire, self.ask = wire, wire.ask

    @property
    def raw(self):
        return b"".join(self.wire.lines)


@pytest.fixture
def front(tmp_path, environment):
    """Return a context manager: a client of a proxy with a component of the policy."""
    (tmp_path / "policy.py").write_text(POLICY)

    @asynccontextmanager
    async def run(component, way="pipes"):
        options = ["--with", f"{tmp_path / 'policy.py'}:{component}"]
        listen = ["--listen", "0"] if way == "http" else []
        command = [*PROXY, *options, *listen, "--", sys.executable, TELLTALE, tmp_path / "log"]
        async with wired(command, env=environment, stderr=subprocess.PIPE) as wire:
            if way == "pipes":
                yield Pipes(wire)
                return
            while not (at := re.search(rb"listening on (\S+)", line := await err(wire))):
                assert line
            yield Web(at[1].decode())

    return run


async def err(wire):
    return await asyncio.wait_for(wire.process.stderr.readline(), 60)


def read(tmp_path):
    """Return what the server read."""
    return (tmp_path / "log").read_text("utf-8")


WAYS = pytest.mark.parametrize("way", ["pipes", "http"])


@WAYS
async def test_a_handshake_leaks_nothing(front, way):
    async with front("Redaction", way) as client:
        hello = (await client.ask(1, "initialize"))["result"]
        found = (await client.ask(2, "server/discover"))["result"]

        assert SECRET.encode() not in client.raw
    for said in (hello, found):
        assert said["instructions"] == "use [redacted]"
        assert said["serverInfo"]["name"] == "n-[redacted]"
        assert said["capabilities"]["tools"] == {}
        assert said["capabilities"]["extensions"] == {"x/y": {"b": "[redacted]"}}
    assert hello["protocolVersion"] == "2025-11-25"
    assert found["supportedVersions"] == ["2026-07-28"]


@WAYS
async def test_lists_leak_nothing(front, way):
    async with front("Redaction", way) as client:
        await client.ask(1, "initialize")
        listed = {
            method: (await client.ask(own, method))["result"]
            for own, method in enumerate(
                ("tools/list", "resources/list", "resources/templates/list", "prompts/list"), 2
            )
        }

        assert SECRET.encode() not in client.raw
    (tool,) = listed["tools/list"]["tools"]
    schema = tool["inputSchema"]
    assert (tool["name"], tool["title"]) == ("tell", "[redacted]")
    assert (schema["type"], schema["required"]) == ("object", ["n"])
    assert schema["properties"]["n"]["enum"] == ["[redacted]", "a"]
    assert schema["properties"]["description"]["properties"] == {
        "deep": {"description": "[redacted]"}
    }
    assert tool["annotations"]["readOnlyHint"] is True
    assert [len(one) for one in listed.values()] == [3, 2, 1, 1]


ASKED = ["resources/read", "prompts/get", "completion/complete", "ping", "x/new", "no/such"]
TELL = {"name": "tell", "arguments": {"n": "a"}}
CALLED = ["tell", "fail", "shape", "asks", "error"]


@WAYS
async def test_responses_leak_nothing(front, way):
    async with front("Redaction", way) as client:
        await client.ask("i", "initialize")
        answers = [await client.ask(own, method) for own, method in enumerate(ASKED)]
        for own, name in enumerate(CALLED, len(ASKED)):
            answers.append(await client.ask(own, "tools/call", {**TELL, "name": name}))

        assert SECRET.encode() not in client.raw
    kinds = [one.get("type") for one in answers[6]["result"]["content"][:-1]]
    assert kinds == ["text", "image", "audio", "resource", "resource", "resource_link", "novel",
                     "[redacted]"]  # fmt: skip
    assert answers[6]["result"]["structuredContent"] == {
        "list": ["[redacted]", 1], "[redacted]": {"n": "[redacted]"},
    }  # fmt: skip
    assert answers[7]["result"]["isError"]
    assert answers[9]["result"]["requestState"] == "s"
    assert [one["error"]["code"] for one in (answers[5], answers[10])] == [-7, -7]
    assert answers[2]["result"]["completion"]["values"] == ["[redacted]", "a"]


@WAYS
async def test_notifications_and_requests_leak_nothing(front, way):
    async with front("Redaction", way) as client:
        await client.ask(1, "initialize")
        await client.ask(2, "tools/list")
        await client.ask(3, "tools/call", TELL)

        assert SECRET.encode() not in client.raw
        told = re.findall(rb'"method": ?"([a-zA-Z/_]+)"', client.raw)
    if way == "pipes":
        # Over HTTP those that belong to no call go to a stream that this client has not opened.
        assert sorted(told) == sorted([
            b"notifications/progress", b"notifications/message", b"notifications/message",
            b"notifications/cancelled", b"notifications/resources/updated", b"notifications/new",
            b"sampling/createMessage", b"elicitation/create", b"roots/list",
        ])  # fmt: skip


DOUBLES = ["result", "block", "escaped", "deep", "error", "spaced"]


@WAYS
async def test_a_duplicate_member_is_removed(front, way):
    async with front("Watching", way) as client:
        await client.ask("i", "initialize")
        await client.ask("l", "tools/list")
        before = len(client.raw)
        answers = [
            await client.ask(own, "tools/call", {"name": f"double-{name}"})
            for own, name in enumerate(DOUBLES)
        ]
        said = client.raw[before:]

    mine = [line for line in said.splitlines() if b'"method"' not in line]
    assert SECRET.encode() not in b"".join(mine)
    texts = [one.get("result", {}).get("content", [{}])[:1] for one in answers]
    assert [one and one[0].get("text") for one in texts] == [[], "fine", "fine", [], None, "fine"]
    assert answers[3]["result"]["structuredContent"] == {"a": [{"b": 1}]}
    assert answers[4]["error"] == {"code": 1, "message": "no"}


async def test_structure_survives_a_careless_handler(front):
    async with front("Cutting") as client:
        hello = (await client.ask(1, "initialize"))["result"]
        (tool,) = (await client.ask(2, "tools/list"))["result"]["tools"]

        assert SECRET.encode() not in client.raw
    assert hello["protocolVersion"] == "2025-11-25"
    assert hello["capabilities"] == {"tools": {}}
    assert hello["serverInfo"] == {"name": "", "version": ""}
    assert tool.keys() == {"name", "inputSchema", "outputSchema"}
    assert tool["inputSchema"]["properties"]["n"] == {"type": "string"}


CALLS = [
    '{"jsonrpc":"2.0","id":%d,"method":"tools/call","method":"ping","params":{"name":"rm"}}',
    '{"jsonrpc":"2.0","id":%d,"method":"ping","method":"tools/call","params":{"name":"rm"}}',
    '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"rm","name":"tell","arguments":{"n":"a"}}}',
    '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"tell","name":"rm"}}',
    '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"rm"},"params":{"name":"tell","arguments":{"n":"a"}}}',
    '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"tell","arguments":{"n":"a","a":"rm","a":1}}}',
]  # fmt: skip


async def test_a_duplicate_member_hides_no_call(front, tmp_path):
    async with front("Guarding") as client:
        await client.ask("l", "tools/list")
        answers = []
        for own, call in enumerate(CALLS):
            client.wire.write((call % own).encode())
            answers.append(await client.wire.answer(own))

    ran = [json.loads(line, object_pairs_hook=list) for line in read(tmp_path).splitlines()]
    denied = [own for own, one in enumerate(answers) if one["result"].get("isError")]
    assert denied == [1, 3]
    assert "rm" not in read(tmp_path).replace('"params":{"name":"rm"}', "", 1)
    assert all(len(dict(one)) == len(one) for one in ran)
    assert len(ran) == 1 + len(CALLS) - len(denied)

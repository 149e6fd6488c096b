"""The scenarios of `specs/proxy_servers.md`."""

import asyncio
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client

import toolbus
from conversations import SERVERS, talk
from node_packages import program
from wires import PROXY, QUIET, wired

pytestmark = pytest.mark.full  # Real servers and clients.

SOURCE = str(Path(toolbus.__file__).parents[1])
TEE = Path(__file__).parents[1] / "servers/tee.py"
PAGE = """\
<html><head><title>A page</title></head><body><article><h1>Héllo</h1>
<p>A paragraph that is long enough for everybody who looks for what a page is about, and more.</p>
</article></body></html>"""


class Pages(BaseHTTPRequestHandler):
    """One page, and nothing else."""

    def do_GET(self):
        body = PAGE.encode() if self.path == "/" else b"not here"
        self.send_response(200 if self.path == "/" else 404)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def page():
    """Return the address of a page on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Return a folder with a component in it."""
    folder = tmp_path_factory.mktemp("servers").resolve()
    (folder / "quiet.py").write_text(QUIET)
    return folder


@pytest.fixture(scope="module")
def modes(here):
    """Return what stands before a server, by name."""
    quiet = [*PROXY, "--with", f"{here / 'quiet.py'}:Quiet", "--"]
    return {"direct": [], "bare": [*PROXY, "--"], "quiet": quiet}


@pytest.fixture(scope="module")
def make(here, page):
    """Return a function that prepares a server, each time in the same state."""
    # So that what a server tells of its surroundings is the same as well.
    kept = {name: value for name, value in os.environ.items() if "COLOR" not in name}
    plain = {"HOME": str(here), "LANG": "C.UTF-8", "PYTHONPATH": SOURCE, "TZ": "UTC"}

    def prepare(name):
        shutil.rmtree(here / "work", ignore_errors=True)
        (here / "work").mkdir()
        server = SERVERS[name](here / "work", page)
        return server._replace(environment={**kept, **plain, **server.environment})

    return prepare


class Talk(NamedTuple):
    """What was said: by the client, to the server, by the server, and to the client."""

    sent: bytes
    read: bytes
    wrote: bytes
    got: bytes


@pytest.fixture(scope="module")
def record(make, modes, here):
    """Return a function that runs a server's script, once in each mode, and returns the talk."""
    talks = {}

    async def run(name, mode):
        server, logs = make(name), [here / f"{name}.{mode}.{side}" for side in ("read", "wrote")]
        command = [*modes[mode], sys.executable, str(TEE), *map(str, logs), *server.command]
        async with wired(command, env=server.environment) as wire:
            said, write = [], wire.process.stdin.write
            wire.write = lambda line: (said.append(line + b"\n"), write(line + b"\n"))
            await talk(wire, server)
            # Some servers do not mind the end of their input: they wait for a signal.
            await wire.end(grace=30 if modes[mode] else 1)
        read, wrote = [log.read_bytes() for log in logs]
        return Talk(b"".join(said), read, wrote, b"".join(wire.lines))

    async def once(name, mode):
        if (name, mode) not in talks:
            talks[name, mode] = await run(name, mode)
        return talks[name, mode]

    return once


@pytest.mark.parametrize("name", SERVERS)
async def test_recorded_traffic_passes_byte_for_byte(record, name):
    heard = await record(name, "bare")

    assert heard.read == heard.sent
    assert heard.got == heard.wrote
    assert heard.got.count(b"\n") > 15


def values(line):
    """Return what *line* says, by which 1, 1.0 and true differ."""
    return json.dumps(json.loads(line), sort_keys=True)


def is_message(line):
    """Tell whether the server says this by itself; the judging of an answer takes its time."""
    return "method" in json.loads(line)


@pytest.mark.parametrize("name", SERVERS)
async def test_passive_handlers_keep_real_traffic(record, name):
    heard = await record(name, "quiet")

    # What the proxy itself asks for has ids of its own.
    read, wrote = [
        [values(line) for line in data.splitlines() if b'"toolbus-' not in line]
        for data in (heard.read, heard.wrote)
    ]
    mark = b"The MCP server asks, not toolbus: "
    got = [values(line.replace(mark, b"")) for line in heard.got.splitlines()]
    assert heard.got.count(mark) == heard.wrote.count(b'"elicitation/create"')
    assert read == [values(line) for line in heard.sent.splitlines()]
    assert sorted(got) == sorted(wrote)
    assert list(filter(is_message, got)) == list(filter(is_message, wrote))
    assert len(read) > 15


TIMES = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+|\w{3} \w{3} \d\d \d{4} \d\d:\d\d:\d\d|\d+:\d\d:\d\d [AP]M"
    r"|(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
)


def timeless(value):
    """Return JSON without what a clock said, also in what is encoded."""
    match value:
        case {"blob": str(blob)}:
            return timeless({**value, "blob": [str(base64.b64decode(f"{blob}=="))]})
        case dict():
            return {key: timeless(inner) for key, inner in value.items()}
        case list():
            return [timeless(inner) for inner in value]
        case str():
            return TIMES.sub("then", value)
    return value


@pytest.mark.parametrize("name", SERVERS)
async def test_results_through_the_proxy_are_equal(record, name):
    direct, *through = [await record(name, mode) for mode in ("direct", "bare", "quiet")]

    answers = [
        {frame["id"]: (line, timeless(frame))
         for line in heard.got.splitlines(keepends=True)
         if "id" in (frame := json.loads(line)) and "method" not in frame}
        for heard in (direct, *through)
    ]  # fmt: skip
    first = answers[0]
    assert len(first) > 12
    for third in answers[1:]:
        assert list(third) == list(first)
        for (_, said), (_, told) in zip(first.values(), third.values(), strict=True):
            assert json.dumps(told, sort_keys=True) == json.dumps(said, sort_keys=True)
    for (one, said), (other, _) in zip(first.values(), answers[1].values(), strict=True):
        assert one == other or TIMES.search(str(said)) or "then" in str(said)


async def consult(server, front):
    """Return what the SDK's client gives for all that *server* has, and for each of its calls."""
    command, *rest = [*front, *server.command]
    parameters = StdioServerParameters(command=command, args=rest, env=server.environment)
    found = []

    async def ask(method, *arguments):
        try:
            result = await method(*arguments)
        except MCPError as error:
            found.append(error.error.model_dump(mode="json"))
        else:
            found.append(result.model_dump(mode="json"))

    async with Client(stdio_client(parameters)) as client:
        found.append(client.server_info.model_dump(mode="json"))
        for method in (client.list_tools, client.list_resources, client.list_prompts):
            await ask(method)
        for method, params in server.script:
            # What asks back needs a client that answers; the script above is one.
            if method == "tools/call" and not params["name"].startswith("trigger-"):
                await ask(client.call_tool, params["name"], params["arguments"])
            elif method == "prompts/get":
                await ask(client.get_prompt, params["name"], params.get("arguments"))
            elif method == "resources/read":
                await ask(client.read_resource, params["uri"])
    return found


@pytest.mark.parametrize("name", SERVERS)
async def test_the_official_client_sees_no_difference(make, modes, name):
    direct, through = [await consult(make(name), modes[mode]) for mode in ("direct", "quiet")]

    assert timeless(through) == timeless(direct)
    assert len(direct) >= 8


INSPECTIONS = [
    ["tools/list"],
    ["resources/list"],
    ["prompts/list"],
    ["tools/call", "--tool-name", "get-sum", "--tool-arg", "a=1", "b=2"],
    ["tools/call", "--tool-name", "no-such-tool"],
]


async def test_the_inspector_sees_no_difference(make, modes, here):
    server = make("everything")
    inspector = [*program("inspector"), "--cli", "--method"]

    async def inspect(front, words):
        process = await asyncio.create_subprocess_exec(
            *inspector, *words, "--", *front, *server.command,
            env=server.environment, cwd=here,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, err = await asyncio.wait_for(process.communicate(), 120)
        # The proxy itself tells that the server had to be stopped.
        said = [line for line in err.decode().splitlines() if not line.startswith("toolbus:")]
        return process.returncode, said, out.decode()

    # At the same time: most of what it takes is waiting for the server to end.
    direct, through = [
        await asyncio.gather(*[inspect(modes[mode], words) for words in INSPECTIONS])
        for mode in ("direct", "quiet")
    ]

    assert through == direct
    assert [code for code, _, _ in direct] == [0, 0, 0, 0, 5]
    assert "The sum of 1 and 2 is 3." in direct[3][2]

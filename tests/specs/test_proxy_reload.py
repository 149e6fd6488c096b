"""The scenarios of `specs/proxy_reload.md`."""

import asyncio
import json

import pytest

from http_stubs import http, http_stub, listening
from wires import PROXY, wired

pytestmark = pytest.mark.full  # Processes, and seconds until a file counts as changed.

GUARDS = """\
from toolbus import AgentComponent, Deny, events, guard

class No(AgentComponent):
    def __init__(self, name="rm"):
        self.refused = name

    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx):
        return Deny("not this one") if ctx.value.name == self.refused else None
"""
ENTRY = '[[component]]\nuse = "./guards.py:No"\n'
COPY = f'{ENTRY}settings = {{ name = "cp" }}\n'


@pytest.fixture
def private(environment, tmp_path):
    """Return an environment in which trust has a folder of its own."""
    return environment | {"XDG_CONFIG_HOME": str(tmp_path / "own")}


@pytest.fixture
def file(tmp_path):
    """Return a configuration whose guard refuses `rm`."""
    (tmp_path / "here/guards.py").write_text(GUARDS)
    config = tmp_path / "here/toolbus.toml"
    config.write_text(ENTRY)
    return config


def take(method, target, headers, body):
    """Answer as a server with two tools whose sessions have the name that their client gave."""
    frame = json.loads(body or b"{}")
    if "id" not in frame:
        return http(status="202 Accepted")
    params = frame.get("params", {})
    result = {"content": []}
    if frame["method"] == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {}} for name in ("rm", "cp")]}
    more = {}
    if frame["method"] == "initialize":
        more["mcp_session_id"] = params["clientInfo"]["name"]
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
    return http({"jsonrpc": "2.0", "id": frame["id"], "result": result}, **more)


async def begin(web, name):
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name}}
    begun = await web.post("initialize", params)
    assert begun.headers["mcp-session-id"] == name


async def refused(web, session):
    """Return which tools are refused in *session*, of `rm` and `cp`."""
    names = []
    for name in ("rm", "cp"):
        params = {"name": name, "arguments": {}}
        reply = await web.post("tools/call", params, own=name, mcp_session_id=session)
        names += [name] if "not this one" in reply.text else []
    return names


async def test_new_sessions_get_the_new_configuration(private, tmp_path, file, person):
    async with (
        http_stub(take) as (origin, _),
        listening(private, tmp_path / "here", "--config", file, "--", f"{origin}/mcp") as web,
    ):
        await begin(web, "first")
        before = await refused(web, "first")
        file.write_text(COPY)
        person("trust", file, **private)
        await web.until("active for new sessions")
        await begin(web, "second")
        after = [await refused(web, session) for session in ("first", "second")]

    assert before == ["rm"]
    assert after == [["rm"], ["cp"]]


async def test_an_invalid_configuration_changes_nothing(private, tmp_path, file, person):
    async with (
        http_stub(take) as (origin, _),
        listening(private, tmp_path / "here", "--config", file, "--", f"{origin}/mcp") as web,
    ):
        file.write_text("")
        await web.until("its current content is not trusted")
        await begin(web, "untrusted")
        file.write_text(f'{ENTRY}settings = {{ nme = "cp" }}\n')
        trusted = person("trust", file, **private)
        await web.until("unknown setting 'nme'")
        await begin(web, "broken")
        file.unlink()
        await web.until("there is no such file")
        await begin(web, "gone")
        ends = [await refused(web, name) for name in ("untrusted", "broken", "gone")]
        file.write_text(COPY)
        person("trust", file, **private)
        await web.until("active for new sessions")
        await begin(web, "mended")
        ends.append(await refused(web, "mended"))

    assert trusted.returncode == 0
    assert ends == [["rm"], ["rm"], ["rm"], ["cp"]]
    assert web.said.count("its current content is not trusted") <= 3
    assert web.said.count("unknown setting") == 1


async def test_a_session_on_pipes_logs_a_warning(private, tmp_path, file):
    piped = {"env": private, "stderr": asyncio.subprocess.PIPE, "cwd": tmp_path / "here"}
    call = {"name": "rm", "arguments": {}}
    async with (
        http_stub(take) as (origin, _),
        wired([*PROXY, "--config", file, "--", f"{origin}/mcp"], **piped) as wire,
    ):
        before = await wire.ask(1, "tools/call", call)
        file.write_text("")
        line = await asyncio.wait_for(wire.process.stderr.readline(), 60)
        after = await wire.ask(2, "tools/call", call)
        await wire.end()

    assert b"restart the server" in line
    assert before["result"]["isError"]
    assert after["result"]["isError"]

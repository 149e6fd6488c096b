"""A group of servers, of which one takes too long."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

from toolbus.mcp.group import negotiation, router
from toolbus.mcp.group.router import matches_template
from toolbus.mcp.group.server_group import ServerGroup
from toolbus.mcp.group.settings import ServerSettings
from toolbus.mcp.transport.limits import ProxyLimits

SERVER = """\
import json, os, sys, time
name, slow = sys.argv[1:]
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    while m["method"] == slow and not os.path.exists("go"):
        time.sleep(0.01)
    tools = [{"name": "x", "inputSchema": {}}]
    result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "tools": tools}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}), flush=True)
"""


@asynccontextmanager
async def running(folder, **slow):
    """Give a function that asks a group, and all that the group says."""
    (folder / "server.py").write_text(SERVER)
    words = [(name, (sys.executable, "server.py", name, method)) for name, method in slow.items()]
    group = ServerGroup([ServerSettings(*each) for each in words], ProxyLimits(grace=1))
    heard: asyncio.Queue = asyncio.Queue()

    def take(line):
        heard.put_nowait(json.loads(line))

    reading = asyncio.create_task(group.lines(2**20, take, lambda: None))

    async def ask(own, method, **params):
        frame = {"jsonrpc": "2.0", "id": own, "method": method, "params": params}
        group.write(json.dumps(frame).encode() + b"\n")
        return await asyncio.wait_for(heard.get(), 60)

    try:
        yield group, ask, heard
    finally:
        await group.end(1, at_once=True)
        await reading
        await group.kill()


async def test_who_begins_late_comes_in(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(negotiation, "START", 0.05)

    async with running(tmp_path, a="initialize", b="") as (group, ask, heard):
        begun = await ask(1, "initialize")
        group.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        before = await ask(2, "tools/list")
        (tmp_path / "go").touch()
        told = await asyncio.wait_for(heard.get(), 60)
        after = await ask(3, "tools/list")

    assert begun["result"]["serverInfo"]["name"] == "toolbus (b)"
    assert [tool["name"] for tool in before["result"]["tools"]] == ["b_x"]
    assert told["method"] == "notifications/tools/list_changed"
    assert [tool["name"] for tool in after["result"]["tools"]] == ["a_x", "b_x"]
    assert "server 'a' has not answered" in caplog.text


async def test_a_list_that_never_comes_is_left_out(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)

    async with running(tmp_path, a="tools/list", b="") as (_, ask, _):
        await ask(1, "initialize")
        monkeypatch.setattr(router, "LIST", 1.0)
        listed = await ask(2, "tools/list")

    assert [tool["name"] for tool in listed["result"]["tools"]] == ["b_x"]
    assert "server 'a': no response to tools/list within 1 s" in caplog.text


async def test_a_handshake_in_the_midst_of_a_discovery_begins_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}

    async with running(tmp_path, a="server/discover", b="") as (_, ask, heard):
        discovering = asyncio.create_task(ask(1, "server/discover", _meta=meta))
        await asyncio.sleep(0.5)
        beginning = asyncio.create_task(ask(2, "initialize"))
        await asyncio.sleep(0.1)
        (tmp_path / "go").touch()
        answers = [await discovering, await beginning]
        listed = await ask(3, "tools/list")

    refused, begun = sorted(answers, key=lambda answer: answer["id"])
    assert refused["error"]["message"] == "the client has already sent initialize"
    assert begun["result"]["serverInfo"]["name"] == "toolbus (a, b)"
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["a_x", "b_x"]
    assert heard.empty()


async def test_a_probe_that_came_first_all_the_same_is_undone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    # It speaks as its first request does, and refuses the other way.
    locking = SERVER.replace(
        "    tools =",
        """\
    era = globals().setdefault("era", m["method"])
    if era == "server/discover" and m["method"] == "initialize":
        error = {"code": -32022, "message": "too late"}
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": error}), flush=True)
        continue
    tools =""",
    )
    monkeypatch.setitem(globals(), "SERVER", locking)

    async with running(tmp_path, a="server/discover", b="") as (_, ask, _):
        discovering = asyncio.create_task(ask(1, "server/discover", _meta=meta))
        await asyncio.sleep(0.5)
        beginning = asyncio.create_task(ask(2, "initialize"))
        await asyncio.sleep(0.1)
        (tmp_path / "go").touch()
        answers = [await discovering, await beginning]
        listed = await ask(3, "tools/list")

    begun = max(answers, key=lambda answer: answer["id"])
    assert begun["result"]["serverInfo"]["name"] == "toolbus (a, b)"
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["a_x", "b_x"]


async def test_what_is_no_frame_is_answered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async with running(tmp_path, a="") as (group, ask, heard):
        await ask(1, "initialize")
        group.write(b"{broken\n")
        broken = await heard.get()
        group.write(b'[{"id":1,"method":"ping"},{"method":"x"},{"id":2,"method":"ping"}]\n')
        batch = [await heard.get() for _ in range(2)]

    assert (broken["id"], broken["error"]["code"]) == (None, -32700)
    assert [each["id"] for each in batch] == [1, 2]


def test_a_template_fits_by_its_plain_text():
    template = "x://{a}/m/{b}.txt"

    found = [
        matches_template(uri, template)
        for uri in ("x://1/m/2.txt", "x:///m/.txt", "x://1/m.txt", "x:")
    ]

    assert found == [True, True, False, False]

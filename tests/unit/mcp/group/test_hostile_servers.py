"""Random frames of the client and of servers: a group survives them, and mixes nobody up."""

import asyncio
import json
import logging
import random
from itertools import count

import pytest

from toolbus.mcp.group import grouped_server, router
from toolbus.mcp.group.server_group import ServerGroup
from toolbus.mcp.group.settings import ServerSettings
from toolbus.mcp.transport.limits import ProxyLimits

STATELESS = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
HELLO = {
    "protocolVersion": "2025-11-25",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {
        name: {"list": {}, "subscribe": True}
        for name in ("tools", "prompts", "resources", "tasks", "logging")
    },
}
METHODS = [
    "tools/list", "tools/call", "prompts/get", "resources/read", "tasks/get", "tasks/list",
    "tasks/result", "tasks/update", "completion/complete", "logging/setLevel", "ping",
    "server/discover", "subscriptions/listen", "elicitation/create", "sampling/createMessage",
    "notifications/initialized", "notifications/progress", "notifications/cancelled",
    "notifications/message", "notifications/tasks/status",
    "notifications/subscriptions/acknowledged", "notifications/resources/updated",
    "notifications/tools/list_changed",
]  # fmt: skip
NAMES = [
    "taskId", "task", "tasks", "_meta", "inputRequests", "message", "progressToken",
    "requestId", "uri", "notifications", "tools", "name", "logger", "params", "method",
    "code", "data", "supported", "capabilities", "supportedVersions", "nextCursor", "ref",
    "type", "toolsListChanged", "resourceSubscriptions", "taskIds",
    "io.modelcontextprotocol/related-task", "io.modelcontextprotocol/subscriptionId",
]  # fmt: skip
LEAVES = [None, True, 0, 1, -1, 1.5, "t", "good_t1", "evil_t1", "evil", "x://a", *METHODS]
IDS = [*range(1, 20), "x", "evil:1", "good:1", None]


def value(rng, depth=0):
    if depth == 4 or rng.random() < 0.4:
        return rng.choice(LEAVES)
    if rng.random() < 0.25:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return {rng.choice(NAMES): value(rng, depth + 1) for _ in range(rng.randint(0, 4))}


def frame(rng, meta):
    made = {"jsonrpc": "2.0"}
    if rng.random() < 0.4:
        return {**made, "id": rng.choice(IDS), rng.choice(["result", "error"]): value(rng)}
    made["method"] = rng.choice(METHODS)
    made |= {"id": rng.choice(IDS)} if rng.random() < 0.6 else {}
    params = value(rng)
    return {**made, "params": params | meta if isinstance(params, dict) else params}


class Link:
    """A server that says what a test gives it, and answers how it begins."""

    def __init__(self):
        self.said, self.asked = asyncio.Queue(), []

    def write(self, line):
        asked = json.loads(line)
        self.asked.append(asked)
        if asked.get("method") in {"initialize", "server/discover"} and "id" in asked:
            self.say({"jsonrpc": "2.0", "id": asked["id"], "result": HELLO})

    def say(self, said):
        self.said.put_nowait(json.dumps(said).encode() + b"\n")

    async def lines(self, _limit, take, _drain):
        while (line := await self.said.get()) is not None:
            await take(line)
        return ""

    async def end(self, _grace, *, at_once=False):
        self.said.put_nowait(None)
        return 0

    async def kill(self): ...

    def finish(self): ...


@pytest.mark.parametrize("meta", [{}, STATELESS], ids=["handshake", "stateless"])
async def test_no_frame_ends_a_group_or_reaches_a_neighbour(meta, monkeypatch, caplog, thorough):
    caplog.set_level(logging.ERROR, logger="toolbus")
    monkeypatch.setattr(router, "LIST", 0.01)
    links, numbers = [], count()

    async def start(*_):
        links.append(Link())
        return links[-1]

    monkeypatch.setattr(grouped_server, "start", start)
    for seed in range(2_000 if thorough else 100):
        rng = random.Random(seed)
        links.clear()
        settings = [ServerSettings(name, ("x",)) for name in ("evil", "good")]
        group = ServerGroup(settings, ProxyLimits(grace=0.1))
        told = []
        reading = asyncio.create_task(group.lines(0, told.append, lambda: None))
        begin = "server/discover" if meta else "initialize"
        own = {"jsonrpc": "2.0", "id": f"own-{next(numbers)}", "params": meta}
        group.write(json.dumps({**own, "method": begin}).encode())
        while not told:
            await asyncio.sleep(0)
        for _ in range(30):
            if rng.random() < 0.5:
                group.write(json.dumps(frame(rng, meta)).encode())
            else:
                links[0].say(frame(rng, {}))
            await asyncio.sleep(0)
        group.write(json.dumps({**own, "id": "last", "method": "ping"}).encode())
        while not any(b'"last"' in line for line in told):
            await asyncio.sleep(0)
        await group.kill()
        reading.cancel()

        frames = [json.loads(line) for line in told]
        about = [one.get("params") or one.get("result") for one in frames]
        named = [each["taskId"] for each in about if isinstance(each, dict) and "taskId" in each]
        requests = [one for one in frames if "method" in one and "id" in one]
        tasks = [one for one in requests if one["method"].startswith("tasks/")]
        asked = [one["params"]["taskId"] for one in tasks]
        texts = [one for one in named if isinstance(one, str) and one not in asked]
        assert all(one.startswith("evil_") for one in texts), seed
    assert [record.getMessage() for record in caplog.records] == []

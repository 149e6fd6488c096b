"""A session of the proxy between a hostile side and an honest one, and what its handlers see."""

import asyncio
import json
from typing import NamedTuple

from hostile_frames import DENIED, HIDDEN, SECRET
from toolbus import AgentComponent, Deny, ToolAdapter, events, guard, on
from toolbus.mcp.protocol.jsonrpc import LineSplitter
from toolbus.mcp.proxy.byte_relay import open_session
from toolbus.mcp.session.request_table import Channels
from toolbus.messages.immutable import thaw

LIMIT = 2**24
TURNS = 20
"""Turns of the loop after which nothing more is coming: a judged call needs fewer for its tasks."""
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("read", "write", DENIED)]


class Redact(ToolAdapter):
    """Takes secrets away, and remembers all texts, as they came and as they went on."""

    def __init__(self, texts):
        super().__init__()
        self._texts = texts

    def adapt_response(self, response, call):
        return response.map_text(self._change)

    def _change(self, text):
        changed = text.replace(SECRET, "[redacted]")
        self._texts.update((text, changed))
        return changed


class Judge(AgentComponent):
    """Denies a tool, hides another, and denies a path; *calls* holds name, arguments, verdict."""

    def __init__(self):
        self.calls, self.texts = [], set()
        self.register_tool_adapter(Redact(self.texts))

    def forget(self):
        self.calls.clear()
        self.texts.clear()

    @on(events.TOOLS_PROVIDE)
    def hide(self, ctx):
        return tuple([spec for spec in ctx.value if spec.name != HIDDEN])

    @guard(events.TOOL_CALL_BEFORE)
    def judge(self, ctx):
        arguments = thaw(ctx.value.arguments)
        allowed = ctx.value.name != DENIED and "/etc" not in json.dumps(arguments)
        self.calls.append((ctx.value.name, arguments, allowed))
        return None if allowed else Deny("not this one")


class Passed(NamedTuple):
    """What was *judged*, the *texts* that were shown, and the bytes for each side."""

    judged: list
    texts: frozenset
    server: bytes
    client: bytes


class Between:
    """A new session of *proxy*, whose server answers what it is asked with an empty result."""

    def __init__(self, proxy):
        self.client, self.server = [], []
        self._unread = []
        self.session = open_session(proxy, Channels(self.client.append, self._take))

    def _take(self, line):
        self.server.append(line)
        self._unread.append(line)

    async def play_server(self, silent=()):
        """Answer as a server until nothing is asked any more, but not the ids *silent*."""
        idle = 0
        while idle < TURNS:
            await asyncio.sleep(0)
            idle = 0 if self._unread else idle + 1
            lines, self._unread = self._unread, []
            for line in lines:
                for frame in frames_of(line):
                    if "method" in frame and "id" in frame and frame["id"] not in silent:
                        await self._answer(frame)

    async def _answer(self, frame):
        listed = {"tools": TOOLS} if frame["method"] == "tools/list" else {"content": []}
        answer = {"jsonrpc": "2.0", "id": frame["id"], "result": listed}
        await self.session.from_server(json.dumps(answer).encode() + b"\n")

    async def end(self):
        """Let it end; the server has gone before."""
        self.session.server_gone("the end")
        await self.session.settle(5)
        await self.session.close()


def frames_of(line):
    """Return the frames of *line* as a plain reader reads them."""
    try:
        said = json.loads(line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return []
    return [one for one in (said if isinstance(said, list) else [said]) if isinstance(one, dict)]


def lines_of(data):
    """Return *data* as the proxy cuts it."""
    cutter = LineSplitter(LIMIT)
    return [*cutter.feed(data), *filter(None, [cutter.remainder])]


async def from_client(proxy, judge, data):
    """Let a client write *data*."""
    judge.forget()
    between = Between(proxy)
    for line in lines_of(data):
        between.session.from_client(line)
    await between.play_server()
    await between.end()
    return passed(judge, between)


async def from_server(proxy, judge, asked, data):
    """Let a server write *data* to a client that has *asked*."""
    judge.forget()
    between = Between(proxy)
    for request_id, method in asked:
        params = {"name": "read", "uri": "file:///a", "arguments": {}}
        frame = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        between.session.from_client(json.dumps(frame).encode() + b"\n")
    await between.play_server(silent=[request_id for request_id, _ in asked])
    for line in lines_of(data):
        await between.session.from_server(line)
    await between.end()
    return passed(judge, between)


def passed(judge, between):
    """Return what has passed."""
    return Passed(
        list(judge.calls),
        frozenset(judge.texts),
        b"".join(between.server),
        b"".join(between.client),
    )

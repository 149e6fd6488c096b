"""When the calls of a client are written, and in how many commits."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from toolbus import AgentComponent, AssistantMessage, EventBus, ToolAdapter, events
from toolbus.errors import StoreError
from toolbus.mcp.proxy.proxy import Proxy
from toolbus.mcp.session.judged_session import JudgedSession
from toolbus.mcp.session.request_table import Channels
from toolbus.store.memory import MemoryStore
from toolbus.store.sqlite import SqliteStore
from toolbus.transcript import session_log


@pytest.fixture
def patience(monkeypatch):
    """Set how many seconds a call waits to be written with its answer."""
    return lambda seconds: monkeypatch.setattr(session_log, "_SOON", seconds)


class Watcher(AgentComponent):
    def __init__(self):
        self.register_tool_adapter(ToolAdapter())


class Ends:
    """A client's session, and a server that answers when it is told to."""

    def __init__(self, proxy):
        self.answers, self.asked = {}, []
        self.session = JudgedSession(proxy, Channels(self._to_client, self._to_server))

    def _to_client(self, line):
        frame = json.loads(line)
        self.answers[frame["id"]] = frame

    def _to_server(self, line):
        frame = json.loads(line)
        if frame["method"] == "tools/list":
            self._later(frame["id"], {"tools": [{"name": "echo"}]})
        else:
            self.asked.append(frame["id"])

    def _later(self, request_id, result):
        line = json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode() + b"\n"
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: asyncio.ensure_future(self.session.from_server(line)))

    def answer(self, request_id):
        self._later(request_id, {"content": [{"type": "text", "text": "done"}]})

    async def call(self, *names):
        """Send calls; wait until the server has them all."""
        for request_id in names:
            params = {"name": "echo", "arguments": {}}
            frame = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
            self.session.from_client(json.dumps(frame).encode() + b"\n")
        await until(lambda: set(names) <= {*self.asked, *self.answers})

    async def done(self, *names):
        """Let calls begin and end."""
        await self.call(*names)
        for request_id in names:
            self.answer(request_id)
        await until(lambda: set(names) <= set(self.answers))


async def until(holds):
    """Wait until *holds* does; it may look into the store."""
    async with asyncio.timeout(60):
        while not (await found if asyncio.iscoroutine(found := holds()) else found):
            await asyncio.sleep(0.001)


@asynccontextmanager
async def ends(store, **options):
    async with Proxy([Watcher()], store=store, **options) as proxy:
        made = Ends(proxy)
        yield made
        await made.session.close()


async def stored(store):
    return [one for info in await store.sessions() for one in await store.read(info.id)]


async def test_a_call_and_its_answer_take_one_commit_if_the_server_is_quick(tmp_path, patience):
    patience(60)
    async with SqliteStore(tmp_path / "store.db") as store, ends(store) as both:
        await both.done(0)
        before = store.commits

        for request_id in range(1, 11):
            await both.done(request_id)

        assert store.commits - before == 10
        assert len(await stored(store)) == 22


async def test_calls_under_way_share_commits(tmp_path, patience):
    patience(60)
    async with SqliteStore(tmp_path / "store.db") as store, ends(store) as both:
        await both.done(0)
        before = store.commits

        await both.done(*range(1, 41))

        assert store.commits - before < 40
        assert len(await stored(store)) == 82


async def test_a_call_that_takes_long_is_written_before_its_answer(tmp_path):
    async with SqliteStore(tmp_path / "store.db") as store, ends(store) as both:
        await both.done("first")

        await both.call("long")

        async def written():
            return len(await stored(store)) == 3

        await until(written)
        assert "long" not in both.answers
        both.answer("long")
        await until(lambda: "long" in both.answers)
        assert len(await stored(store)) == 4


async def test_a_call_that_waits_is_written_at_the_end(tmp_path):
    async with SqliteStore(tmp_path / "store.db") as store:
        async with ends(store) as both:
            await both.done("first")
            await both.call("open")

        last = (await stored(store))[2:]
        # Whoever ends the session answers what is open, if there is time for it.
        assert isinstance(last[0], AssistantMessage)


class Breaking(MemoryStore):
    durable, broken, refused = True, False, 0

    async def append(self, session_id, stored):
        if self.broken:
            self.refused += 1
            raise StoreError("disk", "full")
        await super().append(session_id, stored)


@pytest.mark.parametrize("soon", [True, False])
async def test_what_cannot_be_written_is_an_error_and_the_next_call_does_not_run(soon, patience):
    patience(60 if soon else 0)
    store = Breaking()
    async with ends(store) as both:
        await both.done(0)
        store.broken = True

        await both.call(1)
        if not soon:
            await until(lambda: store.refused)
        both.answer(1)
        await until(lambda: 1 in both.answers)
        await both.call(2)
        store.broken = False
        await until(lambda: 2 in both.answers)
        await both.done(3)

        assert "full" in both.answers[1]["error"]["message"]
        assert "full" in both.answers[2]["error"]["message"]
        assert both.asked == [0, 1, 3]
        assert both.answers[3]["result"]["content"][0]["text"] == "done"
        assert len(await stored(store)) == 4


@pytest.mark.parametrize("quick", [True, False])
async def test_who_observes_is_told_in_order_and_of_the_call(tmp_path, patience, quick):
    patience(60 if quick else 0)
    seen, bus = [], EventBus()
    for event in (events.TOOL_CALL_PERSIST_BEFORE, events.TOOL_CALL_PERSIST_AFTER):
        bus.on(event, lambda ctx: seen.append((ctx.event.name, ctx.value.message_id)))
    bus.on(events.MESSAGE_APPEND_AFTER, lambda ctx: seen.append((ctx.event.name, ctx.value.id)))

    async with SqliteStore(tmp_path / "store.db") as store, ends(store, bus=bus) as both:
        await both.done(0)
        seen.clear()
        await both.call(1)
        await until(lambda: quick or seen)
        both.answer(1)
        await until(lambda: 1 in both.answers)
        call, answer = [one.id for one in await stored(store)][2:]

    told = ("tool:call:persist:after", call), ("message:append:after", answer)
    before = ("tool:call:persist:before", call)
    first = ("message:append:after", call)
    assert seen == ([before, first, *told] if quick else [first, before, *told])

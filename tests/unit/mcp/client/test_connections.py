import asyncio
import io
import logging
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp.types import ListToolsResult, LoggingMessageNotificationParams

from toolbus import EventBus, ToolRunner
from toolbus.errors import ToolServerError
from toolbus.mcp import client
from toolbus.mcp.client import connections, servers
from toolbus.mcp.client.connections import Connection


def connection(transport, **options):
    """Return a connection to a server that is reached by *transport*."""
    server = SimpleNamespace(label="fake", last_error="", transport=transport)
    given = {"seconds": 5, "attempts": 1, "mode": "auto", "after": None} | options
    return Connection(server, lambda tools: None, **given)


def unreachable(on_end):
    raise OSError("out of order")


class Client:
    """A client whose subscriptions and listings end as *ends* says."""

    def __init__(self, ends):
        self.ends, self.listed = list(ends), asyncio.Event()

    async def list_tools(self, *, cursor):
        self.listed.set()
        if self.ends:
            raise self.ends.pop()
        return ListToolsResult(tools=[])

    @asynccontextmanager
    async def listen(self, *, tools_list_changed):
        if self.ends:
            raise self.ends.pop()
        yield self._events()

    async def _events(self):
        yield "changed"
        await asyncio.Event().wait()


async def test_a_stop_ends_the_connecting():
    @asynccontextmanager
    async def silent(on_end):
        reached.set()
        await asyncio.Event().wait()
        yield

    reached = asyncio.Event()
    one = connection(silent)
    await reached.wait()

    one.stop()
    await one.wait()

    with pytest.raises(ToolServerError, match="mcp server 'fake': the connection was closed"):
        await one.client()


async def test_a_lost_subscription_is_made_again(monkeypatch, caplog):
    monkeypatch.setattr(connections, "_FIRST_PAUSE", 0.001)
    caplog.set_level(logging.INFO, logger="toolbus")
    one = connection(unreachable)
    await one.wait()

    following = asyncio.create_task(one._subscribe(Client([SubscriptionLost("gone")])))
    await one._changed.wait()
    following.cancel()

    assert "the subscription to its tools ended: gone" in caplog.text


async def test_a_failed_listing_leaves_the_tools_alone(caplog):
    one, client = connection(unreachable), Client([MCPError(-1, "not now")])
    await one.wait()

    following = asyncio.create_task(one._follow(client))
    one._changed.set()
    await client.listed.wait()
    client.listed.clear()
    one._changed.set()
    await client.listed.wait()
    following.cancel()

    assert "its tools changed, and listing them failed: not now" in caplog.text


async def test_a_probe_that_fails_ends_the_connection():
    one = connection(unreachable)
    await one.wait()
    one.ended, one.reason = False, ""

    await one.probe()

    assert one.reason == "mcp server 'fake': out of order"


async def test_what_a_server_logs_is_logged(caplog):
    caplog.set_level(logging.DEBUG, logger="toolbus")
    one = connection(unreachable)
    await one.wait()

    await one._log(LoggingMessageNotificationParams(level="info", data="busy"))

    assert "mcp server 'fake': info: busy" in caplog.text


def test_a_version_is_told_also_without_an_installation(monkeypatch):
    def version(name):
        raise connections.PackageNotFoundError(name)

    monkeypatch.setattr(connections, "version", version)

    assert connections.own_version() == "unknown"


async def test_a_watched_stream_is_a_stream():
    class Stream:
        closed, left = False, ["one"]

        async def __anext__(self):
            if self.left:
                return self.left.pop()
            raise StopAsyncIteration

        async def aclose(self):
            self.closed = True

    ended, stream = [], Stream()
    watched = servers._Watched(stream, ended.append)

    assert await watched.receive() == "one"
    assert [message async for message in watched] == []
    assert ended == ["the server closed the connection"]
    await watched.aclose()
    assert (stream.closed, watched.last_context) == (True, None)


def test_a_standard_error_without_a_file_is_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())

    assert servers._with_file(None) is sys.__stderr__


async def test_a_toolset_that_was_never_opened_can_be_left():
    await client.tools("server").__aexit__(None, None, None)


async def test_an_address_gets_the_headers_and_may_refuse_them():
    seen = []

    async def answer(reader, writer):
        seen.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as stranger:
        port = stranger.sockets[0].getsockname()[1]
        address, headers = f"http://127.0.0.1:{port}/mcp", {"authorization": "Bearer secret"}
        with pytest.raises(ToolServerError) as caught:
            async with client.tools(address, headers=headers):
                pass

    assert all("authorization: bearer secret" in one for one in seen)
    assert str(caught.value) == (
        f"mcp server {address!r}: Server returned an error response (HTTP 401 Unauthorized)"
    )


async def test_a_doubted_connection_that_answers_is_kept(tmp_path):
    odd = Path(__file__).parents[3] / "servers" / "odd.py"

    async with client.tools(sys.executable, [str(odd), str(tmp_path / "log")]) as tools:
        one = tools._link._current
        one.needs_probe = True
        outcome = await ToolRunner(EventBus(), tools).call("add", {"a": 1, "b": 2})

    assert outcome.status == "ok"
    assert (tools._link._current, one.needs_probe) == (one, False)


def test_a_call_that_was_seen_once_is_never_refused():
    ping, call = [
        SimpleNamespace(content=b'{"method":"%b"}' % one) for one in (b"x", b"tools/call")
    ]
    delivery = servers.Delivery()
    servers.delivery_under_way.set(delivery)

    servers._note(ping, seen=False)
    untouched = delivery.refused
    servers._note(call, seen=False)
    refused = delivery.refused
    servers._note(call, seen=True)
    servers._note(call, seen=False)

    assert (untouched, refused, delivery.refused) == (False, True, False)

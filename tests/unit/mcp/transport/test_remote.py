"""A server at an address, whose streams break off and whose answers are late or none."""

import asyncio

import pytest

from http_stubs import answering, got
from toolbus.http.addresses import read_url
from toolbus.mcp.protocol.jsonrpc import FrameTooLongError
from toolbus.mcp.transport.limits import ProxyLimits
from toolbus.mcp.transport.remote import RemoteServer
from toolbus.mcp.transport.sse import read_events

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"


async def test_events_are_read_as_the_standard_says():
    said = (
        b": comment\nid: 1\r\nretry: 500\ndata: {\r\ndata:}\n\n"
        b"event: message\ndata: a\n\nid: 2\n\n\n\ndata: cut"
    )
    async with answering(STREAM + b"\r\n" + said) as (url, _), got(url) as reply:
        events = [one async for one in read_events(reply, 1_000)]

    assert [one[:3] for one in events] == [
        (b"{\n}", "1", 500),
        (b"a", None, None),
        (None, "2", None),
        (None, None, None),
        (None, None, None),
    ]
    assert b"".join([one.raw for one in events]) == said.removesuffix(b"data: cut")


async def test_an_event_without_end_is_an_error():
    async with answering(STREAM + b"\r\ndata: " + b"x" * 1_000) as (url, _), got(url) as reply:
        with pytest.raises(FrameTooLongError):
            [one async for one in read_events(reply, 100)]


async def test_a_server_without_a_resumed_stream_leaves_an_error():
    begun = STREAM + b"\r\nid: 1\ndata:\n\n"
    taken = []

    async def take(line):
        taken.append(line)

    async with answering(begun, b"HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n") as (url, heads):
        remote = RemoteServer(url, ProxyLimits(), None)
        remote.take, remote.is_open = take, lambda own: own == 1
        remote.write(b"\n")
        remote.write(b'{"id":1,"method":"ping"}\n')
        await remote.settle(5)
        await remote.close()

    assert b"has ended its answer without one" in taken[0]
    assert b"last-event-id: 1" in heads[1]


async def test_a_notification_that_fails_is_logged(caplog):
    async with answering(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n") as (url, _):
        remote = RemoteServer(url, ProxyLimits(), None)
        remote.write(b'{"method":"notifications/x"}\n')
        await remote.settle(5)
        await remote.close()

    assert "notifications/x did not reach the server: the server answered with HTTP" in caplog.text


async def test_a_server_that_hangs_has_a_limit():
    taken, ends = [], []

    async def take(line):
        taken.append(line)

    async def hang(reader, writer):
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ends.append(writer)

    server = await asyncio.start_server(hang, "127.0.0.1")
    async with server:
        port = server.sockets[0].getsockname()[1]
        remote = RemoteServer(read_url(f"http://127.0.0.1:{port}/"), ProxyLimits(silence=0.1), None)
        remote.take, remote.is_open = take, lambda _: True
        remote.write(b'{"id":1,"method":"tools/call"}\n')
        remote.write(b'{"id":2,"method":"tools/list"}\n')
        async with asyncio.timeout(60):
            while not taken:
                await asyncio.sleep(0.01)
            await remote.close()
            while len(ends) < 2:
                await asyncio.sleep(0.01)

    assert len(taken) == 1
    assert b'"id":2' in taken[0]
    assert b"gave no answer within 0.1 s" in taken[0]


async def test_routing_headers_repeat_the_stateless_request():
    meta = b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'
    async with answering(b"HTTP/1.1 202 OK\r\ncontent-length: 0\r\n\r\n") as (url, heads):
        remote = RemoteServer(url, ProxyLimits(), None)
        remote.is_open = lambda _: False
        for name in (b"plain", b"\xc3\xa9", b"=?base64?x?="):
            params = b'{"name":"' + name + b'",' + meta + b"}"
            remote.write(b'{"id":1,"method":"tools/call","params":' + params + b"}")
            await remote.settle(5)
        remote.write(b'{"id":1,"method":"x","params":{"a":\xff}}')
        await remote.settle(5)
        await remote.close()

    names = [head.partition(b"mcp-name: ")[2].partition(b"\r\n")[0] for head in heads]
    assert names == [b"plain", b"=?base64?w6k=?=", b"=?base64?PT9iYXNlNjQ/eD89?=", b""]
    assert all(b"mcp-protocol-version: 2026-07-28" in head for head in heads[:3])
    assert all(b"mcp-method: tools/call" in head for head in heads[:3])

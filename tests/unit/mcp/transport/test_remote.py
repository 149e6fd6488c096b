"""A server at an address, whose streams break off and whose answers are late or none."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import pytest

from http_stubs import answering, got
from toolbus.http.urls import read_url
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


async def test_an_event_without_end_is_an_error():
    async with answering(STREAM + b"\r\ndata: " + b"x" * 1_000) as (url, _), got(url) as reply:
        with pytest.raises(FrameTooLongError):
            [one async for one in read_events(reply, 100)]


@asynccontextmanager
async def linked(url, **limits):
    """Give the link to *url*, and the lines that it gives."""
    remote, taken = RemoteServer(url, ProxyLimits(**limits), None), []
    reading = asyncio.create_task(remote.lines(2**20, taken.append, lambda: None))
    try:
        yield remote, taken
    finally:
        await remote.end(5)
        await remote.kill()
        await reading


async def test_a_server_without_a_resumed_stream_leaves_an_error():
    begun = STREAM + b"\r\nid: 1\ndata:\n\n"
    gone = b"HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n"
    async with answering(begun, gone) as (url, heads), linked(url) as (remote, taken):
        remote.write(b"\n")
        remote.write(b'{"id":1,"method":"ping"}\n')
        await remote.end(5)

    assert b"response ended without a JSON-RPC response" in taken[0]
    assert b"last-event-id: 1" in heads[1]


async def test_a_standing_stream_is_resumed_as_long_as_it_has_events():
    accepted = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
    notice = b'id: %d\ndata: {"method":"notifications/message","params":{"data":%d}}\n\n'
    streams = [STREAM + b"\r\n" + notice % (n, n) for n in range(25)]
    async with (
        answering(accepted, *streams, accepted) as (url, heads),
        linked(url) as (link, taken),
    ):
        link.write(b'{"method":"notifications/initialized"}\n')
        async with asyncio.timeout(30):
            while len(heads) < len(streams) + 2:
                await asyncio.sleep(0.01)

    assert [json.loads(line)["params"]["data"] for line in taken] == [*range(25)]
    assert b"last-event-id: 24" in heads[-1]


@pytest.mark.full
async def test_a_polled_stream_is_resumed_until_its_response():
    polls = [STREAM + b"\r\nid: %d\nretry: 100\ndata:\n\n" % n for n in range(12)]
    last = STREAM + b'\r\ndata: {"id":1,"result":{}}\n\n'
    async with answering(*polls, last) as (url, heads), linked(url) as (link, taken):
        link.write(b'{"id":1,"method":"tools/call"}\n')
        async with asyncio.timeout(30):
            while not taken:
                await asyncio.sleep(0.01)

    assert json.loads(taken[0]) == {"id": 1, "result": {}}
    assert len(heads) == 13


async def test_a_stream_without_events_is_given_up():
    primer = STREAM + b"\r\nid: 1\ndata:\n\n"
    async with answering(*[primer] * 30) as (url, heads), linked(url) as (link, taken):
        link.write(b'{"id":1,"method":"tools/call"}\n')
        async with asyncio.timeout(30):
            while not taken:
                await asyncio.sleep(0.01)

    assert b"without a JSON-RPC response" in taken[0]
    assert len(heads) == 11


async def test_a_notification_that_fails_is_logged(caplog):
    failed = b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"
    async with answering(failed) as (url, _), linked(url) as (remote, _):
        remote.write(b'{"method":"notifications/x"}\n')

    assert "notifications/x did not reach the server: the server answered with HTTP" in caplog.text


async def test_a_server_that_hangs_has_a_limit():
    ends = []

    async def hang(reader, writer):
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ends.append(writer)

    async with await asyncio.start_server(hang, "127.0.0.1") as server:
        url = read_url(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        async with linked(url, silence=0.1) as (remote, taken), asyncio.timeout(60):
            remote.write(b'{"id":1,"method":"tools/call"}\n')
            remote.write(b'{"id":2,"method":"tools/list"}\n')
            while not taken:
                await asyncio.sleep(0.01)
            remote.signal(15)
            while len(ends) < 2:
                await asyncio.sleep(0.01)

    assert len(taken) == 1
    assert b'"id":2' in taken[0]
    assert b"no response from 127.0.0.1:" in taken[0]
    assert b" within 0.1 s" in taken[0]


async def test_what_depends_on_a_notification_waits_for_it():
    seen, answered = [], asyncio.Event()

    async def serve(reader, writer):
        with suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            body = await reader.readuntil(b"}")
            seen.append(body)
            if b"notifications" in body:
                await answered.wait()
            writer.write(b"HTTP/1.1 202 OK\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1") as server:
        url = read_url(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        async with linked(url) as (remote, _):
            remote.write(b'{"method":"notifications/x"}\n')
            remote.write(b'{"id":1,"method":"tools/list"}\n')
            await asyncio.sleep(0.05)
            before = len(seen)
            answered.set()

    assert before == 1
    assert seen == [b'{"method":"notifications/x"}', b'{"id":1,"method":"tools/list"}']


async def test_routing_headers_repeat_the_stateless_request():
    meta = b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'
    taken_well = b"HTTP/1.1 202 OK\r\ncontent-length: 0\r\n\r\n"
    async with answering(taken_well) as (url, heads), linked(url) as (remote, _):
        for name in (b"plain", b"\xc3\xa9", b"=?base64?x?="):
            params = b'{"name":"' + name + b'",' + meta + b"}"
            remote.write(b'{"id":1,"method":"tools/call","params":' + params + b"}")
            await remote.end(5)
        remote.write(b'{"id":1,"method":"x","params":{"a":\xff}}')

    names = [head.partition(b"mcp-name: ")[2].partition(b"\r\n")[0] for head in heads]
    assert names == [b"plain", b"=?base64?w6k=?=", b"=?base64?PT9iYXNlNjQ/eD89?=", b""]
    assert all(b"mcp-protocol-version: 2026-07-28" in head for head in heads[:3])
    assert all(b"mcp-method: tools/call" in head for head in heads[:3])


@pytest.mark.parametrize("status", ["500 No", "202 Accepted"])
async def test_each_request_of_a_batch_that_fails_has_an_answer(status):
    failed = f"HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n".encode()
    async with answering(failed) as (url, _), linked(url) as (remote, taken):
        remote.write(b'[{"id":1,"method":"ping"},{"method":"x"},{"id":2,"method":"ping"}]\n')
        await remote.end(5)

    assert [json.loads(line)["id"] for line in taken] == [1, 2]

"""HTTP as clients write it, and as they should not; and clients that are slow or leave."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from toolbus.http.server import HttpServer, RequestError, listen_on

HEAD = b"POST /a?b=c HTTP/1.1\r\nhost: x\r\n"
SECONDS = 60


@asynccontextmanager
async def serving(answer, **more):
    """Give a function that sends bytes to a server and returns all that it says."""
    bound = listen_on("127.0.0.1", 0)
    server = HttpServer(answer, **more)
    await server.start(bound)

    async def said(*pieces):
        reader, writer = await asyncio.open_connection(*bound.getsockname())
        try:
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0.01)
            return await asyncio.wait_for(reader.read(), SECONDS)
        finally:
            writer.close()

    said.address = bound.getsockname()
    try:
        yield said
    finally:
        await server.close(0.2)


async def echo(request):
    try:
        body = await request.read(10, 0.2)
    except RequestError as error:
        await request.answer(error.status, [], error.reason.encode())
    else:
        await request.answer(200, [("x-path", request.path), ("x-query", request.query)], body)


def statuses(said):
    return [int(part[:3]) for part in said.split(b"HTTP/1.1 ")[1:]]


async def test_requests_follow_one_another_on_a_connection():
    pipelined = HEAD + b"content-length: 2\r\n\r\nab" + HEAD + b"content-length: 1\r\n\r\nc"
    last = HEAD + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n1\r\nd\r\n0\r\n\r\n"
    async with serving(echo) as send:
        said = await send(pipelined, last[:60], last[60:])

    assert statuses(said) == [200, 200, 200]
    assert [part.partition(b"\r\n\r\n")[2] for part in said.split(b"HTTP/1.1 ")[1:]] == [
        b"ab", b"c", b"d",
    ]  # fmt: skip
    assert said.count(b"x-path: /a\r\nx-query: b=c\r\n") == 3
    assert said.lower().count(b"connection: close") == 1


@pytest.mark.parametrize(
    "wrong",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nhost : y\r\n\r\n",
        b"GET / HTTP/2.0\r\nhost: x\r\n\r\n",
        HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\nab",
        HEAD + b"content-length: +1\r\n\r\na",
        HEAD + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\nx\r\n",
        HEAD + b"authorization: a\r\nauthorization: b\r\n\r\n",
        HEAD + b"x: " + b"y" * 2**17,
    ],
)
async def test_what_two_readers_could_read_is_refused(wrong):
    async with serving(echo) as send:
        said = await send(wrong + b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")

    assert statuses(said) in ([400], [431], [501], [505])
    assert b"connection: close" in said.lower()


async def test_a_body_has_an_end_in_time_and_size():
    much = [b"x" * 2**16] * 9
    async with serving(echo, seconds=0.5) as send:
        announced = await send(HEAD + b"content-length: 11\r\n\r\n")
        long = await send(HEAD + b"transfer-encoding: chunked\r\n\r\n100000\r\n", *much)
        slow = await send(HEAD + b"content-length: 2\r\n\r\na")

    assert [statuses(said) for said in (announced, long, slow)] == [[413], [413], [408]]
    assert all(b"connection: close" in said.lower() for said in (announced, long, slow))


async def test_a_client_may_wait_to_be_asked_for_its_body():
    async with serving(echo) as send:
        wants = HEAD + b"expect: 100-continue\r\nconnection: close\r\ncontent-length: 1\r\n\r\n"
        said = await send(wants, b"a")

    assert statuses(said) == [100, 200]


async def test_silent_clients_are_left():
    async with serving(echo, seconds=0.1) as send:
        said = [await send(start) for start in (b"", b"POST /", HEAD, HEAD + b"\r\n" + HEAD)]

    assert said[:3] == [b""] * 3
    assert statuses(said[3]) == [200]


async def test_a_client_that_reads_nothing_is_left():
    cancelled = asyncio.Event()

    async def answer(request):
        await request.begin(200, [])
        try:
            while True:
                await request.write(b"x" * 2**16)
        finally:
            cancelled.set()

    async with serving(answer, seconds=0.2) as send:
        _, writer = await asyncio.open_connection(*send.address, limit=2**10)
        writer.write(HEAD + b"\r\n")
        await asyncio.wait_for(cancelled.wait(), SECONDS)
        writer.close()


async def test_an_answer_ends_with_its_client():
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def answer(request):
        await request.begin(200, [], b"x")
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with serving(answer) as send:
        _, writer = await asyncio.open_connection(*send.address)
        writer.write(HEAD + b"\r\n")
        await asyncio.wait_for(begun.wait(), SECONDS)
        writer.close()
        await asyncio.wait_for(cancelled.wait(), SECONDS)

    assert cancelled.is_set()


async def test_an_answer_that_fails_is_seen(caplog):
    async def answer(request):
        if request.method == "GET":
            await request.begin(200, [], b"x")
        raise LookupError("unforeseen")

    async with serving(answer) as send:
        begun = await send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        plain = await send(HEAD + b"connection: close\r\n\r\n")

    assert begun.endswith(b"1\r\nx\r\n")
    assert statuses(plain) == [500]
    assert "unforeseen" in caplog.text


async def test_a_head_alone_has_no_body():
    async with serving(echo) as send:
        said = await send(b"HEAD / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")

    assert statuses(said) == [200]
    assert said.endswith(b"\r\n\r\n")


async def test_the_longest_waiting_connection_gives_way():
    async with serving(echo, limit=2) as send:
        waiting = asyncio.create_task(send(HEAD + b"content-length: 2\r\n\r\na"))
        other = asyncio.create_task(send(b"POST"))
        await asyncio.sleep(0.05)
        said = await send(HEAD + b"connection: close\r\n\r\n")
        left = await waiting
        other.cancel()

    assert statuses(said) == [200]
    assert left == b""


async def test_what_is_under_way_has_a_while_at_the_end():
    begun = asyncio.Event()

    async def answer(request):
        begun.set()
        await asyncio.sleep(0.05 if request.method == "GET" else SECONDS)
        await request.answer(200)

    async with serving(answer) as send:
        quick = asyncio.create_task(send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"))
        slow = asyncio.create_task(send(HEAD + b"\r\n"))
        idle = asyncio.create_task(send(b""))
        await asyncio.sleep(0.03)
        await begun.wait()
    said = await asyncio.gather(quick, slow, idle, return_exceptions=True)

    assert statuses(said[0]) == [200]
    assert b"connection: close" in said[0].lower()
    assert isinstance(said[1], ConnectionResetError) or said[1] == b""
    assert said[2] == b""

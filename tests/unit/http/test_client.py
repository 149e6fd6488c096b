"""HTTP as servers write it, and as they should not."""

import asyncio

import pytest

from http_stubs import answering, got
from toolbus.http.client import HttpClient, Timeouts, TransportError
from toolbus.http.urls import read_url


async def test_a_request_is_one_connection():
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{\r\n}") as (url, heads):
        async with got(url) as reply:
            body = await reply.body(10)

        assert (reply.status, body) == (200, b"{\r\n}")
        assert heads[0].startswith(b"GET /mcp?a=b HTTP/1.1\r\nhost: 127.0.0.1:")
        assert b"user@" not in heads[0]
        assert b"x-more: 1\r\n" in heads[0]


async def test_an_interim_answer_is_passed_over():
    interim = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    final = b"HTTP/1.1 204 No Content\r\n\r\n"
    async with answering(interim + final) as (url, _), got(url) as reply:
        assert reply.status == 204


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"content-length: 6\r\n", b"abcdef"),
        (b"", b"abcdef"),
        (b"transfer-encoding: chunked\r\n", b"3;x=y\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"),
    ],
)
async def test_bodies_have_three_kinds_of_end(head, body):
    async with answering(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + body) as (url, _):
        async with got(url) as reply:
            assert await reply.body(6) == b"abcdef"
        async with got(url) as reply:
            with pytest.raises(TransportError, match="more than 5 bytes"):
                await reply.body(5)


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1\r\n\r\n", b"x" * 100_000, b"HTTP/1.1 x y\r\n\r\n"]
)
async def test_what_is_no_http_is_an_error(answer):
    async with answering(answer) as (url, _):
        with pytest.raises(TransportError):
            await HttpClient().send(url, "GET", [], b"", Timeouts(5, 5))


@pytest.mark.parametrize(
    "header", [("x", "4242\r\nb: c"), ("x", "4242\0"), ("x y", "4242"), ("x", "4242\u20ac")]
)
async def test_what_is_no_header_is_not_sent(header):
    async with answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n") as (url, heads):
        with pytest.raises(TransportError, match="invalid header") as found:
            await HttpClient().send(url, "GET", [header], b"", Timeouts(5, 5))

    assert "4242" not in str(found.value)
    assert heads == []


async def test_a_connection_closed_during_the_tls_handshake_is_not_a_timeout():
    async def close(reader, writer):
        await reader.read(10)
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TransportError, match="ConnectionResetError"):
            await HttpClient().send(
                read_url(f"https://127.0.0.1:{port}/"), "GET", [], b"", Timeouts(5, 5)
            )


async def test_a_name_that_cannot_be_one_is_not_reached():
    with pytest.raises(TransportError, match="cannot connect to"):
        await HttpClient().send(read_url("http://a..b/"), "GET", [], b"", Timeouts(5, 5))


@pytest.mark.parametrize(
    "text",
    [
        "server",
        "ftp://x/y",
        "http://",
        "npx",
        "https:///x",
        "http://[",
        "http://x:70000",
        "http://x:a",
    ],
)
def test_a_command_is_no_address(text):
    assert read_url(text) is None

"""A small HTTP server for answers of a webhook: one request to a connection, everything bounded.

Where there are too many connections, the idlest of those that have not said all gives way.

It speaks no TLS: what comes from elsewhere passes a server in front of it that does. A request
without the signature reaches neither the store nor any code but this and the signature's.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from toolbus.approvals.webhook_answers import MOST_BYTES, WebhookReply, receive_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from toolbus.approvals.webhook_signing import WebhookSecret
    from toolbus.store.protocol import Store

MOST_CONNECTIONS = 32
_MOST_HEAD = 16_384
_SECONDS, _IDLE_SECONDS = 10.0, 3.0
"""That a connection has for its request and the answer to it, and in which some of it comes."""
_END = b"\r\n\r\n"
_ONCE = ("content-length", "webhook-id", "webhook-timestamp", "webhook-signature")


class _BadRequestError(Exception):
    """A request that is not answered with more than *reply*."""

    def __init__(self, status: int, text: str) -> None:
        self.reply = WebhookReply(status, text)
        super().__init__(text)


class ServerAddress(NamedTuple):
    """Where the server listens."""

    host: str
    port: int


class _AnswerConnection:
    """One connection; `idle_since` is when the latest bytes of its request came."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer, self._buffer = reader, writer, b""
        self.idle_since = asyncio.get_running_loop().time()

    async def read_request(self) -> tuple[dict[str, str], bytes]:
        """Return the headers and the body of its request; raises `_BadRequestError`."""
        while (end := self._buffer.find(_END)) < 0 and len(self._buffer) <= _MOST_HEAD:
            await self._read_more()
        if not 0 <= end <= _MOST_HEAD:
            raise _BadRequestError(431, f"a request begins with at most {_MOST_HEAD} bytes")
        headers = _read_head(self._buffer[: end + len(_END)])
        length, begin = _length(headers), end + len(_END)
        while len(self._buffer) < begin + length:
            await self._read_more()
        return headers, self._buffer[begin : begin + length]

    async def _read_more(self) -> None:
        async with asyncio.timeout(_IDLE_SECONDS):
            data = await self._reader.read(_MOST_HEAD)
        if not data:
            raise EOFError
        self._buffer += data
        self.idle_since = asyncio.get_running_loop().time()


class _AnswerServer:
    def __init__(
        self, store: Store, secret: WebhookSecret, on_reply: Callable[[WebhookReply], None]
    ) -> None:
        self._store, self._secret, self._on_reply = store, secret, on_reply
        self._reading: set[_AnswerConnection] = set()
        self._answering = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the one request of a connection."""
        try:
            if self._has_room():
                with suppress(TimeoutError, OSError, EOFError):
                    async with asyncio.timeout(_SECONDS):
                        _write(writer, await self._reply(_AnswerConnection(reader, writer)))
                        await writer.drain()
                        writer.write_eof()
        finally:
            writer.close()

    def _has_room(self) -> bool:
        """Tell whether one more fits, after the idlest one that has not said all was closed."""
        if len(self._reading) + self._answering < MOST_CONNECTIONS:
            return True
        if not self._reading:
            return False
        idlest = min(self._reading, key=lambda each: each.idle_since)
        self._reading.remove(idlest)
        idlest.writer.transport.abort()
        return True

    async def _reply(self, connection: _AnswerConnection) -> WebhookReply:
        self._reading.add(connection)
        try:
            headers, body = await connection.read_request()
        except _BadRequestError as error:
            return error.reply
        finally:
            self._reading.discard(connection)
        self._answering += 1
        try:
            reply = await receive_answer(self._store, self._secret, headers, body)
        finally:
            self._answering -= 1
        self._on_reply(reply)
        return reply


@asynccontextmanager
async def serving_answers(
    store: Store,
    secret: WebhookSecret,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    on_reply: Callable[[WebhookReply], None] = lambda _: None,
) -> AsyncIterator[ServerAddress]:
    """Take answers by POST, at any path, as long as the block runs; raises `OSError`.

    *on_reply* is told what each message that could be one was answered.
    """
    answering = _AnswerServer(store, secret, on_reply)
    server = await asyncio.start_server(answering.serve, host, port, limit=_MOST_HEAD)
    async with server:
        address = server.sockets[0].getsockname()
        yield ServerAddress(address[0], address[1])


def _read_head(head: bytes) -> dict[str, str]:
    """Return the headers of a request, by their names in lower case."""
    request, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, _, rest = request.partition(" ")
    if not rest.rpartition(" ")[2].startswith("HTTP/1."):
        raise _BadRequestError(400, "this is no request of HTTP/1.1")
    if method != "POST":
        raise _BadRequestError(405, "answers come by POST")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        # RFC 9112, 5.1 and 5.2: no blank before the colon, and no folded lines.
        if not (colon and name and name == name.strip()):
            raise _BadRequestError(400, "this is no header of HTTP/1.1")
        if name in headers and name in _ONCE:
            raise _BadRequestError(400, f"the header {name} stands twice")
        headers[name] = value.strip(" \t")
    return headers


def _length(headers: dict[str, str]) -> int:
    length = headers.get("content-length", "")
    if "transfer-encoding" in headers or not length:
        raise _BadRequestError(411, "an answer says how long it is")
    if not (length.isascii() and length.isdecimal()):
        raise _BadRequestError(400, "the content-length is no number")
    if len(length) > len(str(MOST_BYTES)) or int(length) > MOST_BYTES:
        raise _BadRequestError(413, f"an answer has at most {MOST_BYTES} bytes")
    return int(length)


def _write(writer: asyncio.StreamWriter, reply: WebhookReply) -> None:
    body = json.dumps({"text": reply.text}).encode()
    head = [
        f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *(["allow: POST"] if reply.status == HTTPStatus.METHOD_NOT_ALLOWED else []),
        "connection: close",
    ]
    writer.write("\r\n".join([*head, "", ""]).encode() + body)

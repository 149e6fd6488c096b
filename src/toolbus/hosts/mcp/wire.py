"""HTTP/1.1 from the client's side: one request a connection, its answer piece by piece."""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, urlsplit

from toolbus.errors import ToolbusError
from toolbus.hosts.mcp.frames import FrameTooLongError
from toolbus.hosts.mcp.sse import Events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from toolbus.hosts.mcp.sse import Event

_HEAD = 2**16
_PIECE = 2**16
_BODILESS = {204, 304}
_SO_KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Seconds and tries until a peer that vanished counts as gone, where the system can say so."""


class WireError(ToolbusError):
    """An HTTP server cannot be reached, or what it says is no HTTP, for *reason*."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason


class Waits(NamedTuple):
    """Seconds until a server must *connect*, and until it begins to answer; None: as it likes."""

    connect: float = 30.0
    head: float | None = None


def read_url(text: str) -> SplitResult | None:
    """Return *text* as an address of a server, None if it is none."""
    url = urlsplit(text)
    return url if url.scheme in {"http", "https"} and url.hostname else None


def authority(url: SplitResult) -> str:
    """Return the server's name and port as the header `Host` says them."""
    return url.netloc.rpartition("@")[2]


class Reply:
    """The answer to a request: *status*, *fields* as they came, and the body.

    *headers* are the fields by lower-case name; of several of one name the last.
    """

    def __init__(
        self,
        status: int,
        fields: Sequence[tuple[str, str]],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.status, self.fields = status, fields
        self.bodiless = status in _BODILESS
        self.headers = {name.lower(): value for name, value in fields}
        self._reader, self._writer = reader, writer

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream of events."""
        return self.headers.get("content-type", "").lower().startswith("text/event-stream")

    @property
    def is_coded(self) -> bool:
        """Whether the body is compressed, though we ask for it as it is."""
        codings = [value for name, value in self.fields if name.lower() == "content-encoding"]
        return any(one.strip().lower() not in {"", "identity"} for one in codings)

    async def body(self, limit: int) -> bytes:
        """Return the body; raises `FrameTooLongError` beyond *limit* bytes."""
        pieces, size = [], 0
        async for piece in self.pieces():
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                raise FrameTooLongError(limit)
        return b"".join(pieces)

    async def events(self, limit: int) -> AsyncIterator[Event]:
        """Give the events of a stream as they come; raises `FrameTooLongError` as `body` does."""
        cutter = Events(limit)
        async for piece in self.pieces():
            for event in cutter.feed(piece):
                yield event

    def close(self) -> None:
        """Leave the rest of the body unread."""
        self._writer.close()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Give the body as it comes."""
        chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        try:
            async for piece in self._chunks() if chunked else self._counted():
                yield piece
        except (OSError, ValueError) as error:
            raise WireError("the server broke off its answer") from error

    async def _counted(self) -> AsyncIterator[bytes]:
        length = "0" if self.bodiless else self.headers.get("content-length", "")
        left = int(length) if length.isdigit() else None
        while left != 0:
            piece = await self._reader.read(_PIECE if left is None else min(_PIECE, left))
            if not piece:
                if left:
                    raise WireError("the server broke off its answer")
                return
            left = None if left is None else left - len(piece)
            yield piece

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int((await self._reader.readline()).partition(b";")[0], 16):
            while size:
                piece = await self._reader.read(min(size, _PIECE))
                if not piece:
                    raise WireError("the server broke off its answer")
                size -= len(piece)
                yield piece
            await self._reader.readline()


async def send(
    url: SplitResult,
    method: str,
    headers: Iterable[tuple[str, str]],
    body: bytes,
    waits: Waits,
) -> Reply:
    """Send a request, and return the answer when its head is there; raises `WireError`."""
    name = authority(url)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    own = [("host", name), ("connection", "close"), ("content-length", str(len(body)))]
    said = "".join([f"{key}: {value}\r\n" for key, value in (*own, *headers)]).encode("latin-1")
    reader, writer = await _connect(url, name, waits.connect)
    try:
        async with asyncio.timeout(waits.head):
            writer.write(b"%b HTTP/1.1\r\n%b\r\n" % (f"{method} {path}".encode(), said) + body)
            await writer.drain()
            reply = await _read_head(reader, writer)
            reply.bodiless = reply.bodiless or method == "HEAD"
            return reply
    except BaseException as error:
        writer.close()
        if isinstance(error, TimeoutError):
            raise WireError(f"{name} gave no answer within {waits.head:g} s") from error
        if isinstance(error, OSError | asyncio.IncompleteReadError | asyncio.LimitOverrunError):
            raise WireError(f"{name} broke off: {type(error).__name__}") from error
        raise


@functools.cache
def _context() -> ssl.SSLContext:
    # Reading the certificates of the system takes longer than a call.
    return ssl.create_default_context()


async def _connect(
    url: SplitResult, name: str, seconds: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    secure = url.scheme == "https"
    context = _context() if secure else None
    host, port = url.hostname or "", url.port or (443 if secure else 80)
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=_HEAD)
    except (OSError, TimeoutError) as error:
        reason = str(error) or "no answer in time"
        raise WireError(f"{name} cannot be reached: {reason}") from error
    _keep_alive(writer.get_extra_info("socket"))
    return reader, writer


def _keep_alive(connection: socket.socket) -> None:
    """Have the system ask now and then whether the peer of a silent connection is still there."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _SO_KEEPALIVE.items():
        if (number := getattr(socket, option, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, number, value)


async def _read_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Reply:
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        words = head[0].split(" ", 2)
        if not words[0].startswith("HTTP/1.") or not words[1:2] or not words[1].isdigit():
            raise WireError("the server does not speak HTTP/1.1")
        # An interim answer is followed by the real one.
        if words[1][0] != "1":
            break
    pairs = [line.partition(":") for line in head[1:] if line]
    fields = [(name.strip(), value.strip()) for name, _, value in pairs]
    return Reply(int(words[1]), fields, reader, writer)

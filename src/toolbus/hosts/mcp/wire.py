"""HTTP/1.1 from the client's side: one request a connection, its answer piece by piece."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, urlsplit

from toolbus.errors import ToolbusError
from toolbus.hosts.mcp.frames import FrameTooLongError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

_HEAD = 2**16
_PIECE = 2**16
_LONGEST_WAIT = 60.0


class WireError(ToolbusError):
    """An HTTP server cannot be reached, or what it says is no HTTP, for *reason*."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason


class Event(NamedTuple):
    """One server-sent event: its *data* on one line, its *id*, and seconds before a *retry*."""

    data: bytes
    id: str | None
    retry: float | None


def read_url(text: str) -> SplitResult | None:
    """Return *text* as an address of a server, None if it is none."""
    url = urlsplit(text)
    return url if url.scheme in {"http", "https"} and url.hostname else None


class Reply:
    """The answer to a request: *status*, *headers* with lower-case names, and the body."""

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.status, self.headers = status, headers
        self._reader, self._writer = reader, writer

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream of events."""
        return self.headers.get("content-type", "").startswith("text/event-stream")

    async def body(self, limit: int) -> bytes:
        """Return the body on one line; raises `FrameTooLongError` beyond *limit* bytes."""
        pieces, size = [], 0
        async for piece in self._pieces():
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                raise FrameTooLongError(limit)
        return _on_one_line(b"".join(pieces))

    async def events(self, limit: int) -> AsyncIterator[Event]:
        """Give the events of a stream as they come; see the HTML standard, 9.2."""
        data: list[bytes] = []
        own, retry, rest, size = None, None, b"", 0
        async for piece in self._pieces():
            *lines, rest = (rest + piece.replace(b"\r\n", b"\n")).split(b"\n")
            size += len(piece)
            if size > limit:
                raise FrameTooLongError(limit)
            for line in lines:
                name, _, value = line.partition(b":")
                value = value.removeprefix(b" ").removesuffix(b"\r")
                if name == b"data":
                    data.append(value)
                elif name == b"id":
                    own = value.decode(errors="replace")
                elif name == b"retry" and value.isdigit():
                    retry = min(int(value) / 1000, _LONGEST_WAIT)
                elif not line.removesuffix(b"\r"):
                    if data or own is not None:
                        yield Event(b" ".join(data), own, retry)
                    data, own, size = [], None, len(rest)

    def close(self) -> None:
        """Leave the rest of the body unread."""
        self._writer.close()

    async def _pieces(self) -> AsyncIterator[bytes]:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            async for piece in self._chunks():
                yield piece
            return
        length = self.headers.get("content-length", "")
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
        try:
            while size := int((await self._reader.readline()).partition(b";")[0], 16):
                while size:
                    piece = await self._reader.read(min(size, _PIECE))
                    if not piece:
                        raise WireError("the server broke off its answer")
                    size -= len(piece)
                    yield piece
                await self._reader.readline()
        except ValueError:
            raise WireError("the server broke off its answer") from None


async def send(
    url: SplitResult, method: str, headers: Mapping[str, str], body: bytes, seconds: float
) -> Reply:
    """Send a request, and return the answer when its head is there; raises `WireError`.

    *seconds* are for the connection alone: an answer takes as long as it takes.
    """
    name = url.netloc.rpartition("@")[2]
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    head = {"host": name, "connection": "close", "content-length": str(len(body)), **headers}
    said = "".join([f"{key}: {value}\r\n" for key, value in head.items()])
    reader, writer = await _connect(url, name, seconds)
    try:
        writer.write(f"{method} {path} HTTP/1.1\r\n{said}\r\n".encode() + body)
        await writer.drain()
        return await _read_head(reader, writer)
    except BaseException as error:
        writer.close()
        if isinstance(error, OSError | asyncio.IncompleteReadError | asyncio.LimitOverrunError):
            raise WireError(f"{name} broke off: {type(error).__name__}") from error
        raise


async def _connect(
    url: SplitResult, name: str, seconds: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    secure = url.scheme == "https"
    context = ssl.create_default_context() if secure else None
    host, port = url.hostname or "", url.port or (443 if secure else 80)
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.open_connection(host, port, ssl=context, limit=_HEAD)
    except (OSError, TimeoutError) as error:
        reason = str(error) or "no answer in time"
        raise WireError(f"{name} cannot be reached: {reason}") from error


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
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return Reply(int(words[1]), headers, reader, writer)


def _on_one_line(data: bytes) -> bytes:
    # In JSON a line end can only be space between tokens.
    return data.replace(b"\r", b" ").replace(b"\n", b" ").strip()

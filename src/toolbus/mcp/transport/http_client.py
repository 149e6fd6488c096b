"""HTTP/1.1 from the client's side: connections that are kept, and answers piece by piece.

See RFC 9112, 9.3 "Persistence", and for what may be sent once more 9.3.1 there.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from toolbus.mcp.protocol.jsonrpc import FrameTooLongError
from toolbus.mcp.transport.addresses import authority
from toolbus.mcp.transport.http_connection import HttpConnection, TransportError, make_request
from toolbus.mcp.transport.sse import EventParser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from urllib.parse import SplitResult

    from toolbus.mcp.transport.http_connection import ResponseHead
    from toolbus.mcp.transport.sse import Event

_MOST_KEPT = 100
_SAFE = frozenset({"GET", "HEAD"})
"""What may be asked again, since it has no effects: RFC 9110, 9.2.1."""

_PROBATION = 0.01
"""Seconds after which the first connection to a server must still be there."""

_SO_KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Seconds and tries until a peer that vanished counts as gone, where the system can say so."""


class Timeouts(NamedTuple):
    """Seconds until a server must *connect*, and until it begins to answer; None: as it likes."""

    connect: float = 30.0
    head: float | None = None


class HttpReply:
    """The answer to a request: *status*, *fields* as they came, and the body.

    *headers* are the fields by lower-case name; of several of one name the last.
    """

    def __init__(self, head: ResponseHead, connection: HttpConnection, wire: HttpClient) -> None:
        self.status, self.fields = head
        self.headers = dict(self.fields)
        self._connection: HttpConnection | None = connection
        self._wire = wire

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream of events."""
        return self.headers.get("content-type", "").lower().startswith("text/event-stream")

    @property
    def is_coded(self) -> bool:
        """Whether the body is compressed, though we ask for it as it is."""
        codings = [value for name, value in self.fields if name == "content-encoding"]
        return any(coding.strip().lower() not in {"", "identity"} for coding in codings)

    async def body(self, limit: int) -> bytes:
        """Return the body; raises `FrameTooLongError` beyond *limit* bytes."""
        # One buffer that grows: what many pieces held, the system would not get back.
        whole = bytearray()
        async for chunk in self.pieces():
            whole += chunk
            if len(whole) > limit:
                raise FrameTooLongError(limit)
        return bytes(whole)

    async def events(self, limit: int) -> AsyncIterator[Event]:
        """Give the events of a stream as they come; raises `FrameTooLongError` as `body` does."""
        cutter = EventParser(limit)
        async for chunk in self.pieces():
            for event in cutter.feed(chunk):
                yield event

    async def pieces(self) -> AsyncIterator[bytes]:
        """Give the body as it comes; raises `TransportError`."""
        while self._connection is not None and (chunk := await self._connection.read_chunk()):
            yield chunk

    async def finish(self, seconds: float) -> None:
        """Drop what is left of the body, if it ends within *seconds*: so the connection is kept."""
        with suppress(TransportError, TimeoutError):
            async with asyncio.timeout(seconds):
                async for _ in self.pieces():
                    pass

    def close(self) -> None:
        """Leave the rest of the body unread; without a rest the connection is kept."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._wire.release(connection)


class HttpClient:
    """Sends requests, and keeps the connections that their answers leave behind."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, str], list[tuple[HttpConnection, asyncio.TimerHandle]]] = {}
        self._places: dict[HttpConnection, tuple[str, str]] = {}
        self._lasting: set[tuple[str, str]] = set()
        self._hasty: set[tuple[str, str]] = set()

    async def send(
        self,
        url: SplitResult,
        method: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        waits: Timeouts,
    ) -> HttpReply:
        """Send a request, and return the answer when its head is there; raises `TransportError`.

        What may have come to the server is not sent again, unless that is safe.
        """
        fields = [("host", authority(url)), ("content-length", str(len(body))), *headers]
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        request = make_request(method, target, fields)
        while True:
            connection = await self._take(url) or await self._connect(url, waits.connect)
            try:
                async with asyncio.timeout(waits.head):
                    head = await connection.ask(request, body)
                    return HttpReply(head, connection, self)
            except TimeoutError as error:
                self._drop(connection)
                reason = f"{authority(url)} gave no answer within {waits.head:g} s"
                raise TransportError(reason) from error
            except BaseException as error:
                again = isinstance(error, TransportError) and connection.unheard
                self._drop(connection)
                if not (again and method in _SAFE):
                    raise

    def release(self, connection: HttpConnection) -> None:
        """Keep *connection* for the next request, or end it."""
        place = self._places.get(connection)
        if place is None or place in self._hasty or not connection.rest() or self._is_full():
            self._drop(connection)
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(connection.fresh, self._expire, connection)
        self._idle.setdefault(place, []).append((connection, timer))

    def close(self) -> None:
        """End all connections that nobody uses."""
        for idle in self._idle.values():
            for connection, timer in idle:
                timer.cancel()
                self._drop(connection)
        self._idle.clear()

    def _is_full(self) -> bool:
        return sum(map(len, self._idle.values())) >= _MOST_KEPT

    async def _take(self, url: SplitResult) -> HttpConnection | None:
        """Return a connection that waits for a request, None if there is none."""
        place = url.scheme, url.netloc
        idle = self._idle.get(place, [])
        while idle:
            connection, timer = idle.pop()
            timer.cancel()
            if place not in self._lasting:
                await self._prove(place, connection)
            if not connection.is_stale():
                return connection
            self._drop(connection)
        return None

    async def _prove(self, place: tuple[str, str], connection: HttpConnection) -> None:
        """Find out whether the server closes its connections and does not say so.

        A request could come in between, and then nobody would know whether it had effects.
        """
        try:
            await asyncio.sleep(_PROBATION)
        except asyncio.CancelledError:
            self._drop(connection)
            raise
        (self._hasty if connection.is_stale() else self._lasting).add(place)

    def _expire(self, connection: HttpConnection) -> None:
        idle = self._idle.get(self._places[connection], [])
        idle[:] = [entry for entry in idle if entry[0] is not connection]
        self._drop(connection)

    def _drop(self, connection: HttpConnection) -> None:
        self._places.pop(connection, None)
        connection.close()

    async def _connect(self, url: SplitResult, seconds: float) -> HttpConnection:
        name, secure = authority(url), url.scheme == "https"
        context = _context() if secure else None
        host, port = url.hostname or "", url.port or (443 if secure else 80)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                transport, connection = await loop.create_connection(
                    lambda: HttpConnection(name), host, port, ssl=context
                )
        except (OSError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            raise TransportError(f"{name} cannot be reached: {reason}") from error
        _keep_alive(transport.get_extra_info("socket"))
        self._places[connection] = url.scheme, url.netloc
        return connection


@functools.cache
def _context() -> ssl.SSLContext:
    # Reading the certificates of the system takes longer than a call.
    return ssl.create_default_context()


def _keep_alive(connection: socket.socket) -> None:
    """Have the system ask now and then whether the peer of a silent connection is still there."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _SO_KEEPALIVE.items():
        if (number := getattr(socket, option, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, number, value)

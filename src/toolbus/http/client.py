"""An HTTP/1.1 client with persistent connections and streamed responses.

See RFC 9112, 9.3 "Persistence", and for retries 9.3.1; h11 parses and writes the messages.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import select
import socket
import ssl
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.errors import ToolbusError
from toolbus.http.urls import authority
from toolbus.settings.extras import needs_extra

try:
    import h11
except ImportError as error:
    msg = needs_extra("requests to HTTP servers need h11", "http")
    raise ImportError(msg) from error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from urllib.parse import SplitResult

_HEAD = 2**16
_MAX_WAITING = 2**18
"""The maximum bytes of a body that wait for their reader."""

_FRESH, _LONGEST = 4.0, 60.0
"""Seconds for which an idle connection is kept; most servers close theirs after five."""

_KEPT_FOR = re.compile(rb"timeout=(\d{1,6})", re.IGNORECASE)
_BOUND = (b"negotiate", b"ntlm")
"""Schemes that authenticate a connection, not a request: RFC 4559, 6."""

_MOST_KEPT = 100
_SAFE = frozenset({"GET", "HEAD"})
"""Methods without effects, which may be retried: RFC 9110, 9.2.1."""

_SO_KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Seconds and probes until a vanished peer is detected, where the system supports it."""


class Timeouts(NamedTuple):
    """The maximum seconds to *connect*, and to the *head* of a response; None for no limit."""

    connect: float = 30.0
    head: float | None = None


class TransportError(ToolbusError):
    """An HTTP server is unreachable, or its response is invalid or too long, for *reason*."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class HttpReply:
    """The response to a request: *status*, *fields* as received, and the body.

    *headers* are the fields by lower-case name; the last one wins.
    """

    def __init__(self, head: ResponseHead, connection: HttpConnection, wire: HttpClient) -> None:
        self.status, self.fields = head
        self.headers = dict(self.fields)
        self._connection: HttpConnection | None = connection
        self._wire = wire

    @property
    def is_stream(self) -> bool:
        """Whether the body is an event stream."""
        return self.headers.get("content-type", "").lower().startswith("text/event-stream")

    @property
    def is_coded(self) -> bool:
        """Whether the body has a content coding, although none is accepted."""
        codings = [value for name, value in self.fields if name == "content-encoding"]
        return any(coding.strip().lower() not in {"", "identity"} for coding in codings)

    async def body(self, limit: int) -> bytes:
        """Return the body; raises `TransportError` beyond *limit* bytes."""
        # One growing buffer: the memory of many chunks would not return to the system.
        whole = bytearray()
        async for chunk in self.pieces():
            whole += chunk
            if len(whole) > limit:
                raise TransportError(f"the response has more than {limit} bytes")
        return bytes(whole)

    def take_waiting(self) -> tuple[bytes, bool]:
        """Return the bytes of the body received so far, and whether the body is complete."""
        if self._connection is None:
            return b"", True
        return self._connection.take_waiting()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the chunks of the body as they arrive; raises `TransportError`."""
        while self._connection is not None and (chunk := await self._connection.read_chunk()):
            yield chunk

    async def finish(self, seconds: float) -> None:
        """Drain the body for at most *seconds*, so that the connection can be kept."""
        with suppress(TransportError, TimeoutError):
            async with asyncio.timeout(seconds):
                async for _ in self.pieces():
                    pass

    def close(self) -> None:
        """Release the connection, which is kept if the body is complete."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._wire.release(connection)


class HttpClient:
    """A client with a pool of idle connections."""

    def __init__(self) -> None:
        # By scheme and authority.
        self._idle: dict[tuple[str, str], list[HttpConnection]] = {}

    async def send(
        self,
        url: SplitResult,
        method: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        waits: Timeouts,
    ) -> HttpReply:
        """Send a request, and return the response with its head; raises `TransportError`.

        A request that may have reached the server is retried only if its method is safe.
        """
        fields = [("host", authority(url)), ("content-length", str(len(body))), *headers]
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        request = make_request(method, target, fields)
        while True:
            connection = self._idle_connection(url) or await self._connect(url, waits.connect)
            try:
                async with asyncio.timeout(waits.head):
                    head = await connection.ask(request, body)
                    return HttpReply(head, connection, self)
            except TimeoutError as error:
                connection.close()
                reason = f"no response from {authority(url)} within {waits.head:g} s"
                raise TransportError(reason) from error
            except BaseException as error:
                connection.close()
                if not (isinstance(error, TransportError) and connection.may_retry(method)):
                    raise

    def release(self, connection: HttpConnection) -> None:
        """Keep *connection* for the next request, or close it."""
        if not self._is_full() and connection.rest():
            self._idle.setdefault(connection.origin, []).append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close all idle connections."""
        for idle in self._idle.values():
            for connection in tuple(idle):
                connection.close()

    def _is_full(self) -> bool:
        if sum(map(len, self._idle.values())) < _MOST_KEPT:
            return False
        for origin, idle in tuple(self._idle.items()):
            self._idle[origin] = [connection for connection in idle if not connection.is_stale()]
        return sum(map(len, self._idle.values())) >= _MOST_KEPT

    def _idle_connection(self, url: SplitResult) -> HttpConnection | None:
        """Return an idle connection to *url*, or None."""
        idle = self._idle.get((url.scheme, url.netloc), [])
        while idle:
            connection = idle.pop()
            if not connection.is_stale():
                return connection
            connection.close()
        return None

    async def _connect(self, url: SplitResult, seconds: float) -> HttpConnection:
        name, secure = authority(url), url.scheme == "https"
        context = _context() if secure else None
        host, port = url.hostname or "", url.port or (443 if secure else 80)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                transport, connection = await loop.create_connection(
                    lambda: HttpConnection((url.scheme, url.netloc), name), host, port, ssl=context
                )
        except (OSError, TimeoutError, UnicodeError) as error:
            reason = str(error) or type(error).__name__
            raise TransportError(f"cannot connect to {name}: {reason}") from error
        _keep_alive(transport.get_extra_info("socket"))
        return connection


class ResponseHead(NamedTuple):
    """The head of a response; the names of *fields* are in lower case."""

    status: int
    fields: Sequence[tuple[str, str]]


def make_request(method: str, target: str, headers: Sequence[tuple[str, str]]) -> h11.Request:
    """Return a request whose *headers* include its length; raises `TransportError` if invalid."""
    try:
        fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return h11.Request(method=method, target=target, headers=fields)
    except (h11.LocalProtocolError, UnicodeEncodeError):
        # Without details, because the invalid value may be a secret.
        raise TransportError("the request has an invalid header or URL") from None


class HttpConnection(asyncio.Protocol):
    """A connection to the server *name*, for one request after another.

    *origin* is the key under which requests share connections.
    """

    _transport: Any
    _head: asyncio.Future[ResponseHead]

    def __init__(self, origin: tuple[str, str], name: str) -> None:
        self.origin, self._name = origin, name
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD)
        self._pieces: deque[bytes] = deque()
        self._size, self._paused = 0, False
        self._asked, self._over, self._alone = False, False, False
        self._wake: asyncio.Future[None] | None = None
        self._broken: TransportError | None = None
        self._silent, self._used = True, False
        self._fresh = _FRESH
        self._expiry: asyncio.TimerHandle | None = None

    def ask(self, request: h11.Request, body: bytes) -> asyncio.Future[ResponseHead]:
        """Send a request; return a future of the response's head."""
        if self._expiry is not None:
            self._expiry.cancel()
        schemes = [
            value.partition(b" ")[0].lower()
            for name, value in request.headers
            if name == b"authorization"
        ]
        self._alone = any(scheme in _BOUND for scheme in schemes)
        self._head = asyncio.get_running_loop().create_future()
        self._asked, self._over, self._silent = True, False, True
        data: list[bytes] = []
        for event in (request, h11.Data(data=body), h11.EndOfMessage()):
            data += self._http.send_with_data_passthrough(event) or ()
        self._transport.writelines(data)
        return self._head

    async def read_chunk(self) -> bytes:
        """Return the next bytes of the body, empty at its end; raises `TransportError`."""
        while not self._pieces:
            if self._broken is not None:
                raise self._broken
            if self._over:
                return b""
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        return self.take_waiting()[0]

    def take_waiting(self) -> tuple[bytes, bool]:
        """Return the unread bytes of the body, and whether the body is complete."""
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return data, self._over

    def rest(self) -> bool:
        """Become idle for the next request; return False if the connection cannot be reused."""
        http, transport = self._http, self._transport
        ended = (http.our_state, http.their_state) == (h11.DONE, h11.DONE)
        unread = (self._pieces, self._paused, http.trailing_data[0])
        unfit = (self._alone, self._broken, transport.is_closing())
        if not (ended and self._over) or any((*unread, *unfit, transport.get_write_buffer_size())):
            return False
        self._http.start_next_cycle()
        self._asked, self._used = False, True
        loop = asyncio.get_running_loop()
        self._expiry = loop.call_later(self._fresh, transport.abort)
        return True

    def is_stale(self) -> bool:
        """Return whether the server has closed the connection, or sent unexpected bytes."""
        if self._transport.is_closing():
            return True
        look = select.poll()
        look.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(look.poll(0))

    def may_retry(self, method: str) -> bool:
        """Return whether a failed request may be retried on another connection.

        The server may have closed this connection, used before, without reading the request.
        """
        return self._used and self._silent and method in _SAFE

    def close(self) -> None:
        """Close the connection at once."""
        if self._expiry is not None:
            self._expiry.cancel()
        self._transport.abort()

    # --- callbacks of asyncio ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Process received bytes; unexpected bytes end the connection."""
        if not self._asked or self._broken is not None:
            self._transport.abort()
            return
        self._silent = False
        self._receive(data)

    def eof_received(self) -> bool:
        """Process the end of the stream, which ends some bodies."""
        if self._asked:
            self._receive(b"")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the response if it is incomplete."""
        kind = "" if exc is None else f": {type(exc).__name__}"
        self._break(f"the connection to {self._name} was lost{kind}")

    def _receive(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            while self._process_event(self._http.next_event()):
                pass
        except h11.RemoteProtocolError:
            if not data:
                self._break(f"the connection to {self._name} was lost during the response")
            elif self._head.done():
                self._break(f"{self._name} sent an invalid HTTP response")
            else:
                self._break(f"{self._name} does not speak HTTP/1.1")
            self._transport.abort()

    def _process_event(self, event: Any) -> bool:
        """Process one event; return whether there may be another."""
        match event:
            case h11.InformationalResponse():
                pass
            case h11.Response():
                self._begin(event)
            case h11.Data():
                self._pieces.append(bytes(event.data))
                self._size += len(event.data)
                if self._size > _MAX_WAITING and not self._paused:
                    self._paused = True
                    self._transport.pause_reading()
                self._wake_reader()
            case h11.EndOfMessage():
                self._over = True
                self._wake_reader()
                return False
            case _:
                return False
        return True

    def _begin(self, event: h11.Response) -> None:
        for name, value in event.headers:
            if name == b"keep-alive" and (match := _KEPT_FOR.search(value)) is not None:
                self._fresh = min(int(match[1]) - 1.0, _LONGEST)
        fields = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers
        ]
        if not self._head.done():
            self._head.set_result(ResponseHead(event.status_code, fields))

    def _break(self, reason: str) -> None:
        if not self._asked or self._over or self._broken is not None:
            return
        self._broken = TransportError(reason)
        if not self._head.done():
            self._head.set_exception(self._broken)
            self._head.exception()  # Retrieved here, because the caller may be gone.
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


def _context() -> ssl.SSLContext:
    return _context_of(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@functools.cache
def _context_of(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    # Cached by the environment, because loading the certificates takes longer than a call.
    return ssl.create_default_context()


def _keep_alive(connection: socket.socket) -> None:
    """Enable TCP keepalive, so that a vanished peer of a silent connection is detected."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _SO_KEEPALIVE.items():
        if (number := getattr(socket, option, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, number, value)

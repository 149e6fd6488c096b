"""An HTTP/1.1 client: connections that are kept, and answers piece by piece.

See RFC 9112, 9.3 "Persistence", and for what may be sent once more 9.3.1 there; h11 reads and
writes the messages.
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
    msg = needs_extra("to speak to HTTP servers toolbus needs h11", "http")
    raise ImportError(msg) from error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from urllib.parse import SplitResult

_HEAD = 2**16
_MAX_WAITING = 2**18
"""How many bytes of a body wait at most for their reader."""

_FRESH, _LONGEST = 4.0, 60.0
"""Seconds for which a silent connection is kept: most servers close theirs after five."""

_KEPT_FOR = re.compile(rb"timeout=(\d{1,6})", re.IGNORECASE)
_BOUND = (b"negotiate", b"ntlm")
"""Schemes with which a connection, and not a request, says who asks: RFC 4559, 6."""

_MOST_KEPT = 100
_SAFE = frozenset({"GET", "HEAD"})
"""What may be asked again, since it has no effects: RFC 9110, 9.2.1."""

_SO_KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""Seconds and tries until a peer that vanished counts as gone, where the system can say so."""


class Timeouts(NamedTuple):
    """Seconds until a server must *connect*, and until it begins to answer; None: as it likes."""

    connect: float = 30.0
    head: float | None = None


class TransportError(ToolbusError):
    """An HTTP server cannot be reached, or its answer is not HTTP or too long, for *reason*."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


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
        """Return the body; raises `TransportError` beyond *limit* bytes."""
        # One buffer that grows: what many pieces held, the system would not get back.
        whole = bytearray()
        async for chunk in self.pieces():
            whole += chunk
            if len(whole) > limit:
                raise TransportError(f"the answer has more than {limit} bytes")
        return bytes(whole)

    def take_waiting(self) -> tuple[bytes, bool]:
        """Return what has come of the body so far, and whether that is the end of it."""
        if self._connection is None:
            return b"", True
        return self._connection.take_waiting()

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
        # By scheme and authority of their servers.
        self._idle: dict[tuple[str, str], list[HttpConnection]] = {}

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
            connection = self._idle_connection(url) or await self._connect(url, waits.connect)
            try:
                async with asyncio.timeout(waits.head):
                    head = await connection.ask(request, body)
                    return HttpReply(head, connection, self)
            except TimeoutError as error:
                connection.close()
                reason = f"{authority(url)} gave no answer within {waits.head:g} s"
                raise TransportError(reason) from error
            except BaseException as error:
                connection.close()
                if not (isinstance(error, TransportError) and connection.may_retry(method)):
                    raise

    def release(self, connection: HttpConnection) -> None:
        """Keep *connection* for the next request, or end it."""
        if not self._is_full() and connection.rest():
            self._idle.setdefault(connection.place, []).append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """End all connections that nobody uses."""
        for idle in self._idle.values():
            for connection in tuple(idle):
                connection.close()

    def _is_full(self) -> bool:
        if sum(map(len, self._idle.values())) < _MOST_KEPT:
            return False
        for place, idle in tuple(self._idle.items()):
            self._idle[place] = [connection for connection in idle if not connection.is_stale()]
        return sum(map(len, self._idle.values())) >= _MOST_KEPT

    def _idle_connection(self, url: SplitResult) -> HttpConnection | None:
        """Return a connection that waits for a request, None if there is none."""
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
            reason = str(error) or "no answer in time"
            raise TransportError(f"{name} cannot be reached: {reason}") from error
        _keep_alive(transport.get_extra_info("socket"))
        return connection


class ResponseHead(NamedTuple):
    """How an answer begins; the names of *fields* are in lower case."""

    status: int
    fields: Sequence[tuple[str, str]]


def make_request(method: str, target: str, headers: Sequence[tuple[str, str]]) -> h11.Request:
    """Return a request, with the length of its body among *headers*.

    Raises `TransportError` for what cannot be one.
    """
    try:
        fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return h11.Request(method=method, target=target, headers=fields)
    except (h11.LocalProtocolError, UnicodeEncodeError):
        # What is wrong with it may be a secret, and the client's.
        raise TransportError("the request has a header or an address that HTTP forbids") from None


class HttpConnection(asyncio.Protocol):
    """A connection to the server *name*, which answers one request after another.

    *place* is what requests that may share a connection have in common.
    """

    _transport: Any
    _head: asyncio.Future[ResponseHead]

    def __init__(self, place: tuple[str, str], name: str) -> None:
        self.place, self._name = place, name
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
        """Send a request; return what gets the head of the answer, or the reason for none."""
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
        """Return what has come of the body since, empty at its end; raises `TransportError`."""
        while not self._pieces:
            if self._broken is not None:
                raise self._broken
            if self._over:
                return b""
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        return self.take_waiting()[0]

    def take_waiting(self) -> tuple[bytes, bool]:
        """Return what has come of the body since, and whether that is the end of it."""
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return data, self._over

    def rest(self) -> bool:
        """Make ready for the next request for a while; return whether the server lets us."""
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
        """Return whether the server has closed it, or says what nobody asked."""
        if self._transport.is_closing():
            return True
        look = select.poll()
        look.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(look.poll(0))

    def may_retry(self, method: str) -> bool:
        """Return whether a failed request may be sent again on another connection.

        The server may have closed this one, which it served before, without having read it.
        """
        return self._used and self._silent and method in _SAFE

    def close(self) -> None:
        """End it, whatever is under way."""
        if self._expiry is not None:
            self._expiry.cancel()
        self._transport.abort()

    # --- what asyncio says ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take what came; what nobody asked for ends the connection."""
        if not self._asked or self._broken is not None:
            self._transport.abort()
            return
        self._silent = False
        self._take(data)

    def eof_received(self) -> bool:
        """Take the end: some bodies end with it."""
        if self._asked:
            self._take(b"")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the reader of the answer."""
        kind = "" if exc is None else f": {type(exc).__name__}"
        self._break(f"{self._name} broke off{kind}")

    def _take(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            while self._take_event(self._http.next_event()):
                pass
        except h11.RemoteProtocolError:
            if not data:
                self._break(f"{self._name} broke off its answer")
            elif self._head.done():
                self._break(f"{self._name} broke off: its answer is no HTTP")
            else:
                self._break(f"{self._name} does not speak HTTP/1.1")
            self._transport.abort()

    def _take_event(self, event: Any) -> bool:
        """Take one event; return whether there may be another."""
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
            self._head.exception()  # Nobody may wait any more.
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


def _context() -> ssl.SSLContext:
    return _context_of(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@functools.cache
def _context_of(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    # Reading them, those of the environment or the system, takes longer than a call.
    return ssl.create_default_context()


def _keep_alive(connection: socket.socket) -> None:
    """Have the system ask now and then whether the peer of a silent connection is still there."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _SO_KEEPALIVE.items():
        if (number := getattr(socket, option, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, number, value)

"""An HTTP/1.1 server with a coroutine for each request and a time limit for every wait.

    server = HttpServer(answer)
    await server.start(listen_on("127.0.0.1", 8080))

See RFC 9112; h11 parses and writes the messages, asyncio handles the connections.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from http import HTTPStatus
from typing import Any, TypeAlias

from toolbus.settings.extras import needs_extra

try:
    import h11
except ImportError as error:
    msg = needs_extra("an HTTP server needs h11", "http")
    raise ImportError(msg) from error

logger = logging.getLogger("toolbus")

Fields: TypeAlias = Iterable[tuple[str, str]]
"""The names and values of headers."""

Answer: TypeAlias = Callable[["HttpRequest"], Coroutine[Any, Any, None]]
"""A coroutine function that answers a request; cancelled when the client is gone."""

_BACKLOG = 2_048
_HEAD = 2**16
"""The maximum bytes of a request's head, and of unread body bytes before reading pauses."""

_SEND_BUFFER = 2**18
"""Bytes of the system's send buffer; a larger one means fewer wake-ups."""

_UNIQUE_HEADERS = frozenset(
    {"authorization", "content-encoding", "content-length", "content-type", "host"}
    | {"last-event-id", "origin", "transfer-encoding"}
)
"""Headers that must not be repeated, because readers may pick different values."""

_VERSIONS = {b"1.0", b"1.1"}
_BODILESS = {204, 304}


class RequestError(Exception):
    """A request is refused with *status* and *reason*: ambiguous, too long or too slow."""

    def __init__(self, status: int, reason: str) -> None:
        self.status, self.reason = status, reason
        super().__init__(reason)


def listen_on(host: str, port: int) -> socket.socket:
    """Return a socket that listens on *host* and *port*, 0 for any; raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm only for a socket with an explicit protocol; with it, each
    # response in two writes would take 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        bound.bind((host, port))
        bound.listen(_BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound


class HttpServer:
    """A server that answers each request by *answer*.

    A client has *seconds* for the head of a request, for its next request, and to continue reading
    a response. At most *limit* connections are open; a new one replaces the one that has waited
    longest for a complete request. Headers whose names begin with one of *unique* must not be
    repeated, like the headers of HTTP that delimit a request or define its meaning.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        seconds: float = 30.0,
        limit: int = 16_384,
        unique: tuple[str, ...] = (),
    ) -> None:
        self.answer, self.seconds, self.unique, self._limit = (
            answer,
            seconds,
            unique,
            limit,
        )
        self._connections: set[_ServerConnection] = set()
        self.waiting: dict[_ServerConnection, None] = {}
        """Connections without a complete request, in the order of their waiting."""
        self._server: asyncio.Server | None = None

    async def start(self, bound: socket.socket) -> None:
        """Accept connections on *bound*."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _ServerConnection(self), sock=bound, backlog=_BACKLOG
        )

    async def close(self, grace: float) -> None:
        """Accept no more connections; abort requests not answered within *grace* seconds."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.finish()
        for cut_off in (False, True):
            remaining = tuple(self._connections)
            for connection in remaining if cut_off else ():
                connection.abort()
            if remaining:
                ends = [connection.ended for connection in remaining]
                await asyncio.wait(ends, timeout=grace)

    def admit(self, connection: _ServerConnection) -> bool:
        """Register a new connection; return whether there is room for it."""
        if len(self._connections) >= self._limit:
            if not self.waiting:
                return False
            next(iter(self.waiting)).abort()
        self._connections.add(connection)
        return True

    def dismiss(self, connection: _ServerConnection) -> None:
        """Unregister a connection."""
        self._connections.discard(connection)
        self.waiting.pop(connection, None)


class HttpRequest:
    """A request: *method*, *path*, *query*, *fields* as received, *headers* by lower-case name.

    *body* is empty until `read`. The path is not percent-decoded.
    """

    def __init__(self, method: str, target: str, fields: Fields, connection: Any = None) -> None:
        self.method = method
        self.path, _, self.query = target.partition("?")
        self.fields = list(fields)
        self.headers = dict(self.fields)
        self.body = b""
        self.ambiguity: str | None = None
        """The reason why readers could see different requests, or None."""
        self.has_begun = self.has_ended = False
        """Whether the response has begun, and whether it has ended."""
        self._connection: _ServerConnection = connection
        # One growing buffer: the memory of many chunks would not return to the system.
        self._received, self._is_whole, self._is_read = bytearray(), False, False
        self._changed = asyncio.Event()

    def accepts(self, kind: str) -> bool:
        """Return whether the client accepts the media type *kind*."""
        return bool({kind, f"{kind.partition('/')[0]}/*", "*/*"} & {*self.accepted_types()})

    def accepted_types(self) -> list[str]:
        """Return the media types of the header `Accept`, in order."""
        accept = self.headers.get("accept", "*/*").lower()
        return [kind.partition(";")[0].strip() for kind in accept.split(",")]

    async def read(self, limit: int, seconds: float) -> bytes:
        """Read the body of at most *limit* bytes within *seconds*; raises `RequestError`."""
        if self.ambiguity is not None:
            raise RequestError(400, self.ambiguity)
        if int(self.headers.get("content-length", 0)) > limit:
            raise RequestError(413, f"expected a body of at most {limit} bytes")
        if not self._is_whole:
            await self._receive_rest(limit, seconds)
        if len(self._received) > limit:
            raise RequestError(413, f"expected a body of at most {limit} bytes")
        self.body, self._received = bytes(self._received), bytearray()
        return self.body

    async def _receive_rest(self, limit: int, seconds: float) -> None:
        self._is_read = True
        try:
            async with asyncio.timeout(seconds):
                while not self._is_whole and len(self._received) <= limit:
                    self._changed.clear()
                    self._connection.read_on()
                    await self._changed.wait()
        except TimeoutError:
            raise RequestError(408, f"the body took more than {seconds:g} s") from None
        finally:
            self._is_read = False

    def receive(self, data: bytes, *, ends: bool = False) -> bool:
        """Take a chunk of the body; return False to pause reading."""
        if not self.has_ended:
            self._received += data
            self._is_whole = ends
            self._changed.set()
        return self._is_read or self.has_ended or len(self._received) < _HEAD

    async def answer(self, status: int, fields: Fields = (), body: bytes = b"") -> None:
        """Send a complete response."""
        sized = [] if status in _BODILESS else [("content-length", str(len(body)))]
        await self.begin(status, [*fields, *sized], body, ends=True)

    async def begin(
        self, status: int, fields: Fields, data: bytes = b"", *, ends: bool = False
    ) -> None:
        """Send the head of the response and *data*, the complete body if it *ends*."""
        pairs = [(name.lower(), value) for name, value in fields]
        if self._connection.must_close:
            pairs.append(("connection", "close"))
        self.has_begun = True
        await self._send([_head(status, pairs)], data, ends=ends)

    async def write(self, data: bytes, *, ends: bool = False) -> None:
        """Send a chunk of the body, the last one if it *ends*."""
        if data or ends:
            await self._send([], data, ends=ends)

    async def _send(self, events: list[h11.Event], data: bytes, *, ends: bool) -> None:
        if data and self.method != "HEAD":
            events.append(h11.Data(data=data))
        if ends:
            events.append(h11.EndOfMessage())
            self.has_ended = True
        await self._connection.send(events)


class _ServerConnection(asyncio.Protocol):
    """One connection of a client, with one request after another."""

    _transport: Any

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD)
        self._request: HttpRequest | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_last = self._has_bytes = self._is_lost = self._drops_input = False
        self.ended = asyncio.get_running_loop().create_future()
        """Done when the connection is closed and its last request has been served."""

    # --- calls of the server and the request ----------------------------------------------------

    def finish(self) -> None:
        """Close the connection after its current request."""
        self._is_last = True
        if self._task is None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._server.dismiss(self)
        self._transport.abort()

    def read_on(self) -> None:
        """Continue reading the body, and send 100 Continue if the client waits for it."""
        if self._http.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            self._write([go_on])
        self._transport.resume_reading()

    async def send(self, events: list[h11.Event]) -> None:
        """Write *events*, and wait while the client's buffer is full."""
        self._write(events)
        if not self._writable.is_set():
            await self._writable.wait()

    @property
    def must_close(self) -> bool:
        """Whether the connection must be closed after the current request."""
        return self._is_last or self._http.their_state is not h11.DONE

    def _write(self, events: list[h11.Event]) -> None:
        data: list[bytes] = []
        for event in events:
            data += self._http.send_with_data_passthrough(event) or ()
        if not self._transport.is_closing():
            self._transport.writelines(data)

    # --- callbacks of asyncio -------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Register the connection, and wait for a request."""
        self._transport = transport
        if not self._server.admit(self):
            transport.abort()
            return
        # Pause at the first byte that the system does not accept, not at the 65,536th.
        transport.set_write_buffer_limits(0)
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        """Process received bytes."""
        if self._drops_input:
            return
        self._http.receive_data(data)
        self._process_events()
        if self._request is None and not self._has_bytes:
            # After a long silence, the client gets its full time for a head.
            self._has_bytes = True
            self._start_timer()

    def pause_writing(self) -> None:
        """Start the time limit for the client to read."""
        self._writable.clear()
        self._watch(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Continue writing: the client has read everything."""
        self._writable.set()
        if self._reader_timer is not None:
            self._reader_timer.cancel()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio gives it
        """Cancel an unanswered request."""
        self._is_lost = True
        self._server.dismiss(self)
        self._writable.set()
        for timer in (self._timer, self._reader_timer):
            if timer is not None:
                timer.cancel()
        if self._task is None:
            self.ended.set_result(None)
        elif self._request is not None and not self._request.has_ended:
            self._task.cancel()

    # --- requests -------------------------------------------------------------------------------

    def _wait_for_request(self) -> None:
        self._server.waiting[self] = None
        self._has_bytes = bool(self._http.trailing_data[0])
        self._start_timer()

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._server.seconds, self._transport.abort)

    def _process_events(self) -> None:
        try:
            while not self._drops_input and self._process_event(self._http.next_event()):
                pass
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, "expected HTTP/1.1")

    def _process_event(self, event: Any) -> bool:
        """Process an event of h11; return whether there may be another."""
        match event:
            case h11.Request():
                self._begin(event)
            case h11.Data() if self._request is not None:
                if not self._request.receive(event.data):
                    self._transport.pause_reading()
            case h11.EndOfMessage() if self._request is not None:
                self._server.waiting.pop(self, None)
                self._request.receive(b"", ends=True)
            case _:
                # A pipelined request waits in the system until this one is answered.
                if event is h11.PAUSED:
                    self._transport.pause_reading()
                return False
        return True

    def _begin(self, event: h11.Request) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if event.http_version not in _VERSIONS:
            self._refuse(505, "expected HTTP/1.1")
            return
        fields = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers
        ]
        method, target = event.method.decode("ascii"), event.target.decode("ascii")
        request = self._request = HttpRequest(method, target, fields, self)
        request.ambiguity = _ambiguity(request, self._server.unique)
        # Bytes after an ambiguous request may be part of it.
        self._is_last = self._is_last or request.ambiguity is not None
        self._task = asyncio.create_task(self._serve(request))

    def _refuse(self, status: int, reason: str) -> None:
        """Answer invalid input with an error, if possible, and close the connection."""
        if self._task is not None and self._request is not None and not self._request.has_ended:
            self._task.cancel()
        if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            body = reason.encode()
            fields = [("content-type", "text/plain"), ("content-length", str(len(body)))]
            fields.append(("connection", "close"))
            self._write([_head(status, fields), h11.Data(data=body), h11.EndOfMessage()])
        self._drop_input()

    async def _serve(self, request: HttpRequest) -> None:
        """Answer *request*, then wait for the next one or close."""
        try:
            await self._server.answer(request)
        except asyncio.CancelledError:
            pass
        except Exception:
            logger.exception("could not serve a request")
            if not request.has_begun:
                await request.answer(500)
        finally:
            # Free the request: a closed connection lives until garbage collection.
            self._task = self._request = None
            self._end_request(request)

    def _end_request(self, request: HttpRequest) -> None:
        http, transport = self._http, self._transport
        if self._is_lost:
            self.ended.set_result(None)
        elif transport.is_closing():
            pass
        elif not request.has_ended:
            transport.abort()
        elif http.our_state is h11.DONE and http.their_state is h11.DONE and not self._is_last:
            http.start_next_cycle()
            self._wait_for_request()
            transport.resume_reading()
            self._process_events()
        elif http.their_state is h11.SEND_BODY:
            self._drop_input()
        else:
            transport.close()

    def _drop_input(self) -> None:
        """Discard input until the client closes the connection, or a time limit.

        Closing with unread input would reset the connection, and the client might lose its
        response.
        """
        self._drops_input = True
        self._server.waiting[self] = None
        self._transport.write_eof()
        self._transport.resume_reading()
        self._start_timer()

    # --- slow readers ---------------------------------------------------------------------------

    def _watch(self, unread: int) -> None:
        loop = asyncio.get_running_loop()
        self._reader_timer = loop.call_later(self._server.seconds, self._close_unread, unread)

    def _close_unread(self, before: int) -> None:
        """Abort the connection if the client has read nothing since *before* bytes were unread."""
        unread = self._transport.get_write_buffer_size()
        if unread < before:
            self._watch(unread)
        else:
            self._transport.abort()


def _head(status: int, fields: Fields) -> h11.Response:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
    return h11.Response(status_code=status, headers=pairs, reason=phrase.encode())


def _ambiguity(request: HttpRequest, unique: tuple[str, ...]) -> str | None:
    """Return why readers could see different requests: RFC 9112, 6.3, and 3.2 for `Host`."""
    if len(request.headers) < len(request.fields):
        for name, count in Counter(name for name, _ in request.fields).items():
            if count > 1 and (name in _UNIQUE_HEADERS or name.startswith(unique)):
                return f"the header {name!r} is repeated {count} times"
    if {"content-length", "transfer-encoding"} <= request.headers.keys():
        return "expected either Content-Length or Transfer-Encoding, got both"
    return None

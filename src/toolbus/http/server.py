"""An HTTP/1.1 server: a coroutine answers each request, and every wait for a client has a bound.

    server = HttpServer(answer)
    await server.start(listen_on("127.0.0.1", 8080))

See RFC 9112; h11 reads and writes the messages, and asyncio the connections.
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
    msg = needs_extra("to serve HTTP clients toolbus needs h11", "http")
    raise ImportError(msg) from error

logger = logging.getLogger("toolbus")

Fields: TypeAlias = Iterable[tuple[str, str]]
"""Headers: their names and values."""

Answer: TypeAlias = Callable[["HttpRequest"], Coroutine[Any, Any, None]]
"""Answers a request; its task is cancelled when the client has gone."""

_BACKLOG = 2_048
_HEAD = 2**16
"""Bytes that the head of a request has at most, and of a body that waits to be read."""

_SEND_BUFFER = 2**18
"""Bytes that the system takes for a client; the more it may take, the seldomer it asks for some."""

_SINGLE = frozenset(
    {"authorization", "content-encoding", "content-length", "content-type", "host"}
    | {"last-event-id", "origin", "transfer-encoding"}
)
"""Headers of which two readers may take two values, if they stand twice."""

_VERSIONS = {b"1.0", b"1.1"}
_BODILESS = {204, 304}


class RequestError(Exception):
    """A request is ambiguous, or its body too long or too slow: *status*, with a *reason*."""

    def __init__(self, status: int, reason: str) -> None:
        self.status, self.reason = status, reason
        super().__init__(reason)


def listen_on(host: str, port: int) -> socket.socket:
    """Return a socket that listens at *host* and *port*, 0 for any; raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches off Nagle's algorithm only where a socket names its protocol; with it each
    # answer in two pieces would take 40 ms.
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
    """A server whose requests *answer* answers.

    A client has *seconds* for the head of a request, for its next request, and to read on in an
    answer. There are at most *limit* connections: the one that has waited longest for its client
    to send a whole request gives way to a new one. Headers whose names begin like one of *single*
    may stand once, and so may those of HTTP that say where a request ends or what it means.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        seconds: float = 30.0,
        limit: int = 16_384,
        single: tuple[str, ...] = (),
    ) -> None:
        self.answer, self.seconds, self.single, self._limit = answer, seconds, single, limit
        self._connections: set[_ServerConnection] = set()
        self.waiting: dict[_ServerConnection, None] = {}
        """Connections without a whole request, in the order in which they began to wait."""
        self._server: asyncio.Server | None = None

    async def start(self, bound: socket.socket) -> None:
        """Take connections at *bound*."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _ServerConnection(self), sock=bound, backlog=_BACKLOG
        )

    async def close(self, grace: float) -> None:
        """Take no more connections; cut off what is not answered within *grace* seconds."""
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
        """Count a new connection; return whether there is room for it."""
        if len(self._connections) >= self._limit:
            if not self.waiting:
                return False
            next(iter(self.waiting)).abort()
        self._connections.add(connection)
        return True

    def dismiss(self, connection: _ServerConnection) -> None:
        """Count a connection no more."""
        self._connections.discard(connection)
        self.waiting.pop(connection, None)


class HttpRequest:
    """A request: *method*, *path*, *query*, *fields* as they came, *headers* by lower-case name.

    *body* is empty until it has been read. The path is as it came, with its percent signs.
    """

    def __init__(self, method: str, target: str, fields: Fields, connection: Any = None) -> None:
        self.method = method
        self.path, _, self.query = target.partition("?")
        self.fields = list(fields)
        self.headers = dict(self.fields)
        self.body = b""
        self.ambiguity: str | None = None
        """Why two readers could take it for two requests."""
        self.has_begun = self.has_ended = False
        """Whether the answer has begun, and whether it has ended."""
        self._connection: _ServerConnection = connection
        # One buffer that grows: what many parts held, the system would not get back.
        self._received, self._is_whole, self._is_read = bytearray(), False, False
        self._changed = asyncio.Event()

    def accepts(self, kind: str) -> bool:
        """Return whether the client takes *kind*, a media type."""
        return bool({kind, f"{kind.partition('/')[0]}/*", "*/*"} & {*self.accepted_types()})

    def accepted_types(self) -> list[str]:
        """Return the media types of the header `Accept`, in their order."""
        accept = self.headers.get("accept", "*/*").lower()
        return [kind.partition(";")[0].strip() for kind in accept.split(",")]

    async def read(self, limit: int, seconds: float) -> bytes:
        """Read the body of at most *limit* bytes within *seconds*; raises `RequestError`."""
        if self.ambiguity is not None:
            raise RequestError(400, self.ambiguity)
        if int(self.headers.get("content-length", 0)) > limit:
            raise RequestError(413, f"a body may have {limit} bytes")
        if not self._is_whole:
            await self._receive_rest(limit, seconds)
        if len(self._received) > limit:
            raise RequestError(413, f"a body may have {limit} bytes")
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
        """Take a piece of the body; return whether more may come at once."""
        if not self.has_ended:
            self._received += data
            self._is_whole = ends
            self._changed.set()
        return self._is_read or self.has_ended or len(self._received) < _HEAD

    async def answer(self, status: int, fields: Fields = (), body: bytes = b"") -> None:
        """Send the whole answer."""
        sized = [] if status in _BODILESS else [("content-length", str(len(body)))]
        await self.begin(status, [*fields, *sized], body, ends=True)

    async def begin(
        self, status: int, fields: Fields, data: bytes = b"", *, ends: bool = False
    ) -> None:
        """Send the head of the answer and *data*, which is all of it if it *ends*."""
        pairs = [(name.lower(), value) for name, value in fields]
        if self._connection.must_close:
            pairs.append(("connection", "close"))
        self.has_begun = True
        await self._send([_head(status, pairs)], data, ends=ends)

    async def write(self, data: bytes, *, ends: bool = False) -> None:
        """Send a part of the body, the last one if it *ends*."""
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
    """One connection, which brings one request after another."""

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
        """Is done when the connection has been closed, and its last request has been served."""

    # --- what the server and the request want ---------------------------------------------------

    def finish(self) -> None:
        """Close the connection after the request that is under way."""
        self._is_last = True
        if self._task is None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._server.dismiss(self)
        self._transport.abort()

    def read_on(self) -> None:
        """Read more of the body, for which the client may wait to be asked."""
        if self._http.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            self._write([go_on])
        self._transport.resume_reading()

    async def send(self, events: list[h11.Event]) -> None:
        """Write *events*, and wait while the client is behind in reading them."""
        self._write(events)
        if not self._writable.is_set():
            await self._writable.wait()

    @property
    def must_close(self) -> bool:
        """Whether no request can follow the one that is under way."""
        return self._is_last or self._http.their_state is not h11.DONE

    def _write(self, events: list[h11.Event]) -> None:
        data: list[bytes] = []
        for event in events:
            data += self._http.send_with_data_passthrough(event) or ()
        if not self._transport.is_closing():
            self._transport.writelines(data)

    # --- what asyncio says ----------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        self._transport = transport
        if not self._server.admit(self):
            transport.abort()
            return
        # So the first byte that the system does not take pauses, and not the 65,536th.
        transport.set_write_buffer_limits(0)
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        """Take what the client sends."""
        if self._drops_input:
            return
        self._http.receive_data(data)
        self._take_events()
        if self._request is None and not self._has_bytes:
            # A client may have been silent for long, and now has its time for a head.
            self._has_bytes = True
            self._start_timer()

    def pause_writing(self) -> None:
        """Give the client a while to read."""
        self._writable.clear()
        self._watch(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Go on: the client has read everything."""
        self._writable.set()
        if self._reader_timer is not None:
            self._reader_timer.cancel()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio gives it
        """Cancel the request that has no answer yet."""
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

    def _take_events(self) -> None:
        try:
            while not self._drops_input and self._take_event(self._http.next_event()):
                pass
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, "this is not HTTP/1.1")

    def _take_event(self, event: Any) -> bool:
        """Take an event of h11; return whether there may be another."""
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
                # The next request waits in the system until this one has its answer.
                if event is h11.PAUSED:
                    self._transport.pause_reading()
                return False
        return True

    def _begin(self, event: h11.Request) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if event.http_version not in _VERSIONS:
            self._refuse(505, "this is not HTTP/1.1")
            return
        fields = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers
        ]
        method, target = event.method.decode("ascii"), event.target.decode("ascii")
        request = self._request = HttpRequest(method, target, fields, self)
        request.ambiguity = _ambiguity(request, self._server.single)
        # What follows a request that two readers read as two may be the second half of it.
        self._is_last = self._is_last or request.ambiguity is not None
        self._task = asyncio.create_task(self._serve(request))

    def _refuse(self, status: int, reason: str) -> None:
        """Answer what is no request, if an answer can be sent, and close the connection."""
        if self._task is not None and self._request is not None and not self._request.has_ended:
            self._task.cancel()
        if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            body = reason.encode()
            fields = [("content-type", "text/plain"), ("content-length", str(len(body)))]
            fields.append(("connection", "close"))
            self._write([_head(status, fields), h11.Data(data=body), h11.EndOfMessage()])
        self._drop_input()

    async def _serve(self, request: HttpRequest) -> None:
        """Answer *request*, and wait for the next one if there may be one."""
        try:
            await self._server.answer(request)
        except asyncio.CancelledError:
            pass
        except Exception:
            logger.exception("a request could not be served")
            if not request.has_begun:
                await request.answer(500)
        finally:
            # A closed connection lives until the collector comes, and its requests need not.
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
            self._take_events()
        elif http.their_state is h11.SEND_BODY:
            self._drop_input()
        else:
            transport.close()

    def _drop_input(self) -> None:
        """Close the connection when the client has, or after a while.

        A connection that is closed with something unread is reset, and the client may never see
        its answer.
        """
        self._drops_input = True
        self._server.waiting[self] = None
        self._transport.write_eof()
        self._transport.resume_reading()
        self._start_timer()

    # --- clients that do not read ---------------------------------------------------------------

    def _watch(self, unread: int) -> None:
        loop = asyncio.get_running_loop()
        self._reader_timer = loop.call_later(self._server.seconds, self._close_unread, unread)

    def _close_unread(self, before: int) -> None:
        """Give up a client that has read nothing since *before* bytes were unread."""
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


def _ambiguity(request: HttpRequest, single: tuple[str, ...]) -> str | None:
    """Return why two readers could take *request* for two: RFC 9112, 6.3, and 3.2 for `Host`."""
    if len(request.headers) < len(request.fields):
        for name, count in Counter(name for name, _ in request.fields).items():
            if count > 1 and (name in _SINGLE or name.startswith(single)):
                return f"the header {name!r} is there {count} times"
    if {"content-length", "transfer-encoding"} <= request.headers.keys():
        return "a body has either a length or chunks"
    return None

"""The one place that knows h11, the extra `http`: a connection to an HTTP server."""

from __future__ import annotations

import asyncio
import re
import select
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.errors import ToolbusError
from toolbus.settings.extras import needs_extra

try:
    import h11
except ImportError as error:
    msg = needs_extra("to speak HTTP, with clients or servers, the proxy needs h11", "http")
    raise ImportError(msg) from error

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD = 2**16
_MAX_WAITING = 2**18
"""How many bytes of a body wait at most for whoever reads them."""

_FRESH, _LONGEST = 4.0, 60.0
"""Seconds for which a silent connection is kept: most servers close theirs after five."""

_KEPT_FOR = re.compile(rb"timeout=(\d{1,6})", re.IGNORECASE)
_BOUND = (b"negotiate", b"ntlm")
"""Schemes with which a connection, and not a request, says who asks: RFC 4559, 6."""


class TransportError(ToolbusError):
    """An HTTP server cannot be reached, or what it says is no HTTP, for *reason*."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


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
    """A connection to the server *name*, which answers one request after another."""

    _transport: Any
    _head: asyncio.Future[ResponseHead]

    def __init__(self, name: str) -> None:
        self._name, self._http = name, h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD)
        self._pieces: deque[bytes] = deque()
        self._size, self._paused = 0, False
        self._asked, self._over, self._alone = False, False, False
        self._wake: asyncio.Future[None] | None = None
        self._broken: TransportError | None = None
        self._silent, self._used = True, False
        self.fresh = _FRESH

    def ask(self, request: h11.Request, body: bytes) -> asyncio.Future[ResponseHead]:
        """Send a request; return what gets the head of the answer, or the reason for none."""
        head = self._http.send(request)
        rest = self._http.send(h11.Data(data=body)) or b""
        end = self._http.send(h11.EndOfMessage()) or b""
        fields = request.headers
        shown = [value.partition(b" ")[0].lower() for name, value in fields if name == _SHOWN]
        self._alone = any(scheme in _BOUND for scheme in shown)
        self._head = asyncio.get_running_loop().create_future()
        self._asked, self._over, self._silent = True, False, True
        if len(rest) < _HEAD:
            self._transport.write((head or b"") + rest + end)
        else:
            self._transport.write(head)
            self._transport.write(rest)
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
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return data

    def rest(self) -> bool:
        """Make ready for the next request, if the server lets us; tell whether it does."""
        http, transport = self._http, self._transport
        ended = (http.our_state, http.their_state) == (h11.DONE, h11.DONE)
        unread = (self._pieces, self._paused, http.trailing_data[0])
        unfit = (self._alone, self._broken, transport.is_closing())
        if not (ended and self._over) or any((*unread, *unfit, transport.get_write_buffer_size())):
            return False
        self._http.start_next_cycle()
        self._asked, self._used = False, True
        return True

    def is_stale(self) -> bool:
        """Tell whether the server has closed it, or says what nobody asked."""
        if self._transport.is_closing():
            return True
        look = select.poll()
        look.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(look.poll(0))

    @property
    def unheard(self) -> bool:
        """Whether it served before and is silent since: the server may have closed it by then."""
        return self._used and self._silent

    def close(self) -> None:
        """End it, whatever is under way."""
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
        """Tell whoever waits."""
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
        """Take one event; tell whether there may be another."""
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
                self.fresh = min(int(match[1]) - 1.0, _LONGEST)
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


_SHOWN = b"authorization"

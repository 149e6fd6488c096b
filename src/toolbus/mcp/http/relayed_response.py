"""The response to one request of a relay's client: a body or a stream."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from toolbus.mcp.http.event_streams import EventBuffer, EventStream
from toolbus.mcp.http.failures import JSON
from toolbus.mcp.http.headers import response_headers
from toolbus.mcp.http.requests import STREAM_FIELDS
from toolbus.mcp.protocol.jsonrpc import read_frame
from toolbus.mcp.transport.sse import escaped_line, rewrite_event, write_event

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.http.server import HttpRequest
    from toolbus.mcp.transport.sse import Event

    HeaderFields = Sequence[tuple[str, str]]

_OK, _BAD, _BAD_GATEWAY = 200, 400, 502


class RelayedResponse:
    """The response to *request*, with *status* unless the server sets another.

    It is complete when all ids in *owed* are answered and the main exchange has ended. Nothing of
    the server's is copied verbatim: the client gets the session's lines, in new events and with
    filtered headers.
    """

    def __init__(
        self, request: HttpRequest, status: int, owed: Iterable[Any], *, in_array: bool = False
    ) -> None:
        self._request, self.status, self._in_array = request, status, in_array
        self._fields: HeaderFields = ()
        self._owed = [*owed]
        self._has_requests = bool(self._owed)
        self._is_under_way = self._has_body = False
        self._line = b""
        # The responses to a batch, collected for one array.
        self._answers: list[bytes] = []
        self._stream: EventStream | None = None
        self._ready = asyncio.Event()
        self._failure: Exception | None = None

    @property
    def is_stream(self) -> bool:
        """Whether the response is a stream, which has begun."""
        return self._stream is not None

    async def send(self) -> None:
        """Send the response, as a body or a stream; raises the error of `break_off`."""
        await self._ready.wait()
        if self._failure is not None:
            raise self._failure
        if self._stream is not None:
            own_fields = dict(STREAM_FIELDS)
            others = [
                field for field in response_headers(self._fields) if field[0] not in own_fields
            ]
            await self._stream.write_to(self._request, self.status, [*STREAM_FIELDS, *others])
        else:
            await self._send_whole()

    # --- completion ----------------------------------------------------------------------------

    def begin_exchange(self) -> None:
        """Note the begin of the main exchange."""
        self._is_under_way = True

    def end_exchange(self) -> None:
        """Note the end of the main exchange."""
        self._is_under_way = False
        self.end_if_complete()

    def expect(self, request_id: Any) -> None:
        """Wait for the response to *request_id* too."""
        self._owed.append(request_id)

    def settle(self, request_id: Any) -> None:
        """Stop waiting for the response to *request_id*."""
        if request_id in self._owed:
            self._owed.remove(request_id)
        self.end_if_complete()

    def expect_nothing(self) -> None:
        """Stop waiting for any response."""
        self._owed.clear()
        self.end_if_complete()

    def end_if_complete(self) -> None:
        """Release or end the response if it is complete."""
        if not self._owed and not self._is_under_way:
            if self._stream is not None:
                self._stream.end()
            self._ready.set()

    # --- content -------------------------------------------------------------------------------

    def begin_stream(self, status: int, fields: HeaderFields) -> None:
        """Begin a stream with *status* and *fields*, unless the response has begun."""
        if not self._ready.is_set():
            self._stream = EventStream(EventBuffer())
            self.status, self._fields = status, fields
            self._ready.set()

    async def wait_for_room(self) -> None:
        """Wait while the client is far behind in a stream."""
        if self._stream is not None:
            await self._stream.buffer.wait_for_room()

    def begin_body(self, status: int, fields: HeaderFields) -> None:
        """Set *status* and *fields* from a server's reply with a body."""
        self.status, self._fields, self._has_body = status, fields, True

    def send_message(self, line: bytes, event: Event | None = None) -> None:
        """Send a message other than a response, received in *event* or the proxy's own."""
        if self._has_body and self._stream is None:
            self._line = line
        else:
            self.begin_stream(_OK, STREAM_FIELDS)
            self.append(line, event)

    def answer(self, line: bytes, event: Event | None) -> None:
        """Send a response."""
        if self._stream is not None:
            self.append(line, event)
        else:
            self._answers.append(line.strip())
        frame = read_frame(line)
        if frame is not None and (self._in_array or frame.id in self._owed):
            self.settle(frame.id)
        else:
            # A response to a single frame whose id is unreadable or ambiguous.
            self.expect_nothing()

    def append(self, line: bytes, event: Event | None) -> None:
        """Write *line* to the stream, with the id and retry of *event*, if given.

        An empty *line* only sends the position in the stream.
        """
        if self._stream is None:
            return
        if event is None:
            self._stream.append(write_event(escaped_line(line)))
        else:
            self._stream.append(rewrite_event(event, line or (None if event.data else event.data)))

    def fail(self, line: bytes = b"") -> None:
        """Set status 502 and the error *line*, unless a stream has begun."""
        if self._stream is None:
            self.status, self._fields, self._has_body = _BAD_GATEWAY, (), False
            self._line = line or self._line

    def break_off(self, error: Exception) -> None:
        """Have `send` raise *error*, or end a stream that has begun."""
        self._failure = error
        if self._stream is not None:
            self._stream.end()
        self._ready.set()

    async def _send_whole(self) -> None:
        answers, fields = self._answers, response_headers(self._fields)
        line = b",".join(answers) or self._line.strip()
        line = b"[" + line + b"]" if answers and self._in_array else line
        # Freed early: the lines may be large, and the object lives until garbage collection.
        self._answers, self._line = [], b""
        if not line:
            await self._request.answer(self.status, fields)
            return
        frame = read_frame(line)
        is_error = frame is not None and frame.failed
        keeps_status = not self._has_requests or (self.status >= _BAD and is_error)
        others = [field for field in fields if field[0] != "content-type"]
        status = self.status if keeps_status else _OK
        await self._request.answer(status, [*others, ("content-type", JSON)], line)

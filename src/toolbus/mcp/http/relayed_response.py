"""The answer to a client of a relay for one request: whole, or a stream while it comes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from toolbus.mcp.http.event_streams import EventBuffer, EventStream
from toolbus.mcp.http.failures import JSON
from toolbus.mcp.http.headers import back
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
    """The answer to *request*, with *status* if the server does not say another one.

    It is complete when no answer is *owed*, under an id for each, and the main exchange with the
    server has ended.
    Nothing of the server's passes as it came: the client gets what the session says, in events and
    under headers that are written here.
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
        # Those to a batch come one by one, and go in one array.
        self._answers: list[bytes] = []
        self._stream: EventStream | None = None
        self._ready = asyncio.Event()
        self._failure: Exception | None = None

    @property
    def is_stream(self) -> bool:
        """Whether a stream has begun."""
        return self._stream is not None

    async def send(self) -> None:
        """Send it, whole or as a stream while that comes; raises what broke it off."""
        await self._ready.wait()
        if self._failure is not None:
            raise self._failure
        if self._stream is not None:
            ours = dict(STREAM_FIELDS)
            others = [field for field in back(self._fields) if field[0] not in ours]
            await self._stream.write_to(self._request, self.status, [*STREAM_FIELDS, *others])
        else:
            await self._send_whole()

    # --- when it is complete -------------------------------------------------------------------

    def begin_exchange(self) -> None:
        """Wait for the end of the main exchange."""
        self._is_under_way = True

    def end_exchange(self) -> None:
        """Wait for the main exchange no more."""
        self._is_under_way = False
        self.end_if_complete()

    def expect(self, request_id: Any) -> None:
        """Expect the answer to *request_id* as well."""
        self._owed.append(request_id)

    def answered(self, request_id: Any) -> None:
        """Expect the answer to *request_id* no more."""
        if request_id in self._owed:
            self._owed.remove(request_id)
        self.end_if_complete()

    def expect_nothing(self) -> None:
        """Expect no answer any more."""
        self._owed.clear()
        self.end_if_complete()

    def end_if_complete(self) -> None:
        """Let it go if it is complete."""
        if not self._owed and not self._is_under_way:
            if self._stream is not None:
                self._stream.end()
            self._ready.set()

    # --- what it says --------------------------------------------------------------------------

    def begin_stream(self, status: int, fields: HeaderFields) -> None:
        """Begin a stream with *status* and *fields*, if nothing has begun."""
        if not self._ready.is_set():
            self._stream = EventStream(EventBuffer())
            self.status, self._fields = status, fields
            self._ready.set()

    async def wait_for_room(self) -> None:
        """Wait while the client is far behind in reading a stream."""
        if self._stream is not None:
            await self._stream.buffer.wait_for_room()

    def begin_body(self, status: int, fields: HeaderFields) -> None:
        """Take the *status* and the *fields* of a server's answer that is whole."""
        self.status, self._fields, self._has_body = status, fields, True

    def say(self, line: bytes, event: Event | None = None) -> None:
        """Send what is no answer to the request; it came with *event*, or is the proxy's own."""
        if self._has_body and self._stream is None:
            self._line = line
        else:
            self.begin_stream(_OK, STREAM_FIELDS)
            self.put(line, event)

    def answer(self, line: bytes, event: Event | None) -> None:
        """Send an answer."""
        if self._stream is not None:
            self.put(line, event)
        else:
            self._answers.append(line.strip())
        frame = read_frame(line)
        if frame is not None and (self._in_array or frame.id in self._owed):
            self.answered(frame.id)
        else:
            # To one frame whose id cannot be told, or that readers take for two.
            self.expect_nothing()

    def put(self, line: bytes, event: Event | None) -> None:
        """Write *line* to the stream in a new event, or with what *event* says besides its data.

        Without a *line* it says where the stream is.
        """
        if self._stream is None:
            return
        if event is None:
            self._stream.put(write_event(escaped_line(line)))
        else:
            self._stream.put(rewrite_event(event, line or (None if event.data else event.data)))

    def fail(self, line: bytes = b"") -> None:
        """Say that the server has not answered, in a *line*; a stream that has begun goes on."""
        if self._stream is None:
            self.status, self._fields, self._has_body = _BAD_GATEWAY, (), False
            self._line = line or self._line

    def break_off(self, error: Exception) -> None:
        """Have `send` raise *error*; a stream that has begun can only end."""
        self._failure = error
        if self._stream is not None:
            self._stream.end()
        self._ready.set()

    async def _send_whole(self) -> None:
        answers, fields = self._answers, back(self._fields)
        line = b",".join(answers) or self._line.strip()
        line = b"[" + line + b"]" if answers and self._in_array else line
        # It lives until the collector comes, and what it says may be large.
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

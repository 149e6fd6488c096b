"""What a client of a relay gets for one request: as the server began it, or as handlers left it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.mcp.http.event_streams import EventBuffer, EventStream
from toolbus.mcp.http.failures import JSON
from toolbus.mcp.http.headers import back
from toolbus.mcp.http.requests import STREAM_FIELDS
from toolbus.mcp.protocol.jsonrpc import SERVER_GONE, read_batch, read_frame, write_frame
from toolbus.mcp.transport.sse import rewrite_event, unbroken, write_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.http.server import HttpRequest
    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.transport.sse import Event

    HeaderFields = Sequence[tuple[str, str]]

_OK, _BAD, _BAD_GATEWAY = 200, 400, 502
_NO_FIELDS: HeaderFields = ()


def as_error(request_id: Any, answer: Frame | None, body: bytes, status: int) -> bytes:
    """Return *body*, read as *answer*, as the error to *request_id*: so handlers see every text."""
    request_id = None if request_id is UNSET else request_id
    if answer is not None and answer.failed:
        return write_frame(id=request_id, error=answer.error)
    text = body.decode(errors="replace")
    return write_frame(id=request_id, error={"code": SERVER_GONE, "message": text, "data": status})


class RelayedResponse:
    """The answer to *request*: complete when none is *pending* and the server's has ended.

    If it is *judged*, nothing passes as it came: the client gets what the session says, in events
    and under headers that are written here.
    """

    def __init__(self, request: HttpRequest, status: int, pending: int, *, judged: bool) -> None:
        self._request, self._judged = request, judged
        self.status, self._fields = status, _NO_FIELDS
        self.pending, self._has_requests = pending, bool(pending)
        self.is_over, self.failed = True, False
        self.stream: EventStream | None = None
        # What the session was *shown* of the server's body, and the body: if the session leaves
        # what it was shown, the client gets the body.
        self._shown: bytes | None = None
        self._body = b""
        self._line: bytes | None = None
        # Those to a batch that is judged come one by one, and go as one array.
        self._answers: list[bytes] = []
        self._ready = asyncio.Event()
        self._failure: Exception | None = None
        self._in_lines = False

    async def send(self) -> None:
        """Send it, whole or as a stream while that comes; raises what broke it off."""
        await self._ready.wait()
        if self._failure is not None:
            raise self._failure
        if self.stream is not None:
            await self.stream.write_to(self._request, self.status, self._stream_fields())
        else:
            await self._request.answer(*self._whole())

    def begin_stream(self, status: int, fields: HeaderFields, *, in_lines: bool = False) -> None:
        """Begin a stream with *status* and *fields*, if nothing has begun.

        It is one of events, or of frames *in_lines* if nobody judges what the server sends so.
        """
        if not self._ready.is_set():
            self._in_lines = in_lines and not self._judged
            self.stream = EventStream(EventBuffer())
            self.status, self._fields = status, fields
            self._ready.set()

    async def wait_for_room(self) -> None:
        """Wait while the client is far behind in reading a stream."""
        if self.stream is not None:
            await self.stream.buffer.wait_for_room()

    def set_body(self, status: int, fields: HeaderFields, line: bytes, body: bytes) -> None:
        """Answer with *body*, of which the session is shown *line*."""
        self.status, self._fields, self._shown, self._body = status, fields, line, body

    def break_off(self, error: Exception) -> None:
        """Have `send` raise *error*; a stream that has begun can only end."""
        self._failure = error
        if self.stream is not None:
            self.stream.end()
        self._ready.set()

    def fail(self, line: bytes | None = None) -> None:
        """Say that the server has not answered; a stream that has begun can only say *line*."""
        self.failed = True
        if self.stream is None:
            self.status, self._fields, self._shown, self._body = _BAD_GATEWAY, _NO_FIELDS, None, b""
            self._line = self._line if line is None else line

    def say(self, line: bytes, event: Event | None = None) -> None:
        """Send what is no answer to the request; it came with *event*, or is the proxy's own."""
        if self._shown is not None and self.stream is None:
            self._line = line
        else:
            self.begin_stream(_OK, STREAM_FIELDS)
            self.put(line, event)

    def answer(self, line: bytes, event: Event | None) -> None:
        """Send an answer, or a batch of them."""
        batch = read_batch(line)
        self.pending -= 1 if batch is None else len(batch)
        if self.stream is not None:
            self.put(line, event)
        else:
            self._answers.append(line.strip())
            several = len(self._answers) > 1 and self.pending <= 0
            self._line = b"[" + b",".join(self._answers) + b"]" if several else line
        self.check()

    def put(self, line: bytes, event: Event | None) -> None:
        """Write *line* to the stream as *event* came, or with what it says besides its data.

        Without a *line* it says where the stream is.
        """
        if event is None and self._in_lines:
            data = unbroken(line) + b"\n"
        elif event is None:
            data = write_event(unbroken(line))
        elif line == (event.data or b"") and not self._judged:
            data = event.raw
        else:
            data = rewrite_event(event, line or (None if event.data else event.data))
        self.put_bytes(data)

    def put_bytes(self, data: bytes) -> None:
        """Write *data* to the stream, if there is one."""
        if self.stream is not None:
            self.stream.put(data)

    def check(self) -> None:
        """End it if it is complete."""
        if self.pending <= 0 and self.is_over:
            if self.stream is not None:
                self.stream.end()
            self._ready.set()

    def release(self) -> None:
        """Hold what was sent no longer."""
        self._shown, self._body, self._line = None, b"", None
        self._answers.clear()

    def _stream_fields(self) -> HeaderFields:
        if not self._judged:
            return self._fields
        ours = dict(STREAM_FIELDS)
        return [*STREAM_FIELDS, *[field for field in back(self._fields) if field[0] not in ours]]

    def _whole(self) -> tuple[int, HeaderFields, bytes]:
        """Return the status, the headers and the body of an answer that is no stream."""
        line = self._line
        if not self._judged and line in {None, self._shown}:
            return self.status, self._fields, self._body
        fields = back(self._fields) if self._judged else self._fields
        if not line:
            return self.status, fields, b""
        keeps_status = not self._has_requests or (self.status >= _BAD and _is_error(line))
        status = self.status if keeps_status else _OK
        others = [field for field in fields if field[0].lower() != "content-type"]
        return status, [*others, ("content-type", JSON)], line.strip()


def _is_error(line: bytes) -> bool:
    frame = read_frame(line)
    return frame is not None and frame.failed

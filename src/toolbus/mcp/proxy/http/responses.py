"""What a client of a relay gets for one request: as the server began it, or as handlers left it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw

from toolbus.mcp.proxy.http.headers import back
from toolbus.mcp.proxy.http.visits import JSON, STREAM_FIELDS
from toolbus.mcp.proxy.jsonrpc import SERVER_GONE, read_batch, read_frame, write_frame
from toolbus.mcp.proxy.sse import rewrite_event, unbroken, write_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.mcp.proxy.http.visits import Visit
    from toolbus.mcp.proxy.jsonrpc import Frame
    from toolbus.mcp.proxy.sse import Event

    Head = tuple[int, Sequence[tuple[str, str]]]

_OK, _BAD, _BAD_GATEWAY = 200, 400, 502


def as_error(own: Any, said: Frame | None, body: bytes, status: int) -> bytes:
    """Return *body*, which answers nothing, as an error: so handlers see every text."""
    if said is not None and said.failed:
        return write_frame(id=own, error=Raw(said.error if said.error is not UNSET else b"null"))
    text = body.decode(errors="replace")
    return write_frame(id=own, error={"code": SERVER_GONE, "message": text, "data": status})


class Response:
    """The answer to *visit*, complete when *left* answers are there and the server's is *over*.

    *head* is its status and headers. *came* is what the session was shown of a body, and the body:
    if it leaves that, the client gets the body. If it is *judged*, nothing passes as it came: the
    client gets what the session says, in events and under headers that are written here.
    """

    def __init__(self, visit: Visit, head: Head, left: int, *, judged: bool) -> None:
        self._visit, self.head, self.left, self._judged = visit, head, left, judged
        self._asked = bool(left)
        self.over, self.streams, self.failed = True, False, False
        self.came: tuple[bytes, bytes] | None = None
        self._line: bytes | None = None
        self._ready = asyncio.Event()
        self._broken: Exception | None = None

    async def send(self) -> None:
        """Send it as it comes, or at once if it does not come as a stream; raises what broke it."""
        await self._ready.wait()
        if self._broken is not None:
            raise self._broken
        if self.streams:
            await self._visit.begin(*self._begun())
            await self._visit.flow()
        else:
            await self._visit.answer(*self._whole())

    def begin(self, head: Head) -> None:
        """Begin a stream, if it has not begun."""
        if not self._ready.is_set():
            self.streams, self.head = True, head
            self._ready.set()

    def break_off(self, error: Exception) -> None:
        """Have `send` raise *error*; a stream that has begun can only end."""
        self._broken = error
        if self.streams:
            self._visit.finish()
        self._ready.set()

    def fail(self, line: bytes | None = None) -> None:
        """Say that the server has not answered; a stream that has begun can only say *line*."""
        self.failed = True
        if not self.streams:
            self.head, self.came = (_BAD_GATEWAY, ()), None
            self._line = self._line if line is None else line

    def say(self, line: bytes, event: Event | None) -> None:
        """Send what is no answer to the request; it came with *event*, or is the proxy's own."""
        if self.came is not None and not self.streams:
            self._line = line
        else:
            self.begin((_OK, STREAM_FIELDS))
            self.put(line, event)

    def answer(self, line: bytes, event: Event | None) -> None:
        """Send an answer, or a batch of them."""
        batch = read_batch(line)
        self.left -= 1 if batch is None else len(batch)
        if self.streams:
            self.put(line, event)
        else:
            self._line = line
        self.check()

    def put(self, line: bytes, event: Event | None) -> None:
        """Write *line* to the stream as *event* came, or with what it says besides its data.

        Without a *line* it says where the stream is.
        """
        if event is None:
            self._visit.put(write_event(unbroken(line)))
        elif line == (event.data or b"") and not self._judged:
            self._visit.put(event.raw)
        else:
            self._visit.put(rewrite_event(event, line or (None if event.data else event.data)))

    def forget(self) -> None:
        """Let go of what was sent."""
        self.came = self._line = None

    def check(self) -> None:
        """End it if it is complete."""
        if self.left > 0 or not self.over:
            return
        if self.streams:
            self._visit.finish()
        self._ready.set()

    def _begun(self) -> Head:
        status, fields = self.head
        if not self._judged:
            return status, fields
        known = [one for one in back(fields) if one[0] not in dict(STREAM_FIELDS)]
        return status, [*STREAM_FIELDS, *known]

    def _whole(self) -> tuple[int, Sequence[tuple[str, str]], bytes]:
        (status, fields), line = self.head, self._line
        came, body = self.came or (b"", b"")
        if self._judged:
            fields = back(fields)
            line = b"" if line is None else line
        elif line is None or line == came:
            return status, fields, body
        if not line:
            return status, fields, b""
        said = read_frame(line)
        failed = said is not None and said.failed and status >= _BAD
        if self._asked and not failed:
            status = _OK
        kept = [one for one in fields if one[0].lower() != "content-type"]
        return status, [*kept, ("content-type", JSON)], line.strip()

"""Streams of server-sent events to clients, with back-pressure, for relay and bridge.

See WHATWG HTML, 9.2 "Server-sent events"; for resumption MCP 2025-11-25, Transports, "Resumability
and Redelivery".
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from math import inf
from typing import TYPE_CHECKING

from toolbus.mcp.http.requests import STREAM_FIELDS

if TYPE_CHECKING:
    from toolbus.http.server import Fields, HttpRequest

logger = logging.getLogger("toolbus")

_LIMIT = 2**22
"""The maximum bytes that a client may be behind, and of written events kept for a replay."""

_OVERHEAD = 512
"""Bytes counted for each event besides its data, so that the limit also bounds tiny events."""

_WRITE = 2**16
"""Events are joined into writes of this many bytes; longer joins cost more than they save."""


class EventBuffer:
    """The events of all streams of one session, or of one response.

    Written events are dropped at once, unless the buffer *replays*: then they are kept up to the
    limit. Beyond *unwritten* bytes, the oldest unwritten events are lost.
    """

    def __init__(self, unwritten: float = inf, *, replays: bool = False) -> None:
        self.replays = replays
        self._unwritten, self._size = unwritten, 0
        self._events: deque[tuple[EventStream, int, int]] = deque()
        self._read: set[EventStream] = set()
        self._progress, self._closed = asyncio.Event(), False

    async def wait_for_room(self) -> None:
        """Wait while the reader of any stream is too far behind."""
        while not self._closed and any(stream.unwritten > _LIMIT for stream in self._read):
            self._progress.clear()
            await self._progress.wait()

    def close(self) -> None:
        """End all waits for room."""
        self._closed = True
        self._progress.set()

    def add(self, stream: EventStream, number: int, size: int) -> None:
        """Register an event of *size* bytes; older events may be dropped."""
        self._events.append((stream, number, size))
        self._size += size
        self._drop_oldest()

    def note_written(self) -> None:
        """Note that events of a stream were written."""
        self._progress.set()
        self._drop_oldest()

    def set_reading(self, stream: EventStream, *, begins: bool) -> None:
        """Note that a client begins or ends reading *stream*."""
        (self._read.add if begins else self._read.discard)(stream)
        self._progress.set()

    def _drop_oldest(self) -> None:
        limit = _LIMIT if self.replays else 0
        while self._events and self._size > limit:
            stream, number, size = self._events[0]
            if number > stream.written:
                if self._size <= self._unwritten:
                    break
                logger.warning("lost an event of %d bytes: no client reads the stream", size)
            self._events.popleft()
            self._size -= size
            stream.drop(number, size)


class EventStream:
    """The events of one response, numbered from 1; *written* is the last written number.

    A producer that may be faster than the client awaits `EventBuffer.wait_for_room`.
    """

    def __init__(self, buffer: EventBuffer) -> None:
        self.buffer = buffer
        self._events: dict[int, bytes] = {}
        self._next, self.written, self.unwritten = 1, 0, 0
        self.ended = self.is_read = False
        self._changed, self._reader = asyncio.Event(), object()

    def append(self, data: bytes) -> None:
        """Add an event; it is dropped after the end."""
        if not self.ended:
            number, self._next = self._next, self._next + 1
            size = len(data) + _OVERHEAD
            self._events[number] = data
            self.unwritten += size
            self.buffer.add(self, number, size)
            self._changed.set()

    def end(self) -> None:
        """End the stream after the events so far."""
        self.ended = True
        self._changed.set()

    def drop(self, number: int, size: int) -> None:
        """Remove an event of *size* bytes."""
        if self._events.pop(number, None) is not None and number > self.written:
            self.unwritten -= size

    def clear(self) -> None:
        """End the stream and remove all events."""
        self.end()
        self._events.clear()
        self.written, self.unwritten = self._next, 0
        self.buffer.note_written()

    @property
    def is_kept(self) -> bool:
        """Whether the stream is open or has events for a replay."""
        return bool(self._events) or not self.ended

    def holds_after(self, number: int) -> bool:
        """Return whether all events after *number* are available."""
        after = number + 1
        return 0 <= number < self._next and (after == self._next or after in self._events)

    async def write_to(
        self,
        request: HttpRequest,
        status: int = 200,
        fields: Fields = STREAM_FIELDS,
        *,
        after: int = 0,
        heartbeat: float | None = None,
    ) -> None:
        """Answer *request* with the events after the number *after*, until the stream ends.

        The response ends early if another request begins to read the stream. A comment is written
        after each *heartbeat* seconds without an event.
        """
        reader = self._reader = object()
        self._changed.set()
        self.is_read = True
        self.buffer.set_reading(self, begins=True)
        try:
            first = self._first_event(after)
            after, data = self._next_events(after)
            await request.begin(status, fields, first + data)
            while self._reader is reader:
                after, data = self._next_events(after)
                # During a write, events may be added, and the stream may end.
                if data:
                    await request.write(data)
                elif self.ended:
                    break
                elif not await self._change_within(heartbeat):
                    await request.write(b":\n\n")
            await request.write(b"", ends=True)
        finally:
            if self._reader is reader:
                self.is_read = False
                self.buffer.set_reading(self, begins=False)

    def _next_events(self, after: int) -> tuple[int, bytes]:
        """Return the number of the last event to write, and the bytes of all after *after*."""
        number = after + 1
        if number not in self._events:
            number = next((other for other in self._events if other > after), 0)
        events: list[bytes] = []
        size = 0
        while size < _WRITE and number in self._events:
            events.append(self._event(number, self._events[number]))
            after, size, number = number, size + len(events[-1]), number + 1
            if after > self.written:
                self.written = after
                self.unwritten -= len(self._events[after]) + _OVERHEAD
        if events:
            self.buffer.note_written()
        return after, b"".join(events)

    async def _change_within(self, seconds: float | None) -> bool:
        """Wait for an event or the end; return False if neither comes within *seconds*."""
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _first_event(self, after: int) -> bytes:  # noqa: ARG002 - for streams with ids
        """Return the bytes to write before the events after *after*."""
        return b""

    def _event(self, number: int, data: bytes) -> bytes:  # noqa: ARG002 - as above
        """Return the bytes of the event *number* with *data*."""
        return data

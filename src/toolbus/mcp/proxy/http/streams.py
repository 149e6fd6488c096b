"""What a client is sent for one of its requests: whole, or event by event, also once more."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from toolbus.mcp.proxy.http.visits import JSON, STREAM, STREAM_FIELDS
from toolbus.mcp.proxy.jsonrpc import read_batch
from toolbus.mcp.proxy.sse import on_one_line, write_event

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.mcp.proxy.http.visits import Fields, Visit

logger = logging.getLogger("toolbus")

_MOST_EVENTS, _MOST_BYTES = 500, 2**22
"""What is kept of a session for a client that lost its connection."""

_ROOM = 2**23
"""How many bytes a client may be behind, before the server has to wait for it."""

_PATIENCE = 15.0
"""Seconds for which an answer alone is waited for, before it becomes the end of a stream.

Clients take long events less well than long bodies: that of the Python SDK has a limit of 1 MiB.
"""

_BEAT = 15.0
"""Seconds after which a silent stream says that it is still there."""


class Shelf:
    """The events of all streams of a session, as long as they may be asked for again.

    Those that nobody has fetched yet may have *most* bytes.
    """

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._moved, self._closed = asyncio.Event(), False
        self._events: deque[tuple[Stream, int, int]] = deque()

    def moved(self) -> None:
        """Take note that a client has fetched something, or has left."""
        self._moved.set()

    def close(self) -> None:
        """Wait for no client any more."""
        self._closed = True
        self._moved.set()

    async def room(self, streams: Iterable[Stream]) -> None:
        """Wait while a client that listens is far behind."""
        while not self._closed and any(one.behind > _ROOM for one in streams):
            self._moved.clear()
            await self._moved.wait()

    def add(self, stream: Stream, number: int, size: int) -> None:
        """Take note of an event; the oldest are dropped for it."""
        self._events.append((stream, number, size))
        self._size += size
        while len(self._events) > _MOST_EVENTS or self._size > _MOST_BYTES:
            oldest, own, least = self._events[0]
            if own > oldest.sent:
                if self._size <= self._most and len(self._events) <= 20 * _MOST_EVENTS:
                    break
                logger.warning("a client fetches nothing; an event of %d bytes is lost", least)
            self._events.popleft()
            self._size -= least
            oldest.drop(own)


class Stream:
    """The answers to one request of a client, and what is said on the way to them.

    *number* tells it from the others of a session; it ends with the last of *left* answers. Its
    events are kept on *shelf*; without one there is one chance to read them.
    """

    def __init__(self, number: int = 0, left: int = 0, shelf: Shelf | None = None) -> None:
        self.number, self._left, self._shelf = number, left, shelf
        self._events: dict[int, bytes] = {}
        self._next, self.sent, self._answers = 1, 0, 0
        self.ended = False
        self.takes_events = self.primed = True
        self._wake, self._follower = asyncio.Event(), object()
        self.followed = False
        self._unsent = 0

    @property
    def behind(self) -> int:
        """How many bytes wait for the client that follows."""
        return self._unsent if self.followed and len(self._events) > 1 else 0

    def put(self, line: bytes) -> None:
        """Send a line."""
        if self.ended:
            return
        number, self._next = self._next, self._next + 1
        self._events[number] = line
        self._unsent += len(line)
        if self._shelf is not None:
            self._shelf.add(self, number, len(line))
        self._wake.set()

    def answer(self, line: bytes) -> None:
        """Send an answer, or a batch of them; the last one ends the stream."""
        batch = read_batch(line)
        self._left -= 1 if batch is None else len(batch)
        self._answers += 1
        self.put(line)
        if self._left <= 0:
            self.end()

    async def last(self) -> bytes:
        """Wait for the end; return the last thing that was sent."""
        while not self.ended:
            await self._changed()
        return self._events[self._next - 1] if self._events else b""

    def end(self) -> None:
        """Let nothing more come."""
        self.ended = True
        self._wake.set()

    @property
    def keeps(self) -> bool:
        """Whether there is something that a client may ask for."""
        return bool(self._events) or not self.ended

    def drop(self, number: int) -> None:
        """Forget an event."""
        line = self._events.pop(number, b"")
        if number > self.sent:
            self._unsent -= len(line)

    def holds(self, number: int) -> bool:
        """Tell whether all that came after the event *number* is still there."""
        after = number + 1
        return 0 <= number < self._next and (after == self._next or after in self._events)

    async def whole(self, visit: Visit) -> list[bytes] | None:
        """Wait for what is sent; return it if it is nothing but answers, None for a stream.

        Who takes no stream gets the answers, and the rest is dropped.
        """
        self.takes_events = visit.accepts(STREAM)
        plain = visit.accepts(JSON) and not visit.prefers_stream()
        if not self.takes_events:
            while not self.ended:
                await self._changed()
        elif plain and not self.ended and not self._events:
            try:
                async with asyncio.timeout(_PATIENCE):
                    await self._changed()
            except TimeoutError:
                return None
        if self.ended and plain and (self._answers == len(self._events) or not self.takes_events):
            lines = list(self._events.values())
            self._events.clear()
            self.sent, self._unsent = self._next, 0
            return lines[len(lines) - self._answers :]
        return None

    async def follow(self, visit: Visit, fields: Fields = (), after: int = 0) -> None:
        """Write the events after the number *after*, and those to come; the last one to follow."""
        follower = self._follower = object()
        self._wake.set()
        self.followed = True
        try:
            await visit.begin(200, [*STREAM_FIELDS, *fields])
            await visit.write(self._primer(after))
            while self._follower is follower:
                # While one is written others may come, and the end.
                if (waiting := self._following(after)) is not None:
                    after, line = waiting, self._events[waiting]
                    self._note_sent(waiting, line)
                    await visit.write(self._event(waiting, line))
                elif self.ended:
                    break
                else:
                    await self._beat(visit)
            await visit.write(b"", more=False)
        finally:
            if self._follower is follower:
                self.followed = False
            if self._shelf is not None:
                self._shelf.moved()

    def _note_sent(self, number: int, line: bytes) -> None:
        if number > self.sent:
            self.sent = number
            self._unsent -= len(line)
        if self._shelf is None:
            del self._events[number]
        else:
            self._shelf.moved()

    def _following(self, number: int) -> int | None:
        if number + 1 in self._events:
            return number + 1
        return next((one for one in self._events if one > number), None)

    async def _beat(self, visit: Visit) -> None:
        try:
            async with asyncio.timeout(_BEAT):
                await self._changed()
        except TimeoutError:
            await visit.write(b":\n\n")

    async def _changed(self) -> None:
        self._wake.clear()
        await self._wake.wait()

    def _primer(self, after: int) -> bytes:
        """Return the event that tells the client how to come back."""
        if self._shelf is None or not self.primed:
            return b""
        return write_event(b"", f"{self.number}-{after}")

    def _event(self, number: int, line: bytes) -> bytes:
        own = None if self._shelf is None else f"{self.number}-{number}"
        return write_event(on_one_line(line), own)


def joined(lines: Sequence[bytes]) -> bytes:
    """Return the body that says *lines*, the answers to one request or to several."""
    whole = [one.strip() for one in lines]
    return whole[0] if len(whole) == 1 else b"[" + b",".join(whole) + b"]"


def read_event_id(text: str) -> tuple[int, int] | None:
    """Return the numbers of the stream and the event that *text* names, None if it names none."""
    stream, dash, event = text.partition("-")
    if not (dash and stream.isascii() and stream.isdigit() and event.isascii() and event.isdigit()):
        return None
    return int(stream), int(event)

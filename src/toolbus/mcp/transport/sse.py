"""A parser and a writer of server-sent events; WHATWG HTML, 9.2.5 and 9.2.6."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.mcp.protocol.jsonrpc import FrameTooLongError, escape_breaks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from toolbus.http.client import HttpReply

_BOM = b"\xef\xbb\xbf"
_LONGEST_WAIT = 60_000
_MOST_DIGITS = 9


class Event(NamedTuple):
    """A server-sent event: *data* and *id*, if any, and the milliseconds before a *retry*.

    *named* is an explicit `event: message`, the default type; *comments*: it holds comment lines.
    """

    data: bytes | None
    id: str | None = None
    retry: int | None = None
    named: bool = False
    comments: bool = False

    @property
    def line(self) -> bytes:
        """The event's frame on one line, with a line end."""
        return single_line(self.data or b"") + b"\n"

    @property
    def wait(self) -> float:
        """The seconds to wait before the stream is resumed, 0 if the event does not set them."""
        return min(self.retry or 0, _LONGEST_WAIT) / 1000


class EventParser:
    """A parser of a stream into events of at most *limit* bytes each."""

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._partial: list[bytes] = []
        self._lines: list[bytes] = []
        self._first, self._halved = True, False

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events completed by *chunk*, comments too; raises `FrameTooLongError`."""
        events = []
        if self._halved and chunk.startswith(b"\n"):
            # The CR at the end of the previous chunk has ended the line already.
            chunk = chunk[1:]
            self._halved = False
        for part in chunk.splitlines(keepends=True):
            self._partial.append(part)
            self._size += len(part)
            if self._size > self._limit:
                raise FrameTooLongError(self._limit)
            if part.endswith((b"\n", b"\r")) and (event := self._end_line()) is not None:
                events.append(event)
        if chunk:
            self._halved = chunk.endswith(b"\r")
        return events

    def _end_line(self) -> Event | None:
        """Complete the partial line; return the event that a blank line ends."""
        line = b"".join(self._partial)
        self._partial = []
        if self._first:
            self._first, line = False, line.removeprefix(_BOM)
        line = line.rstrip(b"\r\n")
        if line:
            self._lines.append(line)
            return None
        event = _event(self._lines)
        self._lines, self._size = [], 0
        return event


async def read_events(reply: HttpReply, limit: int) -> AsyncIterator[Event]:
    """Yield the events of *reply* as they arrive; raises `FrameTooLongError`, `TransportError`."""
    parser = EventParser(limit)
    async for chunk in reply.pieces():
        for event in parser.feed(chunk):
            yield event


def write_event(
    data: bytes | None,
    event_id: str | None = None,
    retry: int | None = None,
    *,
    named: bool = False,
) -> bytes:
    """Return the bytes of an event with *data*, one line, and *retry* in milliseconds.

    Without any field the result is empty.
    """
    lines = [
        b"" if event_id is None else b"id: " + event_id.encode() + b"\n",
        b"event: message\n" if named and data is not None else b"",
        b"" if retry is None else b"retry: %d\n" % retry,
        b"" if data is None else b"data: " + data + b"\n" if data else b"data:\n",
    ]
    written = b"".join(lines)
    return written + b"\n" if written else b""


def rewrite_event(event: Event, data: bytes | None) -> bytes:
    """Return the bytes of *event* with *data* in place of its own; None drops the data.

    Comments are replaced by an empty comment, which keeps the stream alive.
    """
    event_id = event.id if event.id is not None and event.id.isprintable() else None
    data = None if data is None else escaped_line(data)
    written = write_event(data, event_id, event.retry, named=event.named)
    return written or (b":\n\n" if event.comments or event.data else b"")


def without_id(event: Event) -> Event:
    """Return *event* with its data alone, so that its stream cannot be resumed."""
    return Event(event.data or None)


def single_line(data: bytes) -> bytes:
    """Return the JSON *data* on one line; a line end in JSON is only space between tokens."""
    return data.replace(b"\r", b" ").replace(b"\n", b" ").strip()


def escaped_line(data: bytes) -> bytes:
    """Return the JSON *data* on one line for every reader, also for exotic line ends."""
    return escape_breaks(single_line(data))


def _event(lines: list[bytes]) -> Event:
    data: list[bytes] = []
    event_id, retry, named, comments = None, None, False, False
    for line in lines:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                data.append(value)
            case b"id" if b"\0" not in value:
                event_id = value.decode(errors="replace")
            case b"event":
                named = value == b"message"
            case b"retry" if value.isdigit() and len(value) <= _MOST_DIGITS:
                retry = int(value)
            case b"":
                comments = True
    return Event(b"\n".join(data) if data else None, event_id, retry, named, comments)

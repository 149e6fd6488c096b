"""Server-sent events: a stream cut into events, and events as bytes; see the HTML standard, 9.2."""

from __future__ import annotations

from typing import NamedTuple

from toolbus.hosts.mcp.frames import FrameTooLongError, Lines

_LONGEST_WAIT = 60.0


class Event(NamedTuple):
    """One event: its *data*, its *id*, seconds before a *retry*, and its bytes as they came."""

    data: bytes
    id: str | None
    retry: float | None
    raw: bytes

    @property
    def comments(self) -> bool:
        """Whether it says something that is for nobody."""
        return self.raw.startswith(b":") or b"\n:" in self.raw

    @property
    def bare(self) -> bytes:
        """What it says besides its data and comments, without its end."""
        return b"".join([one for one in self.raw.splitlines(keepends=True) if _is_kept(one)])


class Events:
    """Cuts a stream into events; raises `FrameTooLongError` for one of more than *limit* bytes."""

    def __init__(self, limit: int) -> None:
        self._limit, self._cutter = limit, Lines(limit)
        self._lines: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[Event]:
        """Return the events that *piece* completes; a comment alone is an event as well."""
        events = []
        for line in self._cutter.feed(piece):
            self._lines.append(line)
            self._size += len(line)
            if self._size > self._limit:
                raise FrameTooLongError(self._limit)
            if line in _ENDS:
                events.append(_event(self._lines))
                self._lines, self._size = [], 0
        return events


def write_event(data: bytes, own: str | None = None, retry: int | None = None) -> bytes:
    """Return the event that carries *data*, one line, under the id *own*; *retry* in ms."""
    named = b"" if own is None else b"id: " + own.encode() + b"\n"
    again = b"" if retry is None else b"retry: %d\n" % retry
    return named + again + b"data: " + data + b"\n\n"


def rewrite_event(event: Event, data: bytes) -> bytes:
    """Return *event* with other *data*, one line; without any only what else it says."""
    said = b"data: " + data + b"\n" if data else b""
    return event.bare + said + b"\n"


def nameless(event: Event) -> Event:
    """Return *event* with its data alone, as if its stream could not be resumed."""
    raw = write_event(on_one_line(event.data)) if event.data else b""
    return Event(event.data, None, None, raw)


def on_one_line(data: bytes) -> bytes:
    """Return the JSON *data* on one line: in it a line end can only be space between tokens."""
    return data.replace(b"\r", b" ").replace(b"\n", b" ").strip()


_ENDS = {b"\n", b"\r\n"}


def _is_kept(line: bytes) -> bool:
    return line not in _ENDS and line.partition(b":")[0].strip() not in {b"data", b""}


def _event(lines: list[bytes]) -> Event:
    data: list[bytes] = []
    own, retry = None, None
    for line in lines:
        name, _, value = line.rstrip(b"\r\n").partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"id":
            own = value.decode(errors="replace")
        elif name == b"retry" and value.isdigit():
            retry = min(int(value) / 1000, _LONGEST_WAIT)
    return Event(b"\n".join(data), own, retry, b"".join(lines))

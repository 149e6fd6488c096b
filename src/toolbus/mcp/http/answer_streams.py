"""The response of a server process to one HTTP request: a JSON body or a resumable stream."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Raw

from toolbus.mcp.http.event_streams import EventStream
from toolbus.mcp.http.failures import JSON
from toolbus.mcp.http.requests import STREAM, STREAM_FIELDS, prefers_stream
from toolbus.mcp.protocol.jsonrpc import frames_in
from toolbus.mcp.transport.sse import single_line, write_event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolbus.http.server import Fields, HttpRequest
    from toolbus.mcp.http.event_streams import EventBuffer

_BODY_WAIT = 15.0
"""Seconds to wait for a lone JSON body before a stream begins instead.

Clients cope better with a long body than with a long event: the Python SDK limits events to 1 MiB.
"""

_HEARTBEAT = 15.0
"""Seconds without an event after which a stream sends a comment to stay open."""

_NUMBER = re.compile(r"[0-9]{1,18}")
_object = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode


class Alias(NamedTuple):
    """Replacements, towards a process, for the *id* and progress *token* of a request, as JSON.

    Stateless clients choose ids independently, so requests to one process could collide.
    """

    name: str
    id: bytes
    token: bytes | None

    @property
    def token_name(self) -> str:
        """The replacement of the token."""
        return f"{self.name}-token"

    @classmethod
    def hide(cls, name: str, body: bytes) -> tuple[Alias, bytes]:
        """Return an alias with the prefix *name*, and the request *body* with its replacements."""
        top, token = _object.decode(body), None
        request_id, top["id"] = bytes(top["id"]), _raw(name)
        with suppress(msgspec.DecodeError, KeyError):
            params = _object.decode(top["params"])
            meta = _object.decode(params["_meta"])
            token, meta["progressToken"] = bytes(meta["progressToken"]), _raw(f"{name}-token")
            top["params"] = _raw({**params, "_meta": meta})
        return cls(name, request_id, token), _encode(top)

    def reveal(self, line: bytes) -> bytes:
        """Return *line* with the client's own id and token.

        The names cannot be guessed, and a quoted name in JSON is always a whole string.
        """
        if self.token is not None:
            line = _with_value(line, self.token_name, self.token)
        return _with_value(line, self.name, self.id)


class AnswerStream(EventStream):
    """The JSON-RPC responses to an HTTP request, with the messages that precede them.

    *number* identifies the stream in its session. The stream ends when all ids in *owed* are
    answered.
    """

    def __init__(self, buffer: EventBuffer, number: int = 0, owed: Iterable[Any] = ()) -> None:
        super().__init__(buffer)
        self.number, self._owed, self._answers = number, [*owed], 0
        self.takes_events = self.is_primed = True
        self.alias: Alias | None = None
        self.is_standing = self.in_array = False
        """Whether the stream stays open until the client closes it; whether a body is an array."""

    def append(self, data: bytes) -> None:
        """Add an event, with the client's own id and token; dropped after the end."""
        super().append(data if self.alias is None else self.alias.reveal(data))

    def answer(self, line: bytes) -> None:
        """Send a response, or a batch; the last one ends the stream.

        A cancelled request has been answered already, so that its late response is dropped.
        """
        if self.in_array:
            ids = [frame.id for frame in frames_in(line) if frame.is_response]
            if ids and not {None, *self._owed}.intersection(ids):
                return
            for each in ids:
                if each in self._owed:
                    self._owed.remove(each)
        else:
            self._owed.clear()
        self._answers += 1
        self.append(line)
        if not self._owed:
            self.end()

    async def last_line(self) -> bytes:
        """Wait for the end; return the last line."""
        while not self.ended:
            await self._change_within(None)
        return self._events.get(self._next - 1, b"")

    async def body(self, request: HttpRequest) -> bytes | None:
        """Wait for events; return a JSON body if there are only responses, None for a stream.

        A client that does not accept a stream gets the responses; other messages are dropped.
        """
        self.takes_events = request.accepts(STREAM)
        plain = request.accepts(JSON) and not prefers_stream(request)
        if not self.takes_events:
            await self.last_line()
        elif plain and not self.ended and not self._events:
            await self._change_within(_BODY_WAIT)
        only_answers = self._answers == len(self._events) or not self.takes_events
        return self._joined_answers() if self.ended and plain and only_answers else None

    def _joined_answers(self) -> bytes:
        lines = [line.strip() for line in self._events.values()]
        answers = lines[len(lines) - self._answers :]
        self.clear()
        # A server may have answered a batch with one array.
        is_whole = len(answers) == 1 and (not self.in_array or answers[0].startswith(b"["))
        return answers[0] if is_whole else b"[" + b",".join(answers) + b"]"

    async def follow(self, request: HttpRequest, fields: Fields = (), after: int = 0) -> None:
        """Answer *request* with a stream of the events after the number *after*."""
        fields = [*STREAM_FIELDS, *fields]
        await self.write_to(request, fields=fields, after=after, heartbeat=_HEARTBEAT)

    def _first_event(self, after: int) -> bytes:
        """Return the event from which the client can resume: an id and empty data.

        See MCP 2025-11-25, Transports, "Sending Messages to the Server", 6.
        """
        return write_event(b"", self._id(after)) if self.buffer.replays and self.is_primed else b""

    def _event(self, number: int, data: bytes) -> bytes:
        return write_event(single_line(data), self._id(number))

    def _id(self, number: int) -> str | None:
        return f"{self.number}-{number}" if self.buffer.replays else None


def _with_value(line: bytes, name: str, value: bytes) -> bytes:
    """Return *line* with *value* for each string *name*, except for names of members."""
    text = _encode(name)
    if text not in line:
        return line
    return re.sub(re.escape(text) + rb"(?!\s*+:)", lambda _: value, line)


def _raw(value: Any) -> Raw:
    return Raw(_encode(value))


def read_event_id(text: str) -> tuple[int, int] | None:
    """Return the numbers of the stream and the event in the event id *text*, None if invalid."""
    stream, dash, event = text.partition("-")
    if not (dash and _NUMBER.fullmatch(stream) and _NUMBER.fullmatch(event)):
        return None
    return int(stream), int(event)

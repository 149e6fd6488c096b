"""The answer of a process to one HTTP request: a JSON body, or a stream that can be resumed."""

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

_PATIENCE = 15.0
"""Seconds for which an answer alone is waited for, before it becomes the end of a stream.

Clients take long events less well than long bodies: that of the Python SDK has a limit of 1 MiB.
"""

_HEARTBEAT = 15.0
"""Seconds after which a silent stream says that it is still there."""

_NUMBER = re.compile(r"[0-9]{1,18}")
_object = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode


class Alias(NamedTuple):
    """The names by which a process knows the *id* and the progress *token* of a request, in JSON.

    Clients of the stateless revision choose them each for itself, so several may choose the same.
    """

    name: str
    id: bytes
    token: bytes | None

    @property
    def token_name(self) -> str:
        """The name of the token."""
        return f"{self.name}-token"

    @classmethod
    def hide(cls, name: str, body: bytes) -> tuple[Alias, bytes]:
        """Return an alias that begins with *name* and the request *body* under it."""
        top, token = _object.decode(body), None
        request_id, top["id"] = bytes(top["id"]), _raw(name)
        with suppress(msgspec.DecodeError, KeyError):
            params = _object.decode(top["params"])
            meta = _object.decode(params["_meta"])
            token, meta["progressToken"] = bytes(meta["progressToken"]), _raw(f"{name}-token")
            top["params"] = _raw({**params, "_meta": meta})
        return cls(name, request_id, token), _encode(top)

    def reveal(self, line: bytes) -> bytes:
        """Return *line* with what the client has chosen.

        Nobody can guess the names, and in a JSON text a quoted one is always a whole string.
        """
        if self.token is not None:
            line = _with_value(line, self.token_name, self.token)
        return _with_value(line, self.name, self.id)


class AnswerStream(EventStream):
    """The lines of JSON-RPC that answer an HTTP request, and those that are said on the way.

    *number* tells it from the others of a session; it ends with the last answer that is *owed*,
    under an id for each.
    """

    def __init__(self, buffer: EventBuffer, number: int = 0, owed: Iterable[Any] = ()) -> None:
        super().__init__(buffer)
        self.number, self._owed, self._answers = number, [*owed], 0
        self.takes_events = self.is_primed = True
        self.alias: Alias | None = None
        self.listens = self.in_array = False
        """Whether the answer goes on as long as the client likes, and whether it is one array."""

    def put(self, data: bytes) -> None:
        """Add an event, with the names of the client; after the end it is dropped."""
        super().put(data if self.alias is None else self.alias.reveal(data))

    def answer(self, line: bytes) -> None:
        """Send an answer, or a batch of them; the last one ends the stream.

        To a request that was cancelled one is sent at once, so that another one is dropped.
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
        self.put(line)
        if not self._owed:
            self.end()

    async def last_line(self) -> bytes:
        """Wait for the end; return the line that was put last."""
        while not self.ended:
            await self._change_within(None)
        return self._events.get(self._next - 1, b"")

    async def body(self, request: HttpRequest) -> bytes | None:
        """Wait for what is put; return the JSON body of nothing but answers, None for a stream.

        A client that takes no stream gets the answers, and the rest is dropped.
        """
        self.takes_events = request.accepts(STREAM)
        plain = request.accepts(JSON) and not prefers_stream(request)
        if not self.takes_events:
            await self.last_line()
        elif plain and not self.ended and not self._events:
            await self._change_within(_PATIENCE)
        only_answers = self._answers == len(self._events) or not self.takes_events
        return self._take_answers() if self.ended and plain and only_answers else None

    def _take_answers(self) -> bytes:
        lines = [line.strip() for line in self._events.values()]
        answers = lines[len(lines) - self._answers :]
        self.clear()
        # A server may have answered a batch by itself, in an array.
        is_whole = len(answers) == 1 and (not self.in_array or answers[0].startswith(b"["))
        return answers[0] if is_whole else b"[" + b",".join(answers) + b"]"

    async def follow(self, request: HttpRequest, fields: Fields = (), after: int = 0) -> None:
        """Answer *request* with a stream of what was put after the event number *after*."""
        fields = [*STREAM_FIELDS, *fields]
        await self.write_to(request, fields=fields, after=after, heartbeat=_HEARTBEAT)

    def _first_event(self, after: int) -> bytes:
        """Return the event that tells the client how to come back: an id and empty data.

        See MCP 2025-11-25, Transports, "Sending Messages to the Server", 6.
        """
        return write_event(b"", self._id(after)) if self.buffer.replays and self.is_primed else b""

    def _event(self, number: int, data: bytes) -> bytes:
        return write_event(single_line(data), self._id(number))

    def _id(self, number: int) -> str | None:
        return f"{self.number}-{number}" if self.buffer.replays else None


def _with_value(line: bytes, name: str, value: bytes) -> bytes:
    """Return *line* with *value* for the text *name*, but where that is the name of a member."""
    text = _encode(name)
    if text not in line:
        return line
    return re.sub(re.escape(text) + rb"(?!\s*+:)", lambda _: value, line)


def _raw(value: Any) -> Raw:
    return Raw(_encode(value))


def read_event_id(text: str) -> tuple[int, int] | None:
    """Return the numbers of the stream and the event that *text* names, None if it names none."""
    stream, dash, event = text.partition("-")
    if not (dash and _NUMBER.fullmatch(stream) and _NUMBER.fullmatch(event)):
        return None
    return int(stream), int(event)

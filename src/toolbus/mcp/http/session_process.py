"""A client's HTTP session with a server process of its own, and the routing of its output."""

from __future__ import annotations

import asyncio
import logging
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.mcp.http.answer_streams import Alias, AnswerStream, read_event_id
from toolbus.mcp.http.event_streams import EventBuffer
from toolbus.mcp.http.failures import failure_of
from toolbus.mcp.http.requests import requests_in
from toolbus.mcp.http.session_table import ClientSession
from toolbus.mcp.protocol.jsonrpc import REFUSED, error_frame, frames_in, read_frame, write_frame
from toolbus.mcp.protocol.revisions import (
    CANCELLED,
    HANDSHAKE,
    LISTEN,
    PROGRESS,
    SUBSCRIPTION,
    cancelled_id,
    params_of,
)
from toolbus.mcp.proxy.byte_relay import open_session
from toolbus.mcp.session.judged_session import UNEXPECTED
from toolbus.mcp.session.request_table import Channels
from toolbus.mcp.transport.processes import explain_end
from toolbus.mcp.transport.sse import single_line

if TYPE_CHECKING:
    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.transport.limits import ProxyLimits
    from toolbus.mcp.transport.link import ServerLink

logger = logging.getLogger("toolbus")

_PRIMED = "2025-11-25"
"""The first revision whose clients understand an event with only an id."""

_SESSION_NOTIFICATIONS = ("list_changed", "resources/updated")
"""The endings of methods of notifications that belong to no request."""


class SessionProcess(ClientSession):
    """A session with a *process* of its own.

    The requests of a *stateless* client form a session too, without a handshake and without
    resumable streams; its questions belong to *question_session*.
    """

    def __init__(
        self,
        proxy: Proxy,
        process: ServerLink,
        limits: ProxyLimits,
        *,
        stateless: bool = False,
        question_session: str = "",
    ) -> None:
        self._process, self._limits = process, limits
        channels = Channels(partial(self._to_client, None), process.write)
        self.session = open_session(proxy, channels, question_session)
        self.version: str | None = None
        self._buffer = EventBuffer(limits.frame, replays=not stateless)
        self.standing = AnswerStream(self._buffer)
        """The stream for messages that belong to no request, read by a GET."""
        if stateless:
            self.standing.end()
        self._nonce = f"toolbus-{secrets.token_urlsafe(12)}"
        self._streams: dict[int, AnswerStream] = {0: self.standing}
        self._next = 1
        self._by_id: dict[Any, AnswerStream] = {}
        self._by_token: dict[Any, AnswerStream] = {}
        self.task = asyncio.create_task(self._run())

    def accepts_revision(self, version: str | None) -> bool:
        """Return whether *version* is a valid revision in a request of this session."""
        return version is None or version in HANDSHAKE or version == self.version

    def ask(self, body: bytes, alias: Alias | None = None) -> AnswerStream | None:
        """Process a POST; return the stream of responses, None if none is due."""
        frame = read_frame(body)
        requests = requests_in(frame, body)
        # In a batch, refused frames that are not requests are answered too.
        owed = self.session.owed(body) if frame is None else [each.id for each in requests]
        stream = AnswerStream(self._buffer, self._next, owed)
        stream.alias, stream.in_array = alias, frame is None
        stream.is_standing = any(request.method == LISTEN for request in requests)
        stream.is_primed = self.standing.is_primed
        if owed:
            self._open(stream, requests)
        for part in [frame] if frame is not None else frames_in(body):
            self._note_cancelled(part)
        to_client = partial(self._to_client, stream if owed else None)
        channels = Channels(to_client, self._process.write, stream.answer)
        self.session.from_client(single_line(body) + b"\n", channels)
        return stream if owed else None

    def ask_stateless(self, body: bytes) -> AnswerStream:
        """Process a stateless request; return the stream of its response."""
        alias, hidden = Alias.hide(f"{self._nonce}-{self._next}", body)
        stream = self.ask(hidden, alias)
        assert stream is not None  # noqa: S101 - the body is a request
        return stream

    def forget(self, stream: AnswerStream) -> None:
        """Drop *stream*, which cannot be resumed, and cancel its request if it is open."""
        if stream.alias is not None and not stream.ended:
            params = {"requestId": stream.alias.name}
            self.session.from_client(write_frame(method=CANCELLED, params=params))
        stream.clear()

    def end_subscriptions(self) -> None:
        """End the streams of subscriptions."""
        for stream in self._streams.values():
            if stream.is_standing:
                stream.end()

    def resume(self, event_id: str) -> tuple[AnswerStream, int] | None:
        """Return the stream and number of the event *event_id*, None if later ones are gone."""
        numbers = read_event_id(event_id)
        stream = None if numbers is None else self._streams.get(numbers[0])
        if numbers is None or stream is None or not stream.holds_after(numbers[1]):
            return None
        return stream, numbers[1]

    def complete_handshake(self, answer: bytes) -> bool:
        """Learn the revision from the *answer* to `initialize`; return False if it failed."""
        frame = read_frame(answer)
        if frame is None or frame.failed or frame.result is UNSET:
            return False
        match frame.result:
            case {"protocolVersion": str(version)}:
                self.version = version
        self.standing.is_primed = self.version is not None and self.version >= _PRIMED
        return True

    async def drain(self) -> None:
        """Wait until the process has read most of its input."""
        if (full := self._process.drain()) is not None:
            await full

    async def end(self, reason: str) -> None:
        """End the process and the session."""
        self.session.client_gone()
        self.session.server_gone(reason)
        self._buffer.close()
        await self._process.end(self._limits.grace)
        await asyncio.wait({self.task})

    async def _run(self) -> None:
        try:
            reason = await failure_of(self._listen())
            # Set before the responses: a client may send its next request at once.
            self.is_over = True
            self.session.server_gone(reason)
            await self.session.settle(self._limits.grace)
        finally:
            for stream in self._streams.values():
                stream.end()
            await self._process.kill()
            await self.session.close()

    async def _listen(self) -> str:
        """Process the output until the process ends; return the error text for open requests."""
        limits, session = self._limits, self.session
        why = await self._process.lines(
            limits.frame, session.from_server, self._buffer.wait_for_room
        )
        if why:
            logger.error("stopping the server: %s", why)
        code = await self._process.end(limits.grace, at_once=bool(why))
        return explain_end(code, why)

    # --- routing -------------------------------------------------------------------------------

    def _open(self, stream: AnswerStream, requests: list[Frame]) -> None:
        self._forget_ended()
        self._streams[self._next] = stream
        self._next += 1
        for frame in requests:
            self._by_id[frame.id] = stream
            meta = params_of(frame).get("_meta")
            token = meta.get("progressToken") if isinstance(meta, dict) else None
            if isinstance(token, str | int):
                self._by_token[token] = stream

    def _forget_ended(self) -> None:
        if any(stream.ended for stream in self._streams.values()):
            self._by_id = _without_ended(self._by_id)
            self._by_token = _without_ended(self._by_token)
            streams = self._streams.items()
            self._streams = {n: stream for n, stream in streams if stream.is_kept or not n}

    def _note_cancelled(self, frame: Frame) -> None:
        request_id = cancelled_id(frame)
        stream = self._by_id.get(request_id)
        if stream is not None and not stream.ended:
            # Answered here, so that a late response is dropped.
            line = error_frame(request_id, REFUSED, "the request was cancelled")
            asyncio.get_running_loop().call_soon(stream.answer, line)

    def _to_client(self, stream: AnswerStream | None, line: bytes) -> None:
        """Send a message that is not a response, on *stream* if that is open."""
        if stream is None or not _is_open(stream):
            frame = read_frame(line)
            if frame is not None and frame.is_response and frame.id is not None:
                # A response must not go to the stream of another request.
                logger.warning(UNEXPECTED, frame.id)
                return
            stream = self._stream_for(frame)
        stream.append(line)

    def _stream_for(self, frame: Frame | None) -> AnswerStream:
        """Return the stream for *frame*.

        MCP 2025-11-25, Transports, "Multiple Connections": a message goes to one stream only.
        """
        method = "" if frame is None or frame.method is UNSET else frame.method
        params = params_of(frame)
        if method == PROGRESS:
            name, streams = params.get("progressToken"), self._by_token
        else:
            meta = params.get("_meta")
            name = meta.get(SUBSCRIPTION) if isinstance(meta, dict) else None
            streams = self._by_id
        stream = streams.get(name) if isinstance(name, str | int) else None
        if stream is not None and _is_open(stream):
            return stream
        if method.endswith(_SESSION_NOTIFICATIONS) and self.standing.is_read:
            return self.standing
        newest_first = reversed(self._streams.values())
        return next(filter(_is_open, newest_first), self.standing)


def _is_open(stream: AnswerStream) -> bool:
    return not stream.ended and stream.takes_events


def _without_ended(streams: dict[Any, AnswerStream]) -> dict[Any, AnswerStream]:
    return {key: stream for key, stream in streams.items() if not stream.ended}

"""The link to a remote server over Streamable HTTP.

See MCP 2025-11-25, basic/transports, "Streamable HTTP": each line of the client is a POST, a GET
receives the server's own messages, and a DELETE ends the session.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from toolbus.http.client import HttpClient, HttpReply, Timeouts, TransportError
from toolbus.http.urls import without_query
from toolbus.mcp.oauth.stored_login import StoredLogin
from toolbus.mcp.protocol.jsonrpc import (
    SERVER_GONE,
    Frame,
    FrameTooLongError,
    error_frame,
    frames_in,
    read_frame,
)
from toolbus.mcp.protocol.repeated_headers import HeaderParams, is_header, routing
from toolbus.mcp.protocol.revisions import (
    LIST,
    REVISION,
    SESSION,
    cancelled_id,
    has_no_timeout,
    is_stateless,
)
from toolbus.mcp.transport.json_lines import read_body
from toolbus.mcp.transport.processes import PROXY_FAILED
from toolbus.mcp.transport.sse import read_events, single_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from urllib.parse import SplitResult

    from toolbus.mcp.oauth.logins import Logins
    from toolbus.mcp.transport.limits import ProxyLimits
    from toolbus.mcp.transport.link import Wait

logger = logging.getLogger("toolbus")

_REST = 0.5
"""Seconds within which a stream must end after its response for its connection to be kept."""

_BAD, _UNAUTHORIZED = 400, 401
"""Statuses of refused requests begin at 400: RFC 9110, 15."""

_RESUMES, _POLL = 10, 0.1
"""The number of resumptions without progress after which a stream is given up; progress is an event
with data, or a requested pause of at least so many seconds, by which servers have clients poll."""


class RemoteServer:
    """The `ServerLink` to the remote server at *url*."""

    def __init__(
        self,
        url: SplitResult,
        limits: ProxyLimits,
        token: str | None,
        headers: Iterable[tuple[str, str]] = (),
        logins: Logins | None = None,
    ) -> None:
        self._url, self._limits = url, limits
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._headers |= headers
        self._params, self._wire = HeaderParams(), HttpClient()
        self._login = None if logins is None else StoredLogin(url, self._wire, logins)
        self._deliver: Callable[[bytes], Wait] | None = None
        self._posts: set[asyncio.Task[None]] = set()
        # Unanswered requests by id: the task of each, and whether ending the task cancels it.
        self._open: dict[Any, tuple[asyncio.Task[None], bool]] = {}
        self._listener: asyncio.Task[None] | None = None
        self._finished = asyncio.Event()
        # Frames after a notification or the handshake may depend on it, so they wait for the head
        # of its HTTP response. All other requests run concurrently.
        self._barrier: asyncio.Future[None] | None = None

    def write(self, line: bytes) -> None:
        """Send a line as a POST, in a task."""
        if not line.strip():
            return
        frame = read_frame(line)
        under_way, stateless = self._open.get(cancelled_id(frame), (None, False))
        if under_way is not None and stateless:
            # A stateless request is cancelled by closing its stream, not by a notification.
            del self._open[cancelled_id(frame)]
            under_way.cancel()
            return
        arrival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asked = [each for each in ([frame] if frame else frames_in(line)) if each.is_request]
        task = asyncio.create_task(
            self._post(frame, asked, line.strip(), arrival, before=self._barrier)
        )
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)
        task.add_done_callback(lambda _: _resolve(arrival))
        if frame is None or not frame.is_request or frame.method == "initialize":
            self._barrier = arrival
        for each in asked:
            self._open[each.id] = task, is_stateless(routing(each))

    def drain(self) -> None:
        """Return None: the requests in flight are bounded by the client."""

    async def lines(
        self, _limit: int, take: Callable[[bytes], Wait], _drain: Callable[[], Wait]
    ) -> str:
        """Pass each line of the server to *take*, until `finish`."""
        self._deliver = take
        await self._finished.wait()
        return ""

    def signal(self, _number: int) -> None:
        """Cancel the requests in flight: there is no process to signal."""
        for task in self._posts:
            task.cancel()

    def finish(self) -> None:
        """End `lines`; nothing more is sent."""
        self._finished.set()

    async def end(self, grace: float, *, at_once: bool = False) -> int:
        """Wait at most *grace* seconds for the requests in flight; return 0."""
        self.finish()
        if self._posts and not at_once:
            await asyncio.wait(tuple(self._posts), timeout=grace)
        return 0

    async def kill(self) -> None:
        """Cancel the requests in flight, and end the session at the server."""
        self.finish()
        tasks = {*self._posts, *filter(None, [self._listener])}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if SESSION in self._headers:
            with suppress(TransportError, TimeoutError):
                async with asyncio.timeout(self._limits.grace):
                    headers = self._headers.items()
                    (await self._send("DELETE", headers, b"", Timeouts())).close()
        self._wire.close()

    async def _post(
        self,
        frame: Frame | None,
        asked: Sequence[Frame],
        line: bytes,
        arrival: asyncio.Future[None],
        *,
        before: asyncio.Future[None] | None,
    ) -> None:
        """Send *line*, the frame *frame* or a batch, after *before*, and take the response.

        *arrival* is set with the head of the response. Each request in *asked* gets a response.
        """
        try:
            if before is not None and not before.done():
                await asyncio.wait({before}, timeout=self._limits.grace)
            reply = await self._sent(frame, line)
            if SESSION in reply.headers and frame and frame.method == "initialize":
                self._headers[SESSION] = reply.headers[SESSION]
            _resolve(arrival)
            await self._receive_reply(frame, reply)
            problem = (
                "the server's HTTP response ended without a JSON-RPC response" if asked else ""
            )
        except (TransportError, FrameTooLongError) as error:
            problem = str(error)
        except Exception:
            # Waiting clients get an error response, whatever the exception.
            logger.exception("could not process the server's response")
            problem = PROXY_FAILED
        await self._close_open(frame, asked, problem)

    async def _sent(self, frame: Frame | None, line: bytes) -> HttpReply:
        headers = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            **self._headers,
        }
        if routed := routing(frame):
            # Only the stateless revision repeats members of the frame in headers.
            headers |= {**routed, **self._params.headers(frame)}
        timeouts = Timeouts(head=None if has_no_timeout(frame) else self._limits.silence)
        return await self._send("POST", headers.items(), line, timeouts)

    async def _send(
        self, method: str, headers: Iterable[tuple[str, str]], body: bytes, waits: Timeouts
    ) -> HttpReply:
        fields = [*headers, ("accept-encoding", "identity")]
        return await (self._login or self._wire).send(self._url, method, fields, body, waits)

    async def _receive_reply(self, frame: Frame | None, reply: HttpReply) -> None:
        try:
            if reply.is_coded:
                raise TransportError("the server compressed its response, though asked not to")
            if reply.is_stream:
                await self._receive_stream(frame, reply)
            else:
                await self._receive_body(frame, reply)
        finally:
            reply.close()

    async def _receive_body(self, frame: Frame | None, reply: HttpReply) -> None:
        read = await read_body(reply, frame, self._limits.frame)
        if not isinstance(read, bytes):
            async for event in read:
                if event.data:
                    await self._receive_line(frame, event.line)
            return
        body, refused = single_line(read), reply.status >= _BAD
        if body and (not refused or _answers(body, frame)):
            await self._receive_line(frame, body + b"\n")
        elif refused:
            wants = self._login is not None and reply.status == _UNAUTHORIZED
            hint = f"; log in: `toolbus login {without_query(self._url)}`" if wants else ""
            raise TransportError(f"the server answered with HTTP status {reply.status}{hint}")
        elif frame is not None and frame.method == "notifications/initialized":
            # MCP 2025-11-25, basic/transports, "Listening for Messages from the Server".
            self._listener = asyncio.create_task(self._listen())

    async def _receive_stream(self, frame: Frame | None, reply: HttpReply) -> None:
        """Take the events of a stream, and resume a broken stream after its last event.

        See MCP 2025-11-25, basic/transports, "Resumability and Redelivery".
        """
        # The last event decides where to resume, how long to wait, and whether anything is left.
        last_id, wait, idle = None, 0.0, 0
        while idle < _RESUMES:
            idle = 0 if wait >= _POLL else idle + 1
            with suppress(TransportError, OSError):
                async for event in read_events(reply, self._limits.frame):
                    last_id, wait = event.id or last_id, event.wait or wait
                    if event.data:
                        idle = 0
                        await self._receive_line(frame, event.line)
                        if frame is not None and frame.is_request and frame.id not in self._open:
                            await reply.finish(_REST)
                            return
            reply.close()
            if last_id is None:
                return
            await asyncio.sleep(wait)
            reply = await self._get({"last-event-id": last_id})
            if not reply.is_stream:
                reply.close()
                return

    async def _listen(self) -> None:
        """Take the server's own messages from the standing stream."""
        try:
            reply = await self._get({})
            if reply.is_stream:
                await self._receive_stream(None, reply)
            reply.close()
        except (TransportError, OSError, FrameTooLongError):
            return
        except Exception:
            logger.exception("could not process the server's standing stream")

    async def _get(self, extra: dict[str, str]) -> HttpReply:
        headers = {"accept": "text/event-stream", **self._headers, **extra}
        return await self._send("GET", headers.items(), b"", Timeouts())

    async def _receive_line(self, frame: Frame | None, line: bytes) -> None:
        """Take a line of the HTTP response to *frame*."""
        for answer in frames_in(line):
            if answer.is_response:
                self._open.pop(answer.id, None)
            if frame is not None and frame.method == "initialize":
                match answer.result:
                    case {"protocolVersion": str(version)} if is_header(version):
                        self._headers[REVISION] = version
        if frame is not None and frame.method == LIST:
            self._params.learn(line)
        if self._deliver is not None and (rest := self._deliver(line)) is not None:
            await rest

    async def _close_open(self, frame: Frame | None, asked: Sequence[Frame], problem: str) -> None:
        """Answer each request in *asked* with *problem*, unless the server has answered it."""
        for each in asked:
            if each.id in self._open:
                await self._receive_line(each, error_frame(each.id, SERVER_GONE, problem))
        if problem and frame is not None and not asked:
            logger.warning("%s did not reach the server: %s", frame.method or "a response", problem)


def _answers(data: bytes, frame: Frame | None) -> bool:
    answer = read_frame(data)
    return answer is not None and frame is not None and answer.is_response and answer.id == frame.id


def _resolve(arrival: asyncio.Future[None]) -> None:
    if not arrival.done():
        arrival.set_result(None)

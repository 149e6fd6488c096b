"""A server at an address, as it is to a client on pipes: it takes lines, and gives lines.

See MCP 2025-11-25, basic/transports, "Streamable HTTP": each line of the client is a POST, a GET
takes what the server says by itself, and a DELETE ends the session.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.http.addresses import without_query
from toolbus.http.client import HttpClient, HttpReply, Timeouts, TransportError
from toolbus.mcp.oauth.stored_login import StoredLogin
from toolbus.mcp.protocol.jsonrpc import (
    SERVER_GONE,
    Frame,
    FrameTooLongError,
    error_frame,
    read_frame,
)
from toolbus.mcp.protocol.revisions import (
    LIST,
    REVISION,
    SESSION,
    HeaderParams,
    cancelled_id,
    has_no_timeout,
    is_header,
    is_stateless,
    routing,
)
from toolbus.mcp.transport.json_lines import read_body
from toolbus.mcp.transport.processes import FAILED
from toolbus.mcp.transport.sse import on_one_line, read_events

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from urllib.parse import SplitResult

    from toolbus.mcp.oauth.logins import Logins
    from toolbus.mcp.transport.limits import ProxyLimits

logger = logging.getLogger("toolbus")

_REST = 0.5
"""Seconds in which a stream has to end after its answer, so that its connection is kept."""

_BAD, _UNAUTHORIZED = 400, 401
"""From this status on the server has refused a request: RFC 9110, 15."""

_RESUMES = 10
"""How often a stream that broke off is taken up again for one request."""


class RemoteServer:
    """A server at an address; *take* gets each line that it says, *is_open* tells what it owes."""

    take: Callable[[bytes], Awaitable[None]]
    is_open: Callable[[Any], bool]

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
        self._posts: set[asyncio.Task[None]] = set()
        self._stateless: dict[Any, asyncio.Task[None]] = {}
        self._listener: asyncio.Task[None] | None = None
        # Requests may be under way at the same time, but begin in the order of the client.
        self._order = asyncio.Lock()

    def write(self, line: bytes) -> None:
        """Send a line; what comes of it is taken as it comes."""
        if not line.strip():
            return
        frame = read_frame(line)
        stateless = self._stateless.pop(cancelled_id(frame), None)
        if stateless is not None:
            # There the end of the answer's stream is what cancels, and no notification.
            stateless.cancel()
            return
        task = asyncio.create_task(self._post(frame, line.strip()))
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)
        if frame is not None and frame.is_request and is_stateless(routing(frame)):
            self._stateless[frame.id] = task
            task.add_done_callback(lambda _: self._forget(frame.id, task))

    def _forget(self, request_id: Any, task: asyncio.Task[None]) -> None:
        if self._stateless.get(request_id) is task:
            del self._stateless[request_id]

    def drain(self) -> None:
        """Wait for nothing: what is under way is bounded by what the client asks."""

    async def settle(self, seconds: float) -> None:
        """Wait at most *seconds* for what is under way."""
        if self._posts:
            await asyncio.wait(tuple(self._posts), timeout=seconds)

    async def close(self) -> None:
        """End the session at the server."""
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

    async def _post(self, frame: Frame | None, line: bytes) -> None:
        asks = frame is not None and frame.is_request
        # What follows a notification or the handshake may depend on it.
        waits = frame is None or not asks or frame.method == "initialize"
        try:
            await self._order.acquire()
            try:
                sending = asyncio.create_task(self._sent(frame, line))
                if waits:
                    await asyncio.wait({sending}, timeout=self._limits.grace)
                else:
                    await asyncio.sleep(0)
            finally:
                self._order.release()
            try:
                reply = await sending
            finally:
                sending.cancel()
            await self._take_reply(frame, reply)
            problem = "the server has ended its answer without one" if asks else ""
        except (TransportError, FrameTooLongError) as error:
            problem = str(error)
        except Exception:
            # Whoever waits for an answer is to be told, whatever it was.
            logger.exception("what the server said could not be taken")
            problem = FAILED
        await self._close_open(frame, problem)

    async def _sent(self, frame: Frame | None, line: bytes) -> HttpReply:
        headers = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            **self._headers,
        }
        if routed := routing(frame):
            # Only stateless revisions repeat in headers what the frame says.
            headers |= {**routed, **self._params.headers(frame)}
        timeouts = Timeouts(head=None if has_no_timeout(frame) else self._limits.silence)
        return await self._send("POST", headers.items(), line, timeouts)

    async def _send(
        self, method: str, headers: Iterable[tuple[str, str]], body: bytes, waits: Timeouts
    ) -> HttpReply:
        fields = [*headers, ("accept-encoding", "identity")]
        return await (self._login or self._wire).send(self._url, method, fields, body, waits)

    async def _take_reply(self, frame: Frame | None, reply: HttpReply) -> None:
        try:
            if reply.is_coded:
                raise TransportError("the server compressed its answer, though asked not to")
            if SESSION in reply.headers and frame and frame.method == "initialize":
                self._headers[SESSION] = reply.headers[SESSION]
            if reply.is_stream:
                await self._take_stream(frame, reply)
            else:
                await self._take_body(frame, reply)
        finally:
            reply.close()

    async def _take_body(self, frame: Frame | None, reply: HttpReply) -> None:
        read = await read_body(reply, frame, self._limits.frame)
        if not isinstance(read, bytes):
            async for event in read:
                if event.data:
                    await self._take_line(frame, event.line)
            return
        body, refused = on_one_line(read), reply.status >= _BAD
        if body and (not refused or _answers(body, frame)):
            await self._take_line(frame, body + b"\n")
        elif refused:
            wants = self._login is not None and reply.status == _UNAUTHORIZED
            hint = f"; log in: `toolbus login {without_query(self._url)}`" if wants else ""
            raise TransportError(f"the server answered with HTTP status {reply.status}{hint}")
        elif frame is not None and frame.method == "notifications/initialized":
            # MCP 2025-11-25, basic/transports, "Listening for Messages from the Server".
            self._listener = asyncio.create_task(self._listen())

    async def _take_stream(self, frame: Frame | None, reply: HttpReply) -> None:
        """Take the events of a stream; one that breaks off is taken up where it ended.

        See MCP 2025-11-25, basic/transports, "Resumability and Redelivery".
        """
        last_id, wait = None, 0.0
        for _ in range(_RESUMES):
            with suppress(TransportError, OSError):
                async for event in read_events(reply, self._limits.frame):
                    last_id, wait = event.id or last_id, event.wait or wait
                    if event.data:
                        await self._take_line(frame, event.line)
                        if _answers(event.data, frame):
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
        """Take what the server says by itself, as long as it wants to."""
        try:
            reply = await self._get({})
            if reply.is_stream:
                await self._take_stream(None, reply)
            reply.close()
        except (TransportError, OSError, FrameTooLongError):
            return
        except Exception:
            logger.exception("what the server says by itself could not be taken")

    async def _get(self, extra: dict[str, str]) -> HttpReply:
        headers = {"accept": "text/event-stream", **self._headers, **extra}
        return await self._send("GET", headers.items(), b"", Timeouts())

    async def _take_line(self, frame: Frame | None, line: bytes) -> None:
        if frame is not None and frame.method == "initialize":
            self._learn_version(line)
        elif frame is not None and frame.method == LIST:
            self._params.learn(line)
        await self.take(line)

    def _learn_version(self, line: bytes) -> None:
        answer = read_frame(line)
        if answer is not None and answer.result is not UNSET:
            match answer.result:
                case {"protocolVersion": str(version)} if is_header(version):
                    self._headers[REVISION] = version

    async def _close_open(self, frame: Frame | None, problem: str) -> None:
        """Answer the request, if the server has not."""
        if frame is not None and frame.is_request and self.is_open(frame.id):
            await self.take(error_frame(frame.id, SERVER_GONE, problem))
        elif problem and frame is not None and not frame.is_request:
            logger.warning("%s did not reach the server: %s", frame.method or "an answer", problem)


def _answers(data: bytes, frame: Frame | None) -> bool:
    answer = read_frame(data)
    return answer is not None and frame is not None and answer.is_answer and answer.id == frame.id

"""HTTP in front of a command: a process for each session, and one for requests without any."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from toolbus.mcp.group.server_group import start_servers
from toolbus.mcp.http.failures import JSON, HttpError
from toolbus.mcp.http.requests import STREAM, check_post
from toolbus.mcp.http.session_process import SessionProcess
from toolbus.mcp.http.session_table import SessionTable
from toolbus.mcp.http.shared_process import SharedProcess
from toolbus.mcp.protocol.jsonrpc import SERVER_GONE, error_frame, read_batch, read_frame
from toolbus.mcp.protocol.revisions import REVISION, SESSION, is_stateless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.http.server import HttpRequest
    from toolbus.mcp.group.grouped_server import ServerSettings
    from toolbus.mcp.http.answer_streams import AnswerStream
    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.transport.limits import ProxyLimits

_ENDED = "the proxy has ended"


class Bridge:
    """Starts *command* for each of at most *limit* sessions, which end when *idle* for so long.

    *servers* stand in the place of a command, and know the revisions with sessions alone.
    """

    def __init__(
        self,
        proxy: Proxy,
        command: Sequence[str],
        limits: ProxyLimits,
        *,
        servers: Sequence[ServerSettings] = (),
        limit: int,
        idle: float,
    ) -> None:
        self._servers = servers
        self._proxy, self._command, self._limits, self._limit = proxy, command, limits, limit
        self._sessions: SessionTable[SessionProcess] = SessionTable(idle)
        self._alive: set[SessionProcess] = set()
        self._starting = 0
        self._shared = SharedProcess(proxy, command, limits, idle)

    async def take(self, request: HttpRequest) -> None:
        """Answer *request*; being cancelled means that the client has gone."""
        if is_stateless(request.headers) and not self._servers:
            await self._shared.take(request)
            return
        match request.method:
            case "POST":
                await self._post(request)
            case "GET":
                await self._get(request)
            case "DELETE":
                self._sessions.end(self._session(request))
                await request.answer(200)
            case _:
                allowed = [("allow", "GET, POST, DELETE")]
                raise HttpError(405, "this is for GET, POST and DELETE", allowed)

    def end_streams(self) -> None:
        """End the answers that would go on as long as their clients like."""
        for session in self._sessions:
            session.standing.end()
        self._shared.end_streams()

    async def close(self) -> None:
        """Answer what is still under way with an error, and end all sessions."""
        ending = [session.end(_ENDED) for session in self._alive]
        await asyncio.gather(*ending, self._shared.close(_ENDED))
        await self._sessions.close(_ENDED)

    async def _post(self, request: HttpRequest) -> None:
        check_post(request)
        frame = read_frame(request.body)
        if frame is None and read_batch(request.body) is None:
            raise HttpError(400, "the body is no JSON-RPC")
        if frame is not None and frame.method == "initialize" and SESSION not in request.headers:
            await self._begin(request, frame)
            return
        session = self._session(request)
        with self._sessions.using(session):
            stream = session.ask(request.body)
            await session.drain()
            if stream is None:
                await request.answer(202)
            else:
                await _send(request, stream)

    async def _get(self, request: HttpRequest) -> None:
        session = self._session(request)
        if not request.accepts(STREAM) or "accept" not in request.headers:
            raise HttpError(406, f"what answers a GET is {STREAM}")
        stream, after = session.standing, session.standing.written
        if (event_id := request.headers.get("last-event-id")) is not None:
            resumed = session.resume(event_id)
            if resumed is None:
                raise HttpError(400, "the events after that one are not there any more")
            stream, after = resumed
        with self._sessions.using(session):
            await stream.follow(request, after=after)

    def _session(self, request: HttpRequest) -> SessionProcess:
        """Return the session of *request*: MCP 2025-11-25, Transports, "Session Management"."""
        if SESSION not in request.headers:
            raise HttpError(400, "a session begins with initialize, and then has an id")
        session = self._sessions.get(request.headers[SESSION])
        if session is None or session.is_over:
            raise HttpError(404, "there is no such session, or it has ended")
        if not session.takes(request.headers.get(REVISION)):
            raise HttpError(400, "this revision of MCP is not known")
        return session

    async def _begin(self, request: HttpRequest, frame: Frame) -> None:
        """Start a process, and keep it if it takes the handshake."""
        if len(self._sessions) + self._starting >= self._limit:
            raise HttpError(503, "too many sessions are open", [("retry-after", "30")])
        self._starting += 1
        session = None
        try:
            session = await self._start()
            stream = session.ask(request.body)
            assert stream is not None  # noqa: S101 - it is a request
            async with asyncio.timeout(self._limits.silence):
                answer = await stream.last_line()
            fields = []
            if session.take_handshake(answer):
                session_id = secrets.token_urlsafe(24)
                self._sessions.add(session_id, session)
                fields = [(SESSION, session_id)]
            with self._sessions.using(session):
                await _send(request, stream, fields)
        except (OSError, TimeoutError) as error:
            reason = f"the server cannot be started: {type(error).__name__}"
            line = error_frame(frame.id, SERVER_GONE, reason)
            await request.answer(502, [("content-type", JSON)], line.strip())
        finally:
            self._starting -= 1
            if session is not None and session.id is None:
                self._sessions.end(session)

    async def _start(self) -> SessionProcess:
        process = await start_servers(self._command, self._servers, self._limits)
        session = SessionProcess(self._proxy, process, self._limits)
        self._alive.add(session)
        session.task.add_done_callback(lambda _: self._forget(session))
        return session

    def _forget(self, session: SessionProcess) -> None:
        self._alive.discard(session)
        self._sessions.remove(session)


async def _send(
    request: HttpRequest, stream: AnswerStream, fields: Sequence[tuple[str, str]] = ()
) -> None:
    body = await stream.body(request)
    if body is None:
        await stream.follow(request, fields)
    else:
        await request.answer(200, [("content-type", JSON), *fields], body)

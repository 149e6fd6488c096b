"""The bridge from HTTP to a command: one process for each session or stateless client."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from toolbus.mcp.group.server_group import start_servers
from toolbus.mcp.http.failures import JSON, HttpError
from toolbus.mcp.http.requests import STREAM, check_post
from toolbus.mcp.http.session_process import SessionProcess
from toolbus.mcp.http.session_table import SessionTable
from toolbus.mcp.http.upstream import client_identity
from toolbus.mcp.protocol.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    SERVER_GONE,
    error_frame,
    read_batch,
    read_frame,
)
from toolbus.mcp.protocol.repeated_headers import HEADER_MISMATCH, mismatch
from toolbus.mcp.protocol.revisions import REVISION, SESSION, is_stateless, params_of, version_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.http.server import HttpRequest
    from toolbus.mcp.group.settings import ServerSettings
    from toolbus.mcp.http.answer_streams import AnswerStream
    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.transport.limits import ProxyLimits
    from toolbus.mcp.transport.link import ServerLink

_ENDED = "the proxy has ended"
_STATUS = {-32700: 400, -32600: 400, -32602: 400, -32601: 404} | dict.fromkeys(
    (HEADER_MISMATCH, -32021, -32022), 400
)
"""HTTP statuses by error code, for a lone error response in revision 2026-07-28."""


class Bridge:
    """A backend that starts *command* for each client, at most *limit* times.

    A process ends after *idle* seconds without a request. Stateless clients are identified by
    their headers. *servers* replace the command.
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
        # One slot for each process, released when it has exited.
        self._slots = asyncio.Semaphore(limit)
        self._starting = 0
        self._stateless: SessionTable[SessionProcess] = SessionTable(idle)
        self._lock = asyncio.Lock()

    async def answer(self, request: HttpRequest) -> None:
        """Answer *request*; a cancellation means that the client is gone."""
        if is_stateless(request.headers):
            await self._answer_stateless(request)
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
                raise HttpError(405, "expected GET, POST or DELETE", allowed)

    def end_streams(self) -> None:
        """End the standing streams and the subscriptions."""
        for session in self._sessions:
            session.standing.end()
        for session in self._stateless:
            session.end_subscriptions()

    async def close(self) -> None:
        """Answer open requests with an error, and end all sessions."""
        ending = [session.end(_ENDED) for session in self._alive]
        await asyncio.gather(*ending)
        await self._sessions.close(_ENDED)
        await self._stateless.close(_ENDED)

    async def _post(self, request: HttpRequest) -> None:
        check_post(request)
        frame = read_frame(request.body)
        if frame is None and read_batch(request.body) is None:
            raise HttpError(400, "expected a JSON-RPC frame as the body")
        if frame is not None and frame.method == "initialize" and SESSION not in request.headers:
            await self._begin_session(request, frame)
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
            raise HttpError(406, f"expected {STREAM} in the Accept header")
        stream, after = session.standing, session.standing.written
        if (event_id := request.headers.get("last-event-id")) is not None:
            resumed = session.resume(event_id)
            if resumed is None:
                raise HttpError(400, "the events after Last-Event-ID are no longer available")
            stream, after = resumed
        with self._sessions.using(session):
            await stream.follow(request, after=after)

    def _session(self, request: HttpRequest) -> SessionProcess:
        """Return the session of *request*: MCP 2025-11-25, Transports, "Session Management"."""
        if SESSION not in request.headers:
            raise HttpError(400, f"expected initialize, or a session id in the header {SESSION}")
        session = self._sessions.get(request.headers[SESSION])
        if session is None or session.is_over:
            raise HttpError(404, "unknown or ended session")
        if not session.accepts_revision(request.headers.get(REVISION)):
            raise HttpError(400, f"unknown revision of MCP in the header {REVISION}")
        return session

    async def _begin_session(self, request: HttpRequest, frame: Frame) -> None:
        """Start a process, and register its session if the handshake succeeds."""
        self._make_room()
        self._starting += 1
        session = None
        try:
            session = await self._start()
            stream = session.ask(request.body)
            assert stream is not None  # noqa: S101 - the body is a request
            async with asyncio.timeout(self._limits.silence):
                answer = await stream.last_line()
            fields = []
            if session.complete_handshake(answer):
                session_id = secrets.token_urlsafe(24)
                self._sessions.add(session_id, session)
                fields = [(SESSION, session_id)]
            with self._sessions.using(session):
                await _send(request, stream, fields)
        except (OSError, TimeoutError) as error:
            await _refuse_start(request, frame, error)
        finally:
            self._starting -= 1
            if session is not None and session.id is None:
                self._sessions.end(session)

    def _make_room(self) -> None:
        """End idle stateless processes if there are too many; raises `HttpError` if not enough."""
        others = len(self._sessions) + self._starting
        self._stateless.shrink(max(0, self._limit - others - 1))
        if others + len(self._stateless) >= self._limit:
            raise _too_many()

    async def _start(self, client: frozenset[tuple[str, str]] | None = None) -> SessionProcess:
        """Start a process for a session, or for the stateless *client*."""
        process = await self._start_process()
        asks = "" if client is None else self._proxy.client_approvals.session_of(client)
        session = SessionProcess(
            self._proxy,
            process,
            self._limits,
            stateless=client is not None,
            question_session=asks,
        )
        self._alive.add(session)
        session.task.add_done_callback(lambda _: self._forget(session))
        return session

    async def _start_process(self) -> ServerLink:
        """Start a process, once there is a slot for it; raises `HttpError`."""
        try:
            # Longer than a process may take to exit.
            async with asyncio.timeout(3 * self._limits.grace):
                await self._slots.acquire()
        except TimeoutError:
            raise _too_many() from None
        process = None
        try:
            process = await start_servers(self._command, self._servers, self._limits)
        finally:
            if process is None:
                self._slots.release()
        return process

    def _forget(self, session: SessionProcess) -> None:
        self._alive.discard(session)
        self._slots.release()
        self._sessions.remove(session)
        self._stateless.remove(session)

    # --- stateless requests --------------------------------------------------------------------

    async def _answer_stateless(self, request: HttpRequest) -> None:
        if request.method != "POST":
            raise HttpError(405, "expected POST in this revision of MCP", [("allow", "POST")])
        check_post(request)
        frame = read_frame(request.body)
        if frame is None or frame.method is UNSET:
            raise HttpError(400, "expected a JSON-RPC request or notification as the body")
        if not frame.is_request:
            # Notifications have no effect: a request is cancelled by closing its connection.
            await request.answer(202)
        elif (problem := _stateless_error(request, frame)) is not None:
            line = error_frame(frame.id, *problem)
            await request.answer(_status_of(line), [("content-type", JSON)], line.strip())
        else:
            await self._ask_stateless(request, frame)

    async def _ask_stateless(self, request: HttpRequest, frame: Frame) -> None:
        try:
            session = await self._session_of(client_identity(request.fields))
        except OSError as error:
            await _refuse_start(request, frame, error)
            return
        with self._stateless.using(session):
            try:
                stream = session.ask_stateless(request.body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                reason = "the body is JSON only to some readers"
                raise HttpError(400, reason, request_id=frame.id, code=PARSE_ERROR) from None
            try:
                await session.drain()
                await _send(request, stream)
            finally:
                session.forget(stream)

    async def _session_of(self, client: frozenset[tuple[str, str]]) -> SessionProcess:
        """Return the process of *client*, started at its first request."""
        # A reload brings other handlers, and so other processes.
        key = client, self._proxy.current
        session = self._stateless.get(key)
        if session is not None and not session.is_over:
            return session
        async with self._lock:
            session = self._stateless.get(key)
            if session is None or session.is_over:
                self._make_room()
                session = await self._start(client)
                self._stateless.add(key, session)
            return session


def _too_many() -> HttpError:
    return HttpError(503, "too many sessions are open", [("retry-after", "30")])


def _stateless_error(request: HttpRequest, frame: Frame) -> tuple[int, str] | None:
    """Return the code and reason of an error in a stateless request, or None."""
    if version_of(params_of(frame)) is None:
        return INVALID_PARAMS, f"the header {REVISION} names a revision of MCP, the body does not"
    if (problem := mismatch(frame, request.headers)) is not None:
        return HEADER_MISMATCH, problem
    if frame.method == "initialize":
        # A process would take this for the handshake of a session.
        return METHOD_NOT_FOUND, "this revision of MCP has no initialize"
    return None


async def _refuse_start(request: HttpRequest, frame: Frame, error: Exception) -> None:
    reason = f"cannot start the server: {type(error).__name__}"
    line = error_frame(frame.id, SERVER_GONE, reason)
    await request.answer(502, [("content-type", JSON)], line.strip())


def _status_of(line: bytes) -> int:
    """Return the HTTP status of a response in the stateless revision."""
    frame, status = read_frame(line), 200
    if frame is not None and isinstance(frame.error, dict):
        code = frame.error.get("code")
        status = _STATUS.get(code, 200) if isinstance(code, int) else 200
    return status


async def _send(
    request: HttpRequest, stream: AnswerStream, fields: Sequence[tuple[str, str]] = ()
) -> None:
    body = await stream.body(request)
    if body is None:
        await stream.follow(request, fields)
    else:
        status = 200 if stream.alias is None else _status_of(body)
        await request.answer(status, [("content-type", JSON), *fields], body)

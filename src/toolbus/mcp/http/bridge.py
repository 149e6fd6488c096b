"""HTTP in front of a command: a process for each session, and for each client without sessions."""

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
from toolbus.mcp.http.upstream import identity
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
"""The HTTP status of an error that is the whole answer, in the revision of 2026-07-28."""


class Bridge:
    """Starts *command* for each of at most *limit* clients, which end when *idle* for so long.

    A client of the stateless revision is known by its headers.

    *servers* stand in the place of a command.
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
        # Of processes; one that ends has its own until it has ended.
        self._slots = asyncio.Semaphore(limit)
        self._starting = 0
        self._stateless: SessionTable[SessionProcess] = SessionTable(idle)
        self._lock = asyncio.Lock()

    async def take(self, request: HttpRequest) -> None:
        """Answer *request*; being cancelled means that the client has gone."""
        if is_stateless(request.headers):
            await self._take_stateless(request)
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
        for session in self._stateless:
            session.end_subscriptions()

    async def close(self) -> None:
        """Answer what is still under way with an error, and end all sessions."""
        ending = [session.end(_ENDED) for session in self._alive]
        await asyncio.gather(*ending)
        await self._sessions.close(_ENDED)
        await self._stateless.close(_ENDED)

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
        self._make_room()
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
            await _refuse_start(request, frame, error)
        finally:
            self._starting -= 1
            if session is not None and session.id is None:
                self._sessions.end(session)

    def _make_room(self) -> None:
        """Raise `HttpError` if there are too many processes; those of no request give way."""
        others = len(self._sessions) + self._starting
        self._stateless.shrink(max(0, self._limit - others - 1))
        if others + len(self._stateless) >= self._limit:
            raise _too_many()

    async def _start(self, client: frozenset[tuple[str, str]] | None = None) -> SessionProcess:
        """Start a process for a session, or for *client*, which has none."""
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
        """Start a process, at once or when another one has ended; raises `HttpError`."""
        try:
            # Longer than a process may take to end.
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

    # --- requests that stand for themselves ----------------------------------------------------

    async def _take_stateless(self, request: HttpRequest) -> None:
        if request.method != "POST":
            raise HttpError(405, "this revision of MCP has only POST", [("allow", "POST")])
        check_post(request)
        frame = read_frame(request.body)
        if frame is None or frame.method is UNSET:
            raise HttpError(400, "the body is not a JSON-RPC request or notification")
        if not frame.is_request:
            # There is none that means anything: closing the connection is what cancels.
            await request.answer(202)
        elif (problem := _misfit(request, frame)) is not None:
            line = error_frame(frame.id, *problem)
            await request.answer(_status_of(line), [("content-type", JSON)], line.strip())
        else:
            await self._ask_alone(request, frame)

    async def _ask_alone(self, request: HttpRequest, frame: Frame) -> None:
        try:
            session = await self._session_of(identity(request.fields))
        except OSError as error:
            await _refuse_start(request, frame, error)
            return
        with self._stateless.using(session):
            try:
                stream = session.ask_alone(request.body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                reason = "the body is JSON for some readers alone"
                raise HttpError(400, reason, request_id=frame.id, code=PARSE_ERROR) from None
            try:
                await session.drain()
                await _send(request, stream)
            finally:
                session.forget(stream)

    async def _session_of(self, client: frozenset[tuple[str, str]]) -> SessionProcess:
        """Return the process of *client*, which is started for its first request."""
        # Those of another configuration have other handlers.
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


def _misfit(request: HttpRequest, frame: Frame) -> tuple[int, str] | None:
    """Return the code and the reason of the error to what the stateless revision does not know."""
    if version_of(params_of(frame)) is None:
        return INVALID_PARAMS, "the body names no revision of MCP, the header does"
    if (problem := mismatch(frame, request.headers)) is not None:
        return HEADER_MISMATCH, problem
    if frame.method == "initialize":
        # A process would take it for the handshake of a session.
        return METHOD_NOT_FOUND, "this revision of MCP has no initialize"
    return None


async def _refuse_start(request: HttpRequest, frame: Frame, error: Exception) -> None:
    reason = f"the server cannot be started: {type(error).__name__}"
    line = error_frame(frame.id, SERVER_GONE, reason)
    await request.answer(502, [("content-type", JSON)], line.strip())


def _status_of(line: bytes) -> int:
    """Return the HTTP status of an answer of the stateless revision."""
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

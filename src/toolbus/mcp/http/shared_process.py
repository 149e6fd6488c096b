"""A process for all requests that stand for themselves, in which their ids are kept apart."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from toolbus.mcp.http.answer_streams import AnswerStream
from toolbus.mcp.http.event_streams import EventBuffer
from toolbus.mcp.http.failures import JSON, HttpError, failure_of
from toolbus.mcp.http.forwarding import identity
from toolbus.mcp.http.listings import Listings
from toolbus.mcp.http.requests import check_post
from toolbus.mcp.protocol.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    SERVER_GONE,
    Frame,
    error_frame,
    read_frame,
    write_frame,
)
from toolbus.mcp.protocol.revisions import (
    CANCELLED,
    HEADER_MISMATCH,
    cancelled_id,
    mismatch,
    params_of,
    version_of,
)
from toolbus.mcp.proxy.byte_relay import open_session
from toolbus.mcp.session.request_table import Channels
from toolbus.mcp.transport.processes import Process, explain_end, start
from toolbus.mcp.transport.sse import on_one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.http.server import HttpRequest
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.transport.limits import ProxyLimits

logger = logging.getLogger("toolbus")

_STATUS = {-32700: 400, -32600: 400, -32602: 400, -32601: 404} | dict.fromkeys(
    (HEADER_MISMATCH, -32021, -32022), 400
)
"""The HTTP status of an error that is the whole answer, in the revision of 2026-07-28."""

_LISTEN = "subscriptions/listen"
_object = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode


class SharedProcess:
    """Requests of the stateless revision, put to one process that *command* starts.

    Each stands for itself there, so one process may serve them all, as it would serve one client
    that asks them at the same time. Clients choose their ids by themselves, so each gets another
    one that nobody can guess, and so do progress tokens.
    """

    def __init__(
        self, proxy: Proxy, command: Sequence[str], limits: ProxyLimits, idle: float
    ) -> None:
        self.proxy = proxy
        self._command, self._limits, self._idle = command, limits, idle
        self._nonce = f"toolbus-{secrets.token_urlsafe(12)}-"
        self._aliases = re.compile(rb'"(%b\d+)"' % re.escape(self._nonce.encode()))
        self._listings = Listings()
        self._requests: set[PendingRequest] = set()
        self._open: dict[str, tuple[PendingRequest, Raw]] = {}
        self._count = 0
        self._process: Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, request: HttpRequest) -> None:
        """Answer *request*; being cancelled means that the client does not want an answer."""
        if request.method != "POST":
            raise HttpError(405, "this revision of MCP has only POST", [("allow", "POST")])
        check_post(request)
        frame = read_frame(request.body)
        if frame is None or frame.method is UNSET:
            raise HttpError(400, "the body is no JSON-RPC request or notification")
        if not frame.is_request:
            # There is none that means anything: closing the connection is what cancels.
            await request.answer(202)
        elif version_of(params_of(frame)) is None:
            reason = "the body names no revision of MCP, the header does"
            await _answer(request, error_frame(frame.id, INVALID_PARAMS, reason))
        elif (problem := mismatch(frame, request.headers)) is not None:
            await _answer(request, error_frame(frame.id, HEADER_MISMATCH, problem))
        elif frame.method == "initialize":
            # A process would take it for the handshake of a session, and it serves many clients.
            reason = "this revision of MCP has no initialize"
            await _answer(request, error_frame(frame.id, METHOD_NOT_FOUND, reason))
        else:
            await self._ask(request, frame)

    async def _ask(self, request: HttpRequest, frame: Frame) -> None:
        try:
            process = await self._ready()
        except OSError as error:
            reason = f"the server cannot be started: {type(error).__name__}"
            line = error_frame(frame.id, SERVER_GONE, reason).strip()
            await request.answer(502, [("content-type", JSON)], line)
            return
        pending = PendingRequest(self, process, request, frame)
        # Known from here on, since its own tasks have perhaps not begun when the process dies.
        self._requests.add(pending)
        # As handlers left them: those of another configuration leave others.
        key = self.proxy.current
        self._listings.get(key, pending.session)
        try:
            await pending.run()
        finally:
            self._listings.put(key, pending.session)
            self._requests.discard(pending)
            for alias in pending.aliases:
                del self._open[alias]
            self._rest()

    def buffer(self) -> EventBuffer:
        """Return where events wait for a client; it waits for none, since others wait as well."""
        return EventBuffer(self._limits.frame)

    def enroll(self, pending: PendingRequest, value: Raw) -> str:
        """Return the alias by which the process knows *value*, an id or a token of *pending*."""
        self._count += 1
        alias = f"{self._nonce}{self._count}"
        self._open[alias] = pending, value
        pending.aliases.append(alias)
        return alias

    def end_streams(self) -> None:
        """End what would go on as long as its client likes."""
        for pending in self._requests:
            if pending.frame.method == _LISTEN:
                pending.stream.end()

    async def close(self, reason: str) -> None:
        """End the process."""
        if self._timer is not None:
            self._timer.cancel()
        self._server_gone(reason)
        if self._process is not None and self._task is not None:
            await self._process.end(self._limits.grace)
            await asyncio.wait({self._task})

    # --- the process ---------------------------------------------------------------------------

    async def _ready(self) -> Process:
        if self._timer is not None:
            self._timer.cancel()
        async with self._lock:
            if self._process is None or self._task is None or self._task.done():
                self._process = await start(self._command)
                self._task = asyncio.create_task(self._run(self._process))
            return self._process

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._requests:
            self._timer = asyncio.get_running_loop().call_later(self._idle, self._finish)

    def _finish(self) -> None:
        if not self._requests and self._process is not None:
            self._process.finish()

    async def _run(self, process: Process) -> None:
        try:
            self._server_gone(await failure_of(self._listen(process)))
        finally:
            if self._process is process:
                self._process = None
            await process.kill()

    async def _listen(self, process: Process) -> str:
        """Take what *process* says until it ends; return why it answers nothing more."""
        why = await process.lines(self._limits.frame, self._take, process.drain)
        if why:
            logger.error("the server is stopped: %s", why)
        self._process = None
        self._listings.forget()
        code = await process.end(self._limits.grace, at_once=bool(why))
        return explain_end(code, why)

    def _server_gone(self, reason: str) -> None:
        for pending in tuple(self._requests):
            pending.session.server_gone(reason)

    async def _take(self, line: bytes) -> None:
        """Give a line of the process to the request that it is about."""
        about = self._about(line)
        frame = read_frame(line)
        if frame is not None and frame.method == "notifications/tools/list_changed":
            self._listings.forget()
        if len(about) == 1:
            await about.pop().session.from_server(self._aliases.sub(self._value, line))
        elif frame is not None and frame.is_request and self._process is not None:
            reason = "in this revision servers ask nothing"
            self._process.write(error_frame(frame.id, INVALID_REQUEST, reason))
        elif line.strip():
            logger.warning("the server said %d bytes that belong to no request", len(line))

    def _about(self, line: bytes) -> set[PendingRequest]:
        """Return the requests that *line* names; what names none is about any."""
        aliases = self._aliases.findall(line)
        entries = map(self._open.get, [alias.decode() for alias in aliases])
        return {entry[0] for entry in entries if entry} if aliases else set(self._requests)

    def _value(self, match: re.Match[bytes]) -> bytes:
        """Return the id or the token that an alias stands for."""
        entry = self._open.get(match[1].decode())
        return match[0] if entry is None else bytes(entry[1])


class PendingRequest:
    """One request of a client, and its session, which ends with it."""

    def __init__(
        self, shared: SharedProcess, process: Process, request: HttpRequest, frame: Frame
    ) -> None:
        self._shared, self._process, self._request, self.frame = shared, process, request, frame
        self.stream = AnswerStream(shared.buffer(), pending=1)
        self.session = open_session(
            shared.proxy,
            Channels(self.stream.put, self._to_server, self.stream.answer),
            shared.proxy.client_approvals.session_of(identity(request.fields)),
        )
        self.aliases: list[str] = []
        self._alias_of: dict[Any, str] = {}

    async def run(self) -> None:
        """Ask, and answer the request."""
        request = self._request
        try:
            self.session.from_client(on_one_line(request.body) + b"\n")
            if (full := self._process.drain()) is not None:
                await full
            body = await self.stream.body(request)
            if body is None:
                await self.stream.follow(request)
            else:
                await _answer(request, body)
        finally:
            if not self.stream.ended:
                params = {"requestId": self.frame.id}
                self.session.from_client(write_frame(method=CANCELLED, params=params))
            await self.session.close()

    def _to_server(self, line: bytes) -> None:
        """Send a line to the process, with aliases in the place of the client's ids."""
        frame, top = read_frame(line), _object.decode(line)
        cancelled = cancelled_id(frame)
        if cancelled is not UNSET:
            if (alias := self._alias_of.get(cancelled)) is not None:
                self._process.write(write_frame(method=CANCELLED, params={"requestId": alias}))
            return
        if frame is not None and frame.is_request:
            alias = self._alias_of[frame.id] = self._shared.enroll(self, top["id"])
            top["id"] = Raw(_encode(alias))
            if "params" in top:
                top["params"] = self._aliased(top["params"])
        self._process.write(_encode(top) + b"\n")

    def _aliased(self, params: Raw) -> Raw:
        """Return *params* with an alias of the progress token, if there is one."""
        try:
            inner = _object.decode(params)
            meta = _object.decode(inner["_meta"])
            meta["progressToken"] = Raw(_encode(self._shared.enroll(self, meta["progressToken"])))
        except (msgspec.DecodeError, KeyError):
            return params
        return Raw(_encode({**inner, "_meta": meta}))


async def _answer(request: HttpRequest, line: bytes) -> None:
    frame, status = read_frame(line), 200
    if frame is not None and frame.failed:
        match frame.error:
            case {"code": int(code)}:
                status = _STATUS.get(code, 200)
    await request.answer(status, [("content-type", JSON)], line.strip())

"""A process for all requests that stand for themselves, in which their ids are kept apart."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from toolbus.mcp.proxy.http.listings import Listings
from toolbus.mcp.proxy.http.streams import Stream, joined
from toolbus.mcp.proxy.http.visits import JSON, RefusedVisitError
from toolbus.mcp.proxy.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    SERVER_GONE,
    Frame,
    error_frame,
    read_frame,
    write_frame,
)
from toolbus.mcp.proxy.processes import FAILED, Process, explain_end, start
from toolbus.mcp.proxy.revisions import (
    CANCELLED,
    HEADER_MISMATCH,
    cancelled_id,
    mismatch,
    params_of,
    version_of,
)
from toolbus.mcp.proxy.session import ProxySession
from toolbus.mcp.proxy.sse import on_one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.mcp.proxy.http.visits import Visit
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.proxy.stdio import ProxyLimits

logger = logging.getLogger("toolbus")

_STATUS = {-32700: 400, -32600: 400, -32602: 400, -32601: 404} | dict.fromkeys(
    (HEADER_MISMATCH, -32021, -32022), 400
)
"""The HTTP status of an error that is the whole answer, in the revision of 2026-07-28."""

_LISTEN = "subscriptions/listen"
_object = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode


class Shared:
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
        self._names = re.compile(rb'"(%b\d+)"' % re.escape(self._nonce.encode()))
        self._listings = Listings()
        self._askings: set[Asking] = set()
        self._open: dict[str, tuple[Asking, Raw]] = {}
        self._count = 0
        self._process: Process | None = None
        self._life: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, visit: Visit) -> None:
        """Answer *visit*; being cancelled means that the client does not want an answer."""
        if visit.method != "POST":
            raise RefusedVisitError(405, "this revision of MCP has only POST", [("allow", "POST")])
        visit.check_post()
        frame = read_frame(visit.body)
        if frame is None or frame.method is UNSET:
            raise RefusedVisitError(400, "the body is no JSON-RPC request or notification")
        if not frame.is_request:
            # There is none that means anything: closing the connection is what cancels.
            await visit.answer(202)
        elif version_of(params_of(frame)) is None:
            reason = "the body names no revision of MCP, the header does"
            await _answer(visit, error_frame(frame.id, INVALID_PARAMS, reason))
        elif (problem := mismatch(frame, visit.headers)) is not None:
            await _answer(visit, error_frame(frame.id, HEADER_MISMATCH, problem))
        elif frame.method == "initialize":
            # A process would take it for the handshake of a session, and it serves many clients.
            reason = "this revision of MCP has no initialize"
            await _answer(visit, error_frame(frame.id, METHOD_NOT_FOUND, reason))
        else:
            await self._ask(visit, frame)

    async def _ask(self, visit: Visit, frame: Frame) -> None:
        try:
            process = await self._ready()
        except OSError as error:
            reason = f"the server cannot be started: {type(error).__name__}"
            said = error_frame(frame.id, SERVER_GONE, reason).strip()
            await visit.answer(502, [("content-type", JSON)], said)
            return
        asking = Asking(self, process, visit, frame)
        self._askings.add(asking)
        self._listings.lend(None, asking.session)
        try:
            await asking.run()
        finally:
            self._listings.keep(None, asking.session)
            self._askings.discard(asking)
            for name in asking.names:
                del self._open[name]
            self._rest()

    def enroll(self, asking: Asking, own: Raw) -> str:
        """Return the name by which the process knows *own*, an id or a token of *asking*."""
        self._count += 1
        name = f"{self._nonce}{self._count}"
        self._open[name] = asking, own
        asking.names.append(name)
        return name

    def end_streams(self) -> None:
        """End what would go on as long as its client likes."""
        for asking in self._askings:
            if asking.frame.method == _LISTEN:
                asking.stream.end()

    async def close(self, reason: str) -> None:
        """End the process."""
        if self._timer is not None:
            self._timer.cancel()
        self._gone(reason)
        if self._process is not None and self._life is not None:
            await self._process.end(self._limits.grace)
            await asyncio.wait({self._life})

    # --- the process ---------------------------------------------------------------------------

    async def _ready(self) -> Process:
        if self._timer is not None:
            self._timer.cancel()
        async with self._lock:
            if self._process is None or self._life is None or self._life.done():
                self._process = await start(self._command)
                self._life = asyncio.create_task(self._live(self._process))
            return self._process

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._askings:
            self._timer = asyncio.get_running_loop().call_later(self._idle, self._finish)

    def _finish(self) -> None:
        if not self._askings and self._process is not None:
            self._process.finish()

    async def _live(self, process: Process) -> None:
        try:
            why = await process.lines(self._limits.frame, self._take, process.drain)
            if why:
                logger.error("the server is stopped: %s", why)
            self._process = None
            self._listings.forget()
            code = await process.end(self._limits.grace, at_once=bool(why))
            self._gone(explain_end(code, why))
        except Exception:
            logger.exception("the process for stateless requests cannot go on")
            self._gone(FAILED)
        finally:
            if self._process is process:
                self._process = None
            await process.kill()

    def _gone(self, reason: str) -> None:
        for asking in tuple(self._askings):
            asking.session.server_gone(reason)

    async def _take(self, line: bytes) -> None:
        """Give a line of the process to the request that it is about."""
        found = [self._open.get(name.decode()) for name in self._names.findall(line)]
        about = {one[0] for one in found if one is not None}
        if not found:
            about = set(self._askings)
        frame = read_frame(line)
        if frame is not None and frame.method == "notifications/tools/list_changed":
            self._listings.forget()
        if len(about) == 1:
            await about.pop().session.from_server(self._names.sub(self._own, line))
        elif frame is not None and frame.is_request and self._process is not None:
            reason = "in this revision servers ask nothing"
            self._process.write(error_frame(frame.id, INVALID_REQUEST, reason))
        elif line.strip():
            logger.warning("the server said %d bytes that belong to no request", len(line))

    def _own(self, named: re.Match[bytes]) -> bytes:
        found = self._open.get(named[1].decode())
        return named[0] if found is None else bytes(found[1])


class Asking:
    """One request of a client, and its session, which ends with it."""

    def __init__(self, shared: Shared, process: Process, visit: Visit, frame: Frame) -> None:
        self._shared, self._process, self._visit, self.frame = shared, process, visit, frame
        self.stream = Stream(left=1)
        self.session = ProxySession(shared.proxy, self.stream.put, self._to_server)
        self.names: list[str] = []
        self._named: dict[Any, str] = {}

    async def run(self) -> None:
        """Ask, and answer the visit."""
        visit = self._visit
        try:
            self.session.from_client(on_one_line(visit.body) + b"\n", self.stream.answer)
            if (full := self._process.drain()) is not None:
                await full
            lines = await self.stream.whole(visit)
            if lines is None:
                await self.stream.follow(visit)
            else:
                await _answer(visit, joined(lines))
        finally:
            if not self.stream.ended:
                params = {"requestId": self.frame.id}
                self.session.from_client(write_frame(method=CANCELLED, params=params))
            await self.session.close()

    def _to_server(self, line: bytes) -> None:
        """Send a line to the process, with names of ours in the place of the client's."""
        frame, top = read_frame(line), _object.decode(line)
        cancelled = cancelled_id(frame)
        if cancelled is not UNSET:
            if (name := self._named.get(cancelled)) is not None:
                self._process.write(write_frame(method=CANCELLED, params={"requestId": name}))
            return
        if frame is not None and frame.is_request:
            name = self._named[frame.id] = self._shared.enroll(self, top["id"])
            top["id"] = Raw(_encode(name))
            if "params" in top:
                top["params"] = self._renamed(top["params"])
        self._process.write(_encode(top) + b"\n")

    def _renamed(self, params: Raw) -> Raw:
        """Return *params* with a progress token of ours, if there is one."""
        try:
            inner = _object.decode(params)
            meta = _object.decode(inner["_meta"])
            meta["progressToken"] = Raw(_encode(self._shared.enroll(self, meta["progressToken"])))
        except (msgspec.DecodeError, KeyError):
            return params
        return Raw(_encode({**inner, "_meta": meta}))


async def _answer(visit: Visit, line: bytes) -> None:
    frame, status = read_frame(line), 200
    if frame is not None and frame.failed and isinstance(frame.error, Raw):
        match msgspec.json.decode(frame.error):
            case {"code": int(code)}:
                status = _STATUS.get(code, 200)
    await visit.answer(status, [("content-type", JSON)], line.strip())

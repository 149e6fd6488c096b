"""HTTP in front of a command: a process for each session, and one for requests without any."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from toolbus.mcp.proxy.http.hosted import Hosted
from toolbus.mcp.proxy.http.shared import Shared
from toolbus.mcp.proxy.http.streams import joined
from toolbus.mcp.proxy.http.visits import JSON, STREAM, RefusedVisitError
from toolbus.mcp.proxy.jsonrpc import SERVER_GONE, error_frame, read_batch, read_frame
from toolbus.mcp.proxy.processes import start
from toolbus.mcp.proxy.revisions import REVISION, SESSION, is_stateless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.mcp.proxy.http.streams import Stream
    from toolbus.mcp.proxy.http.visits import Visit
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.proxy.stdio import ProxyLimits

_ENDED = "the proxy has ended"


class Bridge:
    """Starts *command* for each of at most *most* sessions; who is *idle* for so long loses it."""

    def __init__(
        self, proxy: Proxy, command: Sequence[str], limits: ProxyLimits, *, most: int, idle: float
    ) -> None:
        self._proxy, self._command, self._limits = proxy, command, limits
        self._most, self._idle = most, idle
        self._sessions: dict[str, Hosted] = {}
        self._alive: set[Hosted] = set()
        self._starting = 0
        self._shared = Shared(proxy, command, limits, idle)
        self._visits: set[asyncio.Task[None] | None] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def take(self, visit: Visit) -> None:
        """Answer *visit*; being cancelled means that the client has gone."""
        task = asyncio.current_task()
        self._visits.add(task)
        try:
            if is_stateless(visit.headers):
                await self._shared.take(visit)
            else:
                await self._route(visit)
        finally:
            self._visits.discard(task)

    async def close(self, grace: float) -> None:
        """End all sessions; give what is under way *grace* seconds."""
        for one in self._sessions.values():
            one.standing.end()
        self._shared.end_streams()
        if self._visits:
            await asyncio.wait([*filter(None, self._visits)], timeout=grace)
        ending = [one.end(_ENDED) for one in self._alive]
        await asyncio.gather(*ending, self._shared.close(_ENDED), *self._ending)

    # --- by method -----------------------------------------------------------------------------

    async def _route(self, visit: Visit) -> None:
        match visit.method:
            case "POST":
                await self._post(visit)
            case "GET":
                await self._get(visit)
            case "DELETE":
                self.end(self._session(visit)[0])
                await visit.answer(200)
            case _:
                allowed = [("allow", "GET, POST, DELETE")]
                raise RefusedVisitError(405, "this is for GET, POST and DELETE", allowed)

    async def _post(self, visit: Visit) -> None:
        visit.check_post()
        frame = read_frame(visit.body)
        if frame is None and read_batch(visit.body) is None:
            raise RefusedVisitError(400, "the body is no JSON-RPC")
        if frame is not None and frame.method == "initialize" and SESSION not in visit.headers:
            await self._begin(visit)
            return
        _, hosted = self._session(visit)
        with _Stay(self, visit.headers[SESSION], hosted):
            stream = hosted.ask(visit.body)
            await hosted.drain()
            if stream is None:
                await visit.answer(202)
            else:
                await _send(visit, stream)

    async def _get(self, visit: Visit) -> None:
        own, hosted = self._session(visit)
        if not visit.accepts(STREAM) or "accept" not in visit.headers:
            raise RefusedVisitError(406, f"what answers a GET is {STREAM}")
        stream, after = hosted.standing, hosted.standing.sent
        if (last := visit.headers.get("last-event-id")) is not None:
            found = hosted.resume(last)
            if found is None:
                raise RefusedVisitError(400, "the events after that one are not there any more")
            stream, after = found
        with _Stay(self, own, hosted):
            await stream.follow(visit, after=after)

    # --- sessions ------------------------------------------------------------------------------

    def _session(self, visit: Visit) -> tuple[str, Hosted]:
        own = visit.headers.get(SESSION)
        if own is None:
            raise RefusedVisitError(400, "a session begins with initialize, and then has an id")
        hosted = self._sessions.get(own)
        if hosted is None or hosted.life.done():
            raise RefusedVisitError(404, "there is no such session, or it has ended")
        if not hosted.takes(visit.headers.get(REVISION)):
            raise RefusedVisitError(400, "this revision of MCP is not known")
        return own, hosted

    async def _begin(self, visit: Visit) -> None:
        """Start a process, and keep it if it takes the handshake."""
        frame = read_frame(visit.body)
        if len(self._sessions) + self._starting >= self._most:
            raise RefusedVisitError(503, "too many sessions are open", [("retry-after", "30")])
        self._starting += 1
        hosted = None
        try:
            hosted = await self._start()
            stream = hosted.ask(visit.body)
            assert stream is not None  # noqa: S101 - it is a request
            async with asyncio.timeout(self._limits.silence):
                answer = await stream.last()
            if hosted.began(answer):
                own = secrets.token_urlsafe(24)
                self._sessions[own] = hosted
                hosted.life.add_done_callback(lambda _: self._sessions.pop(own, None))
                with _Stay(self, own, hosted):
                    hosted, fields = None, [(SESSION, own)]
                    await _send(visit, stream, fields)
            else:
                await _send(visit, stream)
        except (OSError, TimeoutError) as error:
            reason = f"the server cannot be started: {type(error).__name__}"
            said = error_frame(None if frame is None else frame.id, SERVER_GONE, reason)
            await visit.answer(502, [("content-type", JSON)], said.strip())
        finally:
            self._starting -= 1
            if hosted is not None:
                self._end_soon(hosted)

    async def _start(self) -> Hosted:
        hosted = Hosted(self._proxy, await start(self._command), self._limits)
        self._alive.add(hosted)
        hosted.life.add_done_callback(lambda _: self._alive.discard(hosted))
        return hosted

    def end(self, own: str) -> None:
        """End the session *own*, if it is there."""
        hosted = self._sessions.pop(own, None)
        if hosted is not None:
            self._end_soon(hosted)

    def _end_soon(self, hosted: Hosted) -> None:
        task = asyncio.create_task(hosted.end("the session has ended"))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    @property
    def idle(self) -> float:
        """Seconds after which a session that nobody uses is over."""
        return self._idle


class _Stay:
    """A visit to a session: while there is one, it is not idle."""

    def __init__(self, bridge: Bridge, own: str, hosted: Hosted) -> None:
        self._bridge, self._own, self._hosted = bridge, own, hosted

    def __enter__(self) -> None:
        self._hosted.visits += 1
        if self._hosted.timer is not None:
            self._hosted.timer.cancel()

    def __exit__(self, *_: object) -> None:
        self._hosted.visits -= 1
        if not self._hosted.visits:
            loop = asyncio.get_running_loop()
            self._hosted.timer = loop.call_later(self._bridge.idle, self._bridge.end, self._own)


async def _send(visit: Visit, stream: Stream, fields: Sequence[tuple[str, str]] = ()) -> None:
    lines = await stream.whole(visit)
    if lines is None:
        await stream.follow(visit, fields)
    else:
        await visit.answer(200, [("content-type", JSON), *fields], joined(lines))

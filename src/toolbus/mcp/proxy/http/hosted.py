"""A session of a client over HTTP with a process of its own, and where what that says goes."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.mcp.proxy.http.streams import Shelf, Stream, read_event_id
from toolbus.mcp.proxy.jsonrpc import REFUSED, error_frame, read_batch, read_frame, read_json
from toolbus.mcp.proxy.processes import FAILED, explain_end
from toolbus.mcp.proxy.revisions import HANDSHAKE, cancelled_id, params_of
from toolbus.mcp.proxy.session import ProxySession
from toolbus.mcp.proxy.sse import on_one_line

if TYPE_CHECKING:
    from toolbus.mcp.proxy.jsonrpc import Frame
    from toolbus.mcp.proxy.processes import Process
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.proxy.stdio import ProxyLimits

logger = logging.getLogger("toolbus")

_PRIMED = "2025-11-25"
"""Since this revision clients understand an event that only has an id."""

# What a session does for a request it does in that request's context, also much later.
_stream: ContextVar[Stream | None] = ContextVar("stream", default=None)


class Hosted:
    """A session, and *process*, which serves nobody else."""

    def __init__(self, proxy: Proxy, process: Process, limits: ProxyLimits) -> None:
        self._process, self._limits = process, limits
        self.session = ProxySession(proxy, self._say, process.write)
        self.version: str | None = None
        self.visits = 0
        self.timer: asyncio.TimerHandle | None = None
        self._shelf = Shelf(limits.frame)
        self._streams: dict[int, Stream] = {0: Stream(0, 0, self._shelf)}
        self._next = 1
        self._asked: dict[Any, Stream] = {}
        self._tokens: dict[Any, Stream] = {}
        self._ending = False
        self.life = asyncio.create_task(self._live())

    @property
    def standing(self) -> Stream:
        """The stream of what belongs to no request: a GET follows it."""
        return self._streams[0]

    def takes(self, version: str | None) -> bool:
        """Tell whether a request of this session may name the revision *version*."""
        return version is None or version in HANDSHAKE or version == self.version

    def ask(self, body: bytes) -> Stream | None:
        """Take what the client has posted; return the stream of answers, None if it wants none."""
        frame = read_frame(body)
        frames = [frame] if frame else [read_frame(one) for one in read_batch(body) or ()]
        requests = [one for one in frames if one is not None and one.is_request]
        stream = Stream(self._next, len(requests), self._shelf)
        stream.primed = self.standing.primed
        if requests:
            self._open(stream, requests)
        self._note_cancelled(frame)
        _stream.set(stream if requests else None)
        self.session.from_client(on_one_line(body) + b"\n", stream.answer)
        return stream if requests else None

    def resume(self, last: str) -> tuple[Stream, int] | None:
        """Return the stream that the event *last* was of, and its number; None: it is gone."""
        found = read_event_id(last)
        stream = None if found is None else self._streams.get(found[0])
        if found is None or stream is None or not stream.holds(found[1]):
            return None
        return stream, found[1]

    def began(self, answer: bytes) -> bool:
        """Learn from the *answer* to `initialize` which revision holds; False: there is none."""
        frame = read_frame(answer)
        if frame is None or frame.failed or frame.result is UNSET:
            return False
        match read_json(frame.result):
            case {"protocolVersion": str(version)}:
                self.version = version
        self.standing.primed = self.version is not None and self.version >= _PRIMED
        return True

    async def drain(self) -> None:
        """Wait until the process has read most of what it was sent."""
        if (full := self._process.drain()) is not None:
            await full

    async def end(self, reason: str = "") -> None:
        """End the process, and with it the session."""
        self.session.client_gone()
        if reason:
            self.session.server_gone(reason)
        self._shelf.close()
        await self._process.end(self._limits.grace)
        await asyncio.wait({self.life})

    async def _live(self) -> None:
        _stream.set(None)
        try:
            why = await self._process.lines(
                self._limits.frame, self.session.from_server, self._drain
            )
            if why:
                logger.error("the server is stopped: %s", why)
            code = await self._process.end(self._limits.grace, at_once=bool(why))
            self.session.server_gone(explain_end(code, why))
            await self.session.settle(self._limits.grace)
        except Exception:
            logger.exception("the session of a client cannot go on")
            self.session.server_gone(FAILED)
        finally:
            for stream in self._streams.values():
                stream.end()
            await self._process.kill()
            await self.session.close()

    async def _drain(self) -> None:
        await self._shelf.room(self._streams.values())

    # --- where it goes -------------------------------------------------------------------------

    def _open(self, stream: Stream, requests: list[Frame]) -> None:
        self._forget_ended()
        self._streams[self._next] = stream
        self._next += 1
        for one in requests:
            self._asked[one.id] = stream
            meta = params_of(one).get("_meta")
            token = meta.get("progressToken") if isinstance(meta, dict) else None
            if isinstance(token, str | int):
                self._tokens[token] = stream

    def _forget_ended(self) -> None:
        gone = {one for one in self._streams.values() if one.ended}
        if gone:
            self._asked = {key: one for key, one in self._asked.items() if one not in gone}
            self._tokens = {key: one for key, one in self._tokens.items() if one not in gone}
            kept = {key: one for key, one in self._streams.items() if one.keeps or not key}
            self._streams = kept

    def _note_cancelled(self, frame: Frame | None) -> None:
        own = cancelled_id(frame)
        stream = self._asked.get(own)
        if stream is not None and not stream.ended:
            # Of its answer, if one comes all the same, nobody wants to know.
            line = error_frame(own, REFUSED, "the request was cancelled")
            asyncio.get_running_loop().call_soon(stream.answer, line)

    def _say(self, line: bytes) -> None:
        stream = _stream.get()
        if stream is None or stream.ended or not stream.takes_events:
            stream = self._place(read_frame(line))
        stream.put(line)

    def _place(self, frame: Frame | None) -> Stream:
        """Return the stream on which the client gets *frame*, which answers nothing."""
        if frame is not None and frame.method == "notifications/progress":
            named = self._tokens.get(params_of(frame).get("progressToken"))
            if named is not None and not named.ended and named.takes_events:
                return named
        opened = [one for one in self._streams.values() if one.number and not one.ended]
        takers = [one for one in reversed(opened) if one.takes_events]
        method = "" if frame is None or frame.method is UNSET else frame.method
        general = method.endswith(("list_changed", "resources/updated"))
        if not takers or (general and self.standing.followed):
            return self.standing
        return takers[0]

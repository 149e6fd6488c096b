"""One request of a client on its way through a relay: to the server, and its answer back."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.mcp.proxy.http.forwarding import passed
from toolbus.mcp.proxy.http.responses import Response, as_error
from toolbus.mcp.proxy.http_connection import TransportError
from toolbus.mcp.proxy.jsonrpc import (
    SERVER_GONE,
    Frame,
    FrameTooLongError,
    error_frame,
    read_batch,
    read_frame,
)
from toolbus.mcp.proxy.processes import FAILED
from toolbus.mcp.proxy.revisions import cancelled_id, is_stateless, params_of
from toolbus.mcp.proxy.sse import nameless
from toolbus.tasks.eager import Begun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.mcp.proxy.http.clients import Client
    from toolbus.mcp.proxy.http.forwarding import Upstream
    from toolbus.mcp.proxy.http.visits import Visit
    from toolbus.mcp.proxy.http_client import HttpReply
    from toolbus.mcp.proxy.sse import Event

logger = logging.getLogger("toolbus")

_NO_ANSWER = "the server has ended its answer without one"
_LEGS = 16
"""How many requests of one visit are under way at the server at the same time."""

_OK, _ELSEWHERE, _BAD = 200, 300, 400


class Errand:
    """Carries *visit* to the server for *client*, and what comes of it back.

    The server's answer to it is the main one, of which the client gets status and headers.
    What the proxy asks in between, a list of tools or a call once more, goes its own way.
    """

    def __init__(self, visit: Visit, frame: Frame | None, client: Client, server: Upstream) -> None:
        self.visit, self.frame, self.client, self._server = visit, frame, client, server
        self.own = _requests(self.frame, visit.body)
        head = 400 if self.frame is None else 202, ()
        self._judged = client.session.judging
        self.response = Response(visit, head, len(self.own), judged=self._judged)
        self._turns = asyncio.Semaphore(_LEGS)
        self._legs: dict[Any, asyncio.Task[None]] = {}
        self._main: asyncio.Task[None] | None = None
        self._reading: dict[asyncio.Task[Any] | None, Event] = {}
        self._envelope: Event | None = None
        self._heir: Errand | None = None
        self._resumable = self._gone = self._begun = False

    @property
    def listens(self) -> bool:
        """Whether its answer goes on as long as the client likes."""
        method = None if self.frame is None else self.frame.method
        return self.visit.method == "GET" or method == "subscriptions/listen"

    async def run(self) -> None:
        """Answer the visit; being cancelled means that the client has gone."""
        try:
            if self.visit.method == "POST":
                # So that what goes on is known by being this, as long as no handler changes it.
                self.visit.body = self.client.session.as_judged(self.visit.body)
                self.client.session.from_client(self.visit.body, self.answer)
            else:
                self._start(None, self.visit.body)
            self.response.check()
            await self.response.send()
        finally:
            await self._leave()

    def cancel(self) -> None:
        """Expect no answer any more."""
        self.response.left = 0
        self.response.check()

    def end(self) -> None:
        """Have the answer end as it is."""
        self.cancel()
        if self._main is not None:
            self._main.cancel()

    # --- what the session sends ----------------------------------------------------------------

    def to_server(self, line: bytes) -> None:
        """Send a line of the session to the server."""
        frame = read_frame(line)
        if (cancelled := cancelled_id(frame)) is not UNSET and is_stateless(self.visit.headers):
            # There the end of the connection is what cancels.
            if (leg := self._legs.get(cancelled)) is not None:
                leg.cancel()
        elif not (self._gone and not self.client.kept):
            self._start(frame, line)

    def to_client(self, line: bytes) -> None:
        """Send the client what is no answer to it."""
        self.response.say(line, self._reading.pop(asyncio.current_task(), None))

    def answer(self, line: bytes) -> None:
        """Send the client an answer to what it asked."""
        if self._heir is not None:
            self._heir.inherit(line, self._envelope)
        elif not self._gone:
            self.inherit(line, self._envelope)

    def inherit(self, line: bytes, event: Event | None) -> None:
        """Send an answer that came with *event*; the client may ask for it again."""
        if event is not None and event.id is not None:
            self.client.remember(read_frame(line), line)
        self.response.answer(line, event)

    def bequeath(self, heir: Errand, event: Event) -> None:
        """Have *heir* send the answer that came with *event*: our client asks for it there."""
        self._heir, self._envelope = heir, event
        heir.response.left += 1

    # --- what the server sends -----------------------------------------------------------------

    def _start(self, frame: Frame | None, line: bytes) -> None:
        asked = frame.id if frame is not None and frame.is_request else None
        # A batch of which nothing is judged is one request; what the proxy asks by itself is none.
        single = frame is not None and bool(self.own)
        first = not self._begun and (asked in self.own or not single)
        if first:
            self._begun, self.response.over = True, False
        task = Begun(self._fetch(frame, line, first=first), alone=True).task
        self._legs[object() if asked is None else asked] = task
        if first:
            self._main = task

    async def _fetch(self, frame: Frame | None, line: bytes, *, first: bool) -> None:
        try:
            async with self._turns:
                problem = await self._passed(frame, line, first=first)
            await self._close_open(frame, problem, first=first)
        except Exception as error:  # noqa: BLE001 - whoever waits for an answer raises it
            self.response.break_off(error)
        finally:
            if first:
                self.response.over = True
                self.response.check()

    async def _passed(self, frame: Frame | None, line: bytes, *, first: bool) -> str:
        """Return why there is no answer, if there is none."""
        try:
            schema = None if line is self.visit.body else self._schema(frame)
            judged = self._judged
            reply = await self._server.send(self.visit, frame, line, schema, judged=judged)
            try:
                if reply.is_coded and judged:
                    raise TransportError("the server compressed its answer, so nobody can judge it")
                if first:
                    self.client.met(self, reply)
                if reply.is_coded:
                    return await self._pass_coded(reply)
                if reply.is_stream and reply.status == _OK:
                    return await self._take_stream(frame, reply, first=first)
                return await self._take_body(frame, reply, first=first)
            finally:
                reply.close()
        except (TransportError, FrameTooLongError) as error:
            problem = str(error)
        except Exception:
            logger.exception("what the server said could not be taken")
            problem = FAILED
        if first:
            self.response.fail()
        return problem

    def _schema(self, frame: Frame | None) -> Mapping[str, Any] | None:
        name = params_of(frame).get("name")
        return self.client.session.schema(name) if isinstance(name, str) else None

    async def _take_stream(self, frame: Frame | None, reply: HttpReply, *, first: bool) -> str:
        if first:
            self.response.begin((reply.status, passed(reply.fields)))
        asked = first or (frame is not None and frame.id in self.own)
        async for event in reply.events(self._server.limits.frame):
            self._resumable = self._resumable or (asked and event.id is not None)
            # What the proxy has asked for by itself the client cannot resume.
            await self._take_event(event if asked else nameless(event))
            await self.visit.room()
        return _NO_ANSWER

    async def _pass_coded(self, reply: HttpReply) -> str:
        """Pass on a body in which nobody can look for answers."""
        self.response.left = 0
        self.response.begin((reply.status, passed(reply.fields)))
        async for piece in reply.pieces():
            self.visit.put(piece)
            await self.visit.room()
        return _NO_ANSWER

    async def _take_event(self, event: Event) -> None:
        frame = read_frame(event.data) if event.data else None
        if not event.data:
            self.response.put(b"", event)
        elif frame is not None and frame.is_answer:
            await self._take_answer(frame, event)
        else:
            reader = asyncio.current_task()
            self._reading[reader] = event
            await self.client.session.from_server(event.data)
            if self._reading.pop(reader, None) is not None:
                # It was withheld, but where the stream goes on the client has to know.
                self.response.put(b"", event)

    async def _take_answer(self, frame: Frame, event: Event) -> None:
        session, open_ = self.client.session, self.client.session.is_open(frame.id)
        if frame.id in self.own:
            self._envelope = event
        elif open_ and (owner := self.client.orphans.pop(frame.id, None)) is not None:
            owner.bequeath(self, event)
        elif not open_ and (line := self.client.recall(frame.id)) is not None:
            self.response.put(line, event)
            return
        elif not open_ and not session.judging:
            self.response.put(event.data or b"", event)
            return
        await session.from_server(event.data or b"")

    async def _take_body(self, frame: Frame | None, reply: HttpReply, *, first: bool) -> str:
        status, body = reply.status, await reply.body(self._server.limits.frame)
        if _ELSEWHERE <= status < _BAD:
            raise TransportError(
                "the server is elsewhere; give the proxy the address that it means"
            )
        said = read_frame(body)
        own = frame.id if frame is not None and frame.is_request else None
        answers = own is not None and said is not None and said.is_answer and said.id == own
        asked = own is not None or (frame is None and bool(self.own))
        whole = answers or (asked and status < _BAD)
        line = body if whole else as_error(own, said, body, status)
        if first:
            self.response.head = status, passed(reply.fields)
            self.response.came = line, body
        if whole or body:
            await self.client.session.from_server(line)
        if whole:
            return _NO_ANSWER if answers else "the server's answer is no JSON-RPC"
        return f"the server answered with HTTP status {status}"

    async def _close_open(self, frame: Frame | None, problem: str, *, first: bool) -> None:
        session, response = self.client.session, self.response
        if frame is not None and frame.is_request:
            if not session.is_open(frame.id):
                return
            if first and self._resumable and response.streams:
                self.client.orphans[frame.id] = self
                response.left -= 1
            else:
                await session.from_server(error_frame(frame.id, SERVER_GONE, problem))
        elif first:
            if frame is None and self.own:
                # What of a batch has no answer by now gets none.
                response.left = 0
            if response.failed:
                response.fail(error_frame(None, SERVER_GONE, problem))

    async def _leave(self) -> None:
        self._gone = True
        legs = [one for one in self._legs.values() if not one.done()]
        for leg in legs:
            leg.cancel()
        if legs:
            await asyncio.wait(legs)
        await self.client.left(self, resumable=self._resumable)
        self._forget()

    def _forget(self) -> None:
        """Let go of what was said: timers hold the context they were made in, and that holds us."""
        self.visit.body, self.frame, self._envelope = b"", None, None
        self._legs.clear()
        self._main = None
        self.response.forget()


def _requests(frame: Frame | None, body: bytes) -> list[Any]:
    """Return the ids of what wants an answer."""
    if frame is not None:
        return [frame.id] if frame.is_request else []
    frames = [read_frame(one) for one in read_batch(body) or ()]
    return [one.id for one in frames if one is not None and one.is_request]

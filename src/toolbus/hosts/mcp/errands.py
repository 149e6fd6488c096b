"""One request of a client on its way through a relay: to the server, and its answer back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw

from toolbus.hosts.mcp.forwarding import passed
from toolbus.hosts.mcp.frames import (
    SERVER_GONE,
    Frame,
    FrameTooLongError,
    error_frame,
    read_batch,
    read_frame,
    write_frame,
)
from toolbus.hosts.mcp.revisions import cancelled_id, is_stateless
from toolbus.hosts.mcp.sse import on_one_line, rewrite_event, write_event
from toolbus.hosts.mcp.visits import JSON, STREAM_FIELDS
from toolbus.hosts.mcp.wire import WireError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.hosts.mcp.clients import Client
    from toolbus.hosts.mcp.forwarding import Upstream
    from toolbus.hosts.mcp.sse import Event
    from toolbus.hosts.mcp.visits import Visit
    from toolbus.hosts.mcp.wire import Reply

    Fields = Sequence[tuple[str, str]]

_NO_ANSWER = "the server has ended its answer without one"


class Errand:
    """Carries *visit* to the server for *client*, and what comes of it back.

    The server's answer to it is the *main* one, of which the client gets status and headers.
    What the proxy asks in between, a list of tools or a call once more, goes its own way.
    """

    def __init__(self, visit: Visit, client: Client, server: Upstream) -> None:
        self.visit, self.client, self._server = visit, client, server
        self.frame = read_frame(visit.body) if visit.method == "POST" else None
        self.own = _requests(self.frame, visit.body)
        self._left = len(self.own)
        self._legs: dict[Any, asyncio.Task[None]] = {}
        self._main: asyncio.Task[None] | None = None
        self._reading: dict[asyncio.Task[Any] | None, Event] = {}
        self._ready, self._streams, self._over = asyncio.Event(), False, True
        self._head: tuple[int, Fields] = (202, ()) if self.frame else (400, ())
        self._line: bytes | None = None
        self._came: tuple[bytes, bytes] | None = None
        self._envelope: Event | None = None
        self._heir: Errand | None = None
        self._resumable = self.gone = False

    @property
    def status(self) -> int:
        """The HTTP status of the server's answer."""
        return self._head[0]

    @property
    def listens(self) -> bool:
        """Whether its answer goes on as long as the client likes."""
        method = None if self.frame is None else self.frame.method
        return self.visit.method == "GET" or method == "subscriptions/listen"

    async def run(self) -> None:
        """Answer the visit; being cancelled means that the client has gone."""
        try:
            if self.visit.method == "POST":
                self.client.session.from_client(self.visit.body, self.answer)
            else:
                self._start(None, self.visit.body)
            self._check()
            await self._ready.wait()
            if self._streams:
                await self.visit.begin(*self._head)
                await self.visit.flow()
            else:
                await self.visit.answer(*self._whole())
        finally:
            await self._leave()

    # --- what the session sends ----------------------------------------------------------------

    def to_server(self, line: bytes) -> None:
        """Send a line of the session to the server."""
        frame = read_frame(line)
        if (cancelled := cancelled_id(frame)) is not UNSET and is_stateless(self.visit.headers):
            # There the end of the connection is what cancels.
            if (leg := self._legs.get(cancelled)) is not None:
                leg.cancel()
        elif not (self.gone and not self.client.kept):
            self._start(frame, line)

    def to_client(self, line: bytes) -> None:
        """Send the client what is no answer to it."""
        event = self._reading.pop(asyncio.current_task(), None)
        if self._came is not None and not self._streams:
            self._line = line
        else:
            self._begin_stream((200, STREAM_FIELDS))
            self._put(line, event)

    def answer(self, line: bytes) -> None:
        """Send the client an answer to what it asked."""
        if self._heir is not None:
            self._heir.inherit(line, self._envelope)
        elif self.gone:
            return
        else:
            batch = read_batch(line)
            self._left -= 1 if batch is None else len(batch)
            if self._streams:
                self._put_answer(line, self._envelope)
            else:
                self._line = line
            self._check()

    def inherit(self, line: bytes, event: Event | None) -> None:
        """Send the client an answer to what it had asked on another connection."""
        self._left -= 1
        self._put_answer(line, event)
        self._check()

    def bequeath(self, heir: Errand, event: Event) -> None:
        """Have *heir* send the answer that came with *event*: our client asks for it there."""
        self._heir, self._envelope = heir, event

    def cancel(self) -> None:
        """Expect no answer any more."""
        self._left = 0
        self._check()

    def end(self) -> None:
        """Have the answer end as it is."""
        self.cancel()
        if self._main is not None:
            self._main.cancel()

    # --- what the server sends -----------------------------------------------------------------

    def _start(self, frame: Frame | None, line: bytes) -> None:
        asked = frame.id if frame is not None and frame.is_request else None
        first = self._main is None and (line is self.visit.body or asked in self.own)
        task = asyncio.create_task(self._fetch(frame, line, first=first))
        self._legs[object() if asked is None else asked] = task
        if first:
            self._main, self._over = task, False

    async def _fetch(self, frame: Frame | None, line: bytes, *, first: bool) -> None:
        try:
            problem = await self._passed(frame, line, first=first)
            await self._close_open(frame, problem, first=first)
        finally:
            if first:
                self._over = True
                self._check()

    async def _passed(self, frame: Frame | None, line: bytes, *, first: bool) -> str:
        """Return why there is no answer, if there is none."""
        try:
            reply = await self._server.send(self.visit, frame, line)
            try:
                if first:
                    self.client.met(self, reply)
                if reply.is_stream and reply.status == 200:  # noqa: PLR2004 - HTTP's
                    return await self._take_stream(reply, first=first)
                return await self._take_body(frame, reply, first=first)
            finally:
                reply.close()
        except (WireError, FrameTooLongError) as error:
            if first and not self._streams:
                self._head = (502, ())
            return str(error)

    async def _take_stream(self, reply: Reply, *, first: bool) -> str:
        if first:
            self._begin_stream((reply.status, passed(reply.fields)))
        async for event in reply.events(self._server.limits.frame):
            self._resumable = self._resumable or event.id is not None
            await self._take_event(event)
            await self.visit.room()
        return _NO_ANSWER

    async def _take_event(self, event: Event) -> None:
        frame = read_frame(event.data)
        if not event.data:
            self._put(b"", event)
        elif frame is not None and frame.is_answer:
            await self._take_answer(frame, event)
        else:
            reader = asyncio.current_task()
            self._reading[reader] = event
            await self.client.session.from_server(event.data)
            if self._reading.pop(reader, None) is not None:
                # It was withheld, but where the stream goes on the client has to know.
                self._put(b"", event)

    async def _take_answer(self, frame: Frame, event: Event) -> None:
        session, open_ = self.client.session, self.client.session.is_open(frame.id)
        if frame.id in self.own:
            self._envelope = event
        elif open_ and (owner := self.client.orphans.pop(frame.id, None)) is not None:
            owner.bequeath(self, event)
            self._left += 1
        elif not open_ and (line := self.client.recall(frame.id)) is not None:
            self._put(line, event)
            return
        elif not open_ and not session.judging:
            self._put(event.data, event)
            return
        await session.from_server(event.data)

    async def _take_body(self, frame: Frame | None, reply: Reply, *, first: bool) -> str:
        status, body = reply.status, await reply.body(self._server.limits.frame)
        if 300 <= status < 400:  # noqa: PLR2004 - HTTP's
            raise WireError("the server is elsewhere; give the proxy the address that it means")
        said = read_frame(body)
        if first:
            self._head = (status, passed(reply.fields))
            self._came = body, body
        own = frame.id if frame is not None and frame.is_request else None
        answers = own is not None and said is not None and said.is_answer and said.id == own
        asked = own is not None or (frame is None and self.own)
        if answers or (asked and status < 400):  # noqa: PLR2004 - as above
            await self.client.session.from_server(body)
            return _NO_ANSWER if answers else "the server's answer is no JSON-RPC"
        if body:
            line = _as_error(own, said, body, status)
            if first:
                self._came = line, body
            await self.client.session.from_server(line)
        return f"the server answered with HTTP status {status}"

    async def _close_open(self, frame: Frame | None, problem: str, *, first: bool) -> None:
        session = self.client.session
        if frame is not None and frame.is_request:
            if not session.is_open(frame.id):
                return
            if first and self._resumable and self._streams:
                self.client.orphans[frame.id] = self
                self._left -= 1
            else:
                await session.from_server(error_frame(frame.id, SERVER_GONE, problem))
        elif first and self._head[0] == 502 and not self._streams:  # noqa: PLR2004 - HTTP's
            self._line = error_frame(None, SERVER_GONE, problem)

    # --- what the client gets ------------------------------------------------------------------

    def _begin_stream(self, head: tuple[int, Fields]) -> None:
        if not self._ready.is_set():
            self._streams, self._head = True, head
            self._ready.set()

    def _put(self, line: bytes, event: Event | None) -> None:
        if event is None:
            self.visit.put(write_event(on_one_line(line)))
        elif line == event.data and not (self.client.session.judging and event.comments):
            self.visit.put(event.raw)
        elif line or event.bare:
            self.visit.put(rewrite_event(event, on_one_line(line)))
        else:
            self.visit.put(b":\n\n")

    def _put_answer(self, line: bytes, event: Event | None) -> None:
        if event is not None and event.id is not None:
            # The client may ask for it again, and the server say it again.
            self.client.remember(read_frame(line), line)
        self._put(line, event)

    def _check(self) -> None:
        if self._left > 0 or not self._over:
            return
        if self._streams:
            self.visit.finish()
        self._ready.set()

    def _whole(self) -> tuple[int, Fields, bytes]:
        """Return the answer as it came, or as the session left it."""
        (status, fields), line = self._head, self._line
        came, body = self._came or (b"", b"")
        if line is None or line == came:
            return status, fields, body
        said = read_frame(line)
        if self.own and not (said is not None and said.failed and status >= 400):  # noqa: PLR2004
            status = 200
        kept = [one for one in fields if one[0].lower() != "content-type"]
        return status, [*kept, ("content-type", JSON)], line.strip()

    async def _leave(self) -> None:
        self.gone = True
        legs = [one for one in self._legs.values() if not one.done()]
        for leg in legs:
            leg.cancel()
        if legs:
            await asyncio.wait(legs)
        await self.client.left(self, resumable=self._resumable)


def _requests(frame: Frame | None, body: bytes) -> list[Any]:
    """Return the ids of what wants an answer."""
    if frame is not None:
        return [frame.id] if frame.is_request else []
    frames = [read_frame(one) for one in read_batch(body) or ()]
    return [one.id for one in frames if one is not None and one.is_request]


def _as_error(own: Any, said: Frame | None, body: bytes, status: int) -> bytes:
    """Return *body*, which answers nothing, as an error: so handlers see every text."""
    if said is not None and said.failed:
        return write_frame(id=own, error=Raw(said.error if said.error is not UNSET else b"null"))
    text = body.decode(errors="replace")
    return write_frame(id=own, error={"code": SERVER_GONE, "message": text, "data": status})

"""One request of a client on its way through a relay: to the server, and its answer back.

See MCP 2025-11-25, Transports, "Sending Messages to the Server", "Listening for Messages from the
Server", and "Resumability and Redelivery".
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from toolbus.errors import ToolbusError
from toolbus.http.client import TransportError
from toolbus.mcp.http.failures import failure_of
from toolbus.mcp.http.relayed_response import RelayedResponse
from toolbus.mcp.http.requests import requests_in
from toolbus.mcp.protocol.canonical import Refusal, from_client
from toolbus.mcp.protocol.jsonrpc import (
    SERVER_GONE,
    Frame,
    error_frame,
    read_frame,
    write_frame,
)
from toolbus.mcp.protocol.revisions import LISTEN, cancelled_id, is_stateless, params_of
from toolbus.mcp.session.request_table import Channels
from toolbus.mcp.transport.json_lines import read_body
from toolbus.mcp.transport.processes import PROXY_FAILED
from toolbus.mcp.transport.sse import read_events, without_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from toolbus.http.client import HttpReply
    from toolbus.http.server import HttpRequest
    from toolbus.mcp.http.clients import Client
    from toolbus.mcp.http.upstream import Upstream
    from toolbus.mcp.transport.sse import Event

_NO_ANSWER = "the server's HTTP response ended without a JSON-RPC response"
_EXCHANGE_LIMIT = 16
"""How many requests for one request of a client are under way at the server at the same time."""

_OK, _ELSEWHERE, _BAD = 200, 300, 400


class _Exchange(NamedTuple):
    """A request to the server: *line*, which is *frame*.

    *request_id* is the JSON-RPC id, `UNSET` for what is no request. The answer to the *main* one
    gives the client status and headers. If it is *asked*, the client wants its answer; otherwise
    the proxy does, or nobody.
    """

    frame: Frame | None
    line: bytes
    request_id: Any
    main: bool
    asked: bool


class RelayedRequest:
    """Takes *request* to the server for *client*, judged, and what comes of it back.

    It may become several requests to the server: those of a batch, and what the proxy asks in
    between, a list of tools or a call once more.
    """

    def __init__(
        self, request: HttpRequest, frame: Frame | None, client: Client, server: Upstream
    ) -> None:
        self.request, self.frame, self.client, self._server = request, frame, client, server
        self.ids = [part.id for part in requests_in(frame, request.body)]
        owed = client.session.owed(request.body) if frame is None and request.body else self.ids
        self.response = RelayedResponse(
            request, 400 if frame is None else 202, owed, in_array=frame is None
        )
        self._channels = Channels(self.response.say, self._to_server, self.answer)
        self._slots = asyncio.Semaphore(_EXCHANGE_LIMIT)
        self._tasks: dict[Any, asyncio.Task[None]] = {}
        self._main: asyncio.Task[None] | None = None
        # By request id, since the session takes its time for each answer.
        self._answer_events: dict[Any, Event] = {}
        self._successor: RelayedRequest | None = None
        self._resumable = self._gone = False
        # The line that goes on if no handler changes it: of that the client's headers are right.
        self._unchanged = b""

    @property
    def listens(self) -> bool:
        """Whether its answer goes on as long as the client likes."""
        listens = self.frame is not None and self.frame.method == LISTEN
        return listens or self.request.method == "GET"

    async def run(self) -> None:
        """Answer the request; being cancelled means that the client has gone."""
        try:
            if self.request.method == "POST":
                if is_stateless(self.request.headers):
                    canonical = from_client(self.request.body)
                    self._unchanged = b"" if isinstance(canonical, Refusal) else canonical.line
                self.client.session.from_client(self.request.body, self._channels)
            else:
                self._start(None, b"")
            self.response.end_if_complete()
            await self.response.send()
        finally:
            await self._leave()

    def cancel(self, request_id: Any) -> None:
        """Expect the answer to *request_id* no more."""
        self.response.answered(request_id)

    def end(self) -> None:
        """Have the answer end as it is."""
        self.response.expect_nothing()
        if self._main is not None:
            self._main.cancel()

    # --- what the session sends ----------------------------------------------------------------

    def _to_server(self, line: bytes) -> None:
        frame = read_frame(line)
        cancelled = cancelled_id(frame)
        if cancelled is not UNSET and is_stateless(self.request.headers):
            # MCP 2026-07-28, Transports: the end of the connection is what cancels.
            if (task := self._tasks.get(cancelled)) is not None:
                task.cancel()
        elif self.client.is_known or not self._gone:
            self._start(frame, line)

    def answer(self, line: bytes) -> None:
        """Send the client an answer to what it asked."""
        if self._successor is not None or not self._gone:
            (self._successor or self).send_answer(line, self._event_of(line))

    def send_answer(self, line: bytes, event: Event | None) -> None:
        """Send an answer that came with *event*; the client may ask for it again."""
        if event is not None and event.id is not None:
            self.client.remember(line)
        self.response.answer(line, event)

    def _event_of(self, line: bytes) -> Event | None:
        """Return the event in which the server sent an answer; of a batch the last one."""
        events = self._answer_events
        frame = read_frame(line) if events else None
        if frame is None:
            return events.popitem()[1] if events else None
        return events.pop(frame.id, None)

    def reattach(self, successor: RelayedRequest, request_id: Any, event: Event) -> None:
        """Have *successor* send the answer to *request_id*, which came with *event*.

        It is the GET by which a client resumes a lost stream: see "Resumability and Redelivery".
        """
        self._successor, self._answer_events[request_id] = successor, event
        successor.response.expect(request_id)

    # --- what the server sends -----------------------------------------------------------------

    def _start(self, frame: Frame | None, line: bytes) -> None:
        """Send *line* to the server, in a task of its own."""
        request_id = frame.id if frame is not None and frame.is_request else UNSET
        # The first request of the client is the main one, or else the first thing that it says.
        main = self._main is None and (not self.ids or request_id == self.ids[0])
        exchange = _Exchange(frame, line, request_id, main, main or request_id in self.ids)
        task = asyncio.create_task(self._exchange(exchange))
        self._tasks[object() if request_id is UNSET else request_id] = task
        if main:
            self._main = task
            self.response.begin_exchange()
            # Not in its `finally`, which a task that is cancelled before it begins never enters.
            task.add_done_callback(lambda _: self.response.end_exchange())

    async def _exchange(self, exchange: _Exchange) -> None:
        """Send a request to the server, take what it says, and answer what it leaves open."""
        try:
            async with self._slots:
                problem = await failure_of(self._send(exchange))
            await self._answer_open(exchange, problem)
        except Exception as error:  # noqa: BLE001 - whoever waits for an answer raises it
            self.response.break_off(error)

    async def _send(self, exchange: _Exchange) -> str:
        """Send a request, and take the answer; return why a request in it has none."""
        try:
            schema, is_changed = None, exchange.line != self._unchanged
            if is_changed:
                schema = self.client.session.schema(str(params_of(exchange.frame).get("name", "")))
            reply = await self._server.send_judged(
                self.request, exchange.frame, exchange.line, schema, is_changed=is_changed
            )
            try:
                return await self._take(exchange, reply)
            finally:
                reply.close()
        except Exception as error:
            if exchange.main:
                answers = exchange.request_id is not UNSET
                reason = str(error) if isinstance(error, ToolbusError) else PROXY_FAILED
                self.response.fail(b"" if answers else error_frame(None, SERVER_GONE, reason))
            raise

    async def _take(self, exchange: _Exchange, reply: HttpReply) -> str:
        if reply.is_coded:
            raise TransportError("the server compressed its answer, so nobody can judge it")
        if exchange.main:
            self.client.learn_id(self, reply)
        limit = self._server.limits.frame
        if reply.is_stream and reply.status == _OK:
            await self._take_stream(exchange, reply, read_events(reply, limit))
            return _NO_ANSWER
        body = await read_body(reply, exchange.frame, limit)
        if not isinstance(body, bytes):
            await self._take_stream(exchange, reply, body)
            return _NO_ANSWER
        return await self._take_body(exchange, reply, body)

    async def _take_stream(
        self, exchange: _Exchange, reply: HttpReply, events: AsyncIterator[Event]
    ) -> None:
        if exchange.main:
            self.response.begin_stream(reply.status, self._server.answered(self.request, reply))
        async for event in events:
            self._resumable = self._resumable or (exchange.asked and event.id is not None)
            # What the proxy has asked for by itself the client cannot resume.
            await self._take_event(event if exchange.asked else without_id(event))
            await self.response.wait_for_room()

    async def _take_event(self, event: Event) -> None:
        frame = read_frame(event.data) if event.data else None
        if not event.data:
            self.response.put(b"", event)
        elif frame is not None and frame.is_response:
            await self._take_answer(frame, event)
        else:
            envelope: list[Event] = [event]

            def to_client(line: bytes) -> None:
                self.response.say(line, envelope.pop() if envelope else None)

            channels = Channels(to_client, self._to_server)
            await self.client.session.from_server(event.data, channels)
            if envelope:
                # It was withheld, but where the stream goes on the client has to know.
                self.response.put(b"", event)

    async def _take_answer(self, frame: Frame, event: Event) -> None:
        client, session = self.client, self.client.session
        if frame.id in self.ids:
            self._answer_events[frame.id] = event
        elif session.is_open(frame.id):
            detached = client.detached.pop(frame.id, None)
            if detached is not None:
                detached.reattach(self, frame.id, event)
        elif (line := client.recall(frame.id)) is not None:
            self.response.put(line, event)
            return
        await session.from_server(event.data or b"", self._channels)

    async def _take_body(self, exchange: _Exchange, reply: HttpReply, body: bytes) -> str:
        status = reply.status
        if _ELSEWHERE <= status < _BAD:
            raise TransportError("the server redirected; configure its new URL")
        answer = read_frame(body)
        wanted = exchange.request_id
        is_response = answer is not None and answer.is_response and answer.id == wanted
        is_whole = is_response or (wanted is not UNSET and status < _BAD)
        if exchange.main:
            self.response.begin_body(status, self._server.answered(self.request, reply))
        if is_whole or body:
            line = body if is_whole else _as_error(wanted, answer, body, status)
            await self.client.session.from_server(line, self._channels)
        if is_whole:
            return _NO_ANSWER if is_response else "the server's answer is no JSON-RPC"
        return f"the server answered with HTTP status {status}"

    async def _answer_open(self, exchange: _Exchange, problem: str) -> None:
        """Answer what the server has left open, unless the client may resume it."""
        request_id = exchange.request_id
        if request_id is UNSET or not self.client.session.is_open(request_id):
            return
        if exchange.main and self._resumable and self.response.is_stream:
            self.client.detached[request_id] = self
            self.response.answered(request_id)
        else:
            line = error_frame(request_id, SERVER_GONE, problem)
            await self.client.session.from_server(line, self._channels)

    async def _leave(self) -> None:
        self._gone = True
        running = [task for task in self._tasks.values() if not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        await self.client.leave(self, resumable=self._resumable)
        # What is detached lives as long as its session, and the rest until the collector comes.
        self.request.body, self.frame, self._unchanged = b"", None, b""


def _as_error(request_id: Any, answer: Frame | None, body: bytes, status: int) -> bytes:
    """Return *body*, read as *answer*, as the error to *request_id*: so handlers see every text."""
    request_id = None if request_id is UNSET else request_id
    if answer is not None and answer.failed:
        return write_frame(id=request_id, error=answer.error)
    text = body.decode(errors="replace")
    return write_frame(id=request_id, error={"code": SERVER_GONE, "message": text, "data": status})

"""One request of a client through a relay: to the server, and the response back.

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
from toolbus.mcp.protocol.jsonrpc import SERVER_GONE, Frame, error_frame, read_frame, write_frame
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
"""The number of concurrent requests to the server for one request of a client."""

_OK, _REDIRECT, _BAD = 200, 300, 400


class _Exchange(NamedTuple):
    """An HTTP request to the server with *line*, decoded as *frame*.

    *request_id* is the JSON-RPC id, `UNSET` if the frame is not a request. The client gets status
    and headers of the *main* exchange. The response goes to the client if *asked*, else to the
    proxy.
    """

    frame: Frame | None
    line: bytes
    request_id: Any
    main: bool
    asked: bool


class RelayedRequest:
    """The relay of *request* of *client*, through the handlers, and of its response.

    One request may cause several to the server: those of a batch, and the proxy's own, for a list
    of tools or a repeated call.
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
        self._channels = Channels(self.response.send_message, self._to_server, self.answer)
        self._slots = asyncio.Semaphore(_EXCHANGE_LIMIT)
        self._tasks: dict[Any, asyncio.Task[None]] = {}
        self._main: asyncio.Task[None] | None = None
        # By request id, because the session may answer in another order.
        self._answer_events: dict[Any, Event] = {}
        self._successor: RelayedRequest | None = None
        self._resumable = self._gone = False
        # The request's line in canonical form: the client's headers repeat it correctly.
        self._unchanged = b""

    @property
    def is_standing(self) -> bool:
        """Whether the response stays open until the client closes it."""
        is_standing = self.frame is not None and self.frame.method == LISTEN
        return is_standing or self.request.method == "GET"

    async def run(self) -> None:
        """Answer the request; a cancellation means that the client is gone."""
        try:
            if self.request.method == "POST":
                stateless, body = is_stateless(self.request.headers), self.request.body
                canonical = from_client(body) if stateless else None
                frame = None if isinstance(canonical, Refusal) else canonical
                if frame is not None:
                    self._unchanged = frame.line
                self.client.session.from_client(body, self._channels, frame)
            else:
                self._start(None, b"")
            self.response.end_if_complete()
            await self.response.send()
        finally:
            await self._leave()

    def cancel(self, request_id: Any) -> None:
        """Stop waiting for the response to *request_id*."""
        self.response.settle(request_id)

    def end(self) -> None:
        """End the response as it is."""
        self.response.expect_nothing()
        if self._main is not None:
            self._main.cancel()

    # --- lines of the session ------------------------------------------------------------------

    def _to_server(self, line: bytes) -> None:
        frame = read_frame(line)
        cancelled = cancelled_id(frame)
        if cancelled is not UNSET and is_stateless(self.request.headers):
            # MCP 2026-07-28, Transports: closing the connection cancels a request.
            if (task := self._tasks.get(cancelled)) is not None:
                task.cancel()
        elif self.client.is_known or not self._gone:
            self._start(frame, line)

    def answer(self, line: bytes) -> None:
        """Send the client a response."""
        if self._successor is not None or not self._gone:
            (self._successor or self).send_answer(line, self._event_of(line))

    def send_answer(self, line: bytes, event: Event | None) -> None:
        """Send a response received in *event*, and keep it for a resumption."""
        if event is not None and event.id is not None:
            self.client.remember(line)
        self.response.answer(line, event)

    def _event_of(self, line: bytes) -> Event | None:
        """Return the event of the server's response in *line*, the last one for a batch."""
        events = self._answer_events
        frame = read_frame(line) if events else None
        if frame is None:
            return events.popitem()[1] if events else None
        return events.pop(frame.id, None)

    def reattach(self, successor: RelayedRequest, request_id: Any, event: Event) -> None:
        """Have *successor* send the response to *request_id*, received in *event*.

        The successor is the GET that resumes a lost stream: see "Resumability and Redelivery".
        """
        self._successor, self._answer_events[request_id] = successor, event
        successor.response.expect(request_id)

    # --- exchanges with the server -------------------------------------------------------------

    def _start(self, frame: Frame | None, line: bytes) -> None:
        """Start an exchange for *line*, in a task of its own."""
        request_id = frame.id if frame is not None and frame.is_request else UNSET
        # The main exchange is for the client's first request, or its first frame without one.
        main = self._main is None and (not self.ids or request_id == self.ids[0])
        exchange = _Exchange(frame, line, request_id, main, main or request_id in self.ids)
        task = asyncio.create_task(self._exchange(exchange))
        self._tasks[object() if request_id is UNSET else request_id] = task
        if main:
            self._main = task
            self.response.begin_exchange()
            # A callback, because a task cancelled before it starts never enters its `finally`.
            task.add_done_callback(lambda _: self.response.end_exchange())

    async def _exchange(self, exchange: _Exchange) -> None:
        """Run an exchange, and answer the request if the server has not."""
        try:
            async with self._slots:
                problem = await failure_of(self._send(exchange))
            await self._answer_open(exchange, problem)
        except Exception as error:  # noqa: BLE001 - raised where the response is sent
            self.response.break_off(error)

    async def _send(self, exchange: _Exchange) -> str:
        """Send the request and take the reply; return the error text for an unanswered request."""
        try:
            schema, is_changed = None, exchange.line != self._unchanged
            if is_changed:
                schema = self.client.session.schema(str(params_of(exchange.frame).get("name", "")))
            reply = await self._server.send_judged(
                self.request, exchange.frame, exchange.line, schema, is_changed=is_changed
            )
            try:
                return await self._receive(exchange, reply)
            finally:
                reply.close()
        except Exception as error:
            if exchange.main:
                answers = exchange.request_id is not UNSET
                reason = str(error) if isinstance(error, ToolbusError) else PROXY_FAILED
                self.response.fail(b"" if answers else error_frame(None, SERVER_GONE, reason))
            raise

    async def _receive(self, exchange: _Exchange, reply: HttpReply) -> str:
        if reply.is_coded:
            raise TransportError("the server compressed its response, which handlers cannot read")
        if exchange.main:
            self.client.learn_id(self, reply)
        limit = self._server.limits.frame
        if reply.is_stream and reply.status == _OK:
            await self._receive_stream(exchange, reply, read_events(reply, limit))
            return _NO_ANSWER
        body = await read_body(reply, exchange.frame, limit)
        if not isinstance(body, bytes):
            await self._receive_stream(exchange, reply, body)
            return _NO_ANSWER
        return await self._receive_body(exchange, reply, body)

    async def _receive_stream(
        self, exchange: _Exchange, reply: HttpReply, events: AsyncIterator[Event]
    ) -> None:
        if exchange.main:
            self.response.begin_stream(
                reply.status, self._server.response_fields(self.request, reply)
            )
        async for event in events:
            self._resumable = self._resumable or (exchange.asked and event.id is not None)
            # The client cannot resume a stream of the proxy's own request.
            await self._receive_event(event if exchange.asked else without_id(event))
            await self.response.wait_for_room()

    async def _receive_event(self, event: Event) -> None:
        frame = read_frame(event.data) if event.data else None
        if not event.data:
            self.response.append(b"", event)
        elif frame is not None and frame.is_response:
            await self._receive_response(frame, event)
        else:
            envelope: list[Event] = [event]

            def to_client(line: bytes) -> None:
                self.response.send_message(line, envelope.pop() if envelope else None)

            channels = Channels(to_client, self._to_server)
            await self.client.session.from_server(event.data, channels)
            if envelope:
                # The message was withheld, but the client needs the event's id for a resumption.
                self.response.append(b"", event)

    async def _receive_response(self, frame: Frame, event: Event) -> None:
        client, session = self.client, self.client.session
        if frame.id in self.ids:
            self._answer_events[frame.id] = event
        elif session.is_open(frame.id):
            detached = client.detached.pop(frame.id, None)
            if detached is not None:
                detached.reattach(self, frame.id, event)
        elif (line := client.recall(frame.id)) is not None:
            self.response.append(line, event)
            return
        await session.from_server(event.data or b"", self._channels)

    async def _receive_body(self, exchange: _Exchange, reply: HttpReply, body: bytes) -> str:
        # The status proves nothing: a refusal may contain the response, and a success may lack it.
        status = reply.status
        if _REDIRECT <= status < _BAD:
            raise TransportError("the server redirected; configure its new URL")
        answer = read_frame(body)
        wanted = exchange.request_id
        is_response = answer is not None and answer.is_response and answer.id == wanted
        is_whole = is_response or (wanted is not UNSET and status < _BAD)
        if exchange.main:
            self.response.begin_body(status, self._server.response_fields(self.request, reply))
        if is_whole or body:
            line = body if is_whole else _as_error(wanted, answer, body, status)
            await self.client.session.from_server(line, self._channels)
        if is_whole:
            return _NO_ANSWER if is_response else "the server's response is not valid JSON-RPC"
        return f"the server answered with HTTP status {status}"

    async def _answer_open(self, exchange: _Exchange, problem: str) -> None:
        """Answer an open request with *problem*, unless the client can resume it."""
        request_id = exchange.request_id
        if request_id is UNSET or not self.client.session.is_open(request_id):
            return
        if exchange.main and self._resumable and self.response.is_stream:
            self.client.detached[request_id] = self
            self.response.settle(request_id)
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
        # Free the bytes: a detached request lives as long as its session.
        self.request.body, self.frame, self._unchanged = b"", None, b""


def _as_error(request_id: Any, answer: Frame | None, body: bytes, status: int) -> bytes:
    """Return an error response to *request_id* with the text of *body*, so that handlers see it."""
    request_id = None if request_id is UNSET else request_id
    if answer is not None and answer.failed:
        return write_frame(id=request_id, error=answer.error)
    text = body.decode(errors="replace")
    return write_frame(id=request_id, error={"code": SERVER_GONE, "message": text, "data": status})

"""One client session whose frames, of either side, pass the handlers before they go on."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from toolbus.bus.grace import GRACE
from toolbus.mcp.protocol.canonical import Refusal, from_client, from_server
from toolbus.mcp.protocol.jsonrpc import INVALID_REQUEST, SERVER_GONE, error_frame, read_batch
from toolbus.mcp.protocol.revisions import CALL, CANCELLED, ERROR, PROGRESS, cancelled_id, params_of
from toolbus.mcp.session.client_requests import ClientRequests
from toolbus.mcp.session.request_table import (
    OpenRequest,
    PendingRequests,
    ProgressTokens,
    fail,
    resolve,
)
from toolbus.mcp.session.server_messages import ServerMessages
from toolbus.mcp.session.tool_calls import ToolCalls
from toolbus.mcp.session.tool_list import ToolList
from toolbus.messages.ids import new_id
from toolbus.transcript.session_log import SessionLog

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from toolbus.events.catalogue import Scope
    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.session.request_table import Channels

logger = logging.getLogger("toolbus")

IN_ORDER = 5.0
"""Seconds for which the server's next line waits for the handlers of a notification or request."""

UNEXPECTED = "dropped a response of the server to %r, which is not an open request"


class JudgedSession:
    """One client's session with a server; frames of both sides pass the handlers of *proxy*.

    Over HTTP each request has *channels* of its own, given with its line: all frames caused by
    that line, also much later, go there. Questions of a stateless client belong to
    *question_session*.
    """

    def __init__(self, proxy: Proxy, channels: Channels, question_session: str = "") -> None:
        self.proxy = proxy = proxy.current  # Kept, so that a reload affects new sessions only.
        self._channels = channels
        self.scope: Scope = replace(proxy.scope, session_id=new_id())
        session_id = self.scope.session_id
        self.log = SessionLog(proxy.bus, session_id, proxy.store, proxy.discard_session)
        self.pending = PendingRequests()
        self.tool_list = ToolList(proxy.bus, self.scope, proxy.tools)
        self.server_messages = ServerMessages(proxy.bus, self.scope, self.tool_list, self.log)
        self._calls = ToolCalls(self, question_session)
        self._requests = ClientRequests(proxy.bus, self.scope, self._forward)
        self._server_tasks: set[asyncio.Task[None]] = set()
        self._tokens = ProgressTokens()
        self._logged = proxy.log.session(session_id) if proxy.log else None

    def from_client(
        self, line: bytes, channels: Channels | None = None, frame: Frame | None = None
    ) -> None:
        """Process a line of the client: a frame, or a batch, whose requests are answered singly.

        *frame* is the frame in *line*, if it has been brought into canonical form already.
        """
        channels = channels or self._channels
        if self._logged is not None:
            channels = self._logged.begin(line, channels)
        if frame is not None:
            self._receive(frame, channels)
        elif (batch := read_batch(line)) is not None:
            if not batch:
                problem = "expected at least one frame in a batch"
                channels.reply(error_frame(None, INVALID_REQUEST, problem))
            for part in batch:
                self._receive(from_client(part), channels)
        elif line.strip():
            self._receive(from_client(line), channels)
        else:
            channels.to_server(b"\n")

    def owed(self, batch: bytes) -> list[Any]:
        """Return the ids of the responses to *batch*, including those to refused frames."""
        frames = [from_client(part) for part in read_batch(batch) or [batch]]
        asking = [
            frame
            for frame in frames
            if (frame.wants_answer if isinstance(frame, Refusal) else frame.is_request)
        ]
        return [None if frame.id is UNSET else frame.id for frame in asking]

    async def from_server(self, line: bytes, channels: Channels | None = None) -> None:
        """Process a line of the server; return when the next line may follow."""
        if (rest := self.begin_from_server(line, channels)) is not None:
            await rest

    def begin_from_server(
        self, line: bytes, channels: Channels | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """Process a line as `from_server`; return a coroutine to await before the next, or None."""
        channels = channels or self._channels
        frame = from_server(line, self.pending.asked.method_of)
        if isinstance(frame, Refusal):
            return self._reject(frame, line, channels)
        if frame.is_response:
            return self._route_response(frame, channels)
        if frame.method != PROGRESS or self._tokens.holds(frame):
            return self._forward_message(frame, channels)
        logger.warning("dropped a progress notification of the server with an unknown token")
        return None

    def is_open(self, request_id: Any) -> bool:
        """Return whether the server owes a response to the request *request_id*."""
        return self.pending.asked.is_open(request_id)

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the input schema of the server's tool *name*, None if it is unknown."""
        spec = self.tool_list.specs.get(name)
        return None if spec is None else spec.input_schema

    def server_gone(self, reason: str) -> None:
        """Answer all open requests with an error: the server has ended, for *reason*."""
        self.pending.server_gone(reason)

    def client_gone(self) -> None:
        """Fail the requests to the client, and end the waits for its approval."""
        self._calls.client_left.set()
        self.pending.client_gone()

    async def settle(self, seconds: float) -> None:
        """Wait at most *seconds* until no frame is at handlers, including frames that follow."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while tasks := self._tasks:
                    await asyncio.wait(tasks)

    async def close(self) -> None:
        """Cancel the frames at handlers, and write the logs."""
        tasks = self._tasks
        for task in tasks:
            task.cancel()
        if tasks:
            # A handler that ignores its cancellation is abandoned.
            _, hanging = await asyncio.wait(tasks, timeout=2 * GRACE)
            if hanging:
                logger.warning("abandoned the handlers of %d requests, which hang", len(hanging))
        if self._logged is not None:
            self._logged.close()
        await self.log.close()

    @property
    def _tasks(self) -> tuple[asyncio.Task[Any], ...]:
        """The tasks of all frames at handlers."""
        return (*self._calls.tasks, *self._requests.tasks, *self._server_tasks)

    # --- frames of the client ------------------------------------------------------------------

    def _receive(self, frame: Frame | Refusal, channels: Channels) -> None:
        """Process a frame; a refused frame is answered if its sender waits for a response."""
        if not isinstance(frame, Refusal):
            self._tokens.learn(frame)
            self._dispatch(frame, channels)
            return
        logger.warning("refused a frame of the client: %s", frame.reason)
        if frame.wants_answer:
            reason = f"invalid frame: {frame.reason}"
            channels.reply(error_frame(frame.id, frame.code, reason))

    def _dispatch(self, frame: Frame, channels: Channels) -> None:
        if frame.method == CALL:
            self._calls.start(frame, channels)
        elif frame.method == CANCELLED and not frame.is_request:
            self._cancel(frame, channels)
        elif frame.is_response and self.pending.resolve_elicited(frame):
            return
        else:
            if frame.method == "initialize":
                self._calls.learn_client(params_of(frame))
            if not self._requests.start(frame, channels):
                self._forward(frame, channels)

    def _forward(self, frame: Frame, channels: Channels) -> None:
        """Send a frame to the server, and register a request for its response."""
        if frame.is_request:
            if self.pending.gone is not None:
                channels.reply(error_frame(frame.id, SERVER_GONE, self.pending.gone))
                return
            method = str(frame.method)
            asked = OpenRequest(frame.id, method, channels.reply, None, frame.params)
            self.pending.asked.add(asked)
        channels.to_server(frame.line)

    def _cancel(self, frame: Frame, channels: Channels) -> None:
        """Forward a cancellation, unless its request has not reached the server yet.

        A server may still answer a cancelled call, and the client may wait for the response: MCP
        2025-11-25, basic/utilities/cancellation, "Timing Considerations".
        """
        request_id = cancelled_id(frame)
        if self._requests.cancel(request_id):
            return
        call, late = self._calls.pop(request_id), None
        if call is not None:
            late = OpenRequest(request_id, CALL, call.channels.reply, call=call.call)
        forwarded = self.pending.asked.abandon(request_id, late)
        if call is None or forwarded is not None:
            channels.to_server(frame.line)
        if call is not None:
            call.task.cancel()

    # --- frames of the server ------------------------------------------------------------------

    def _reject(
        self, refusal: Refusal, line: bytes, channels: Channels
    ) -> Coroutine[Any, Any, None] | None:
        if not line.strip():
            channels.to_client(b"\n")
        elif (batch := read_batch(line)) is not None:
            return self._receive_batch(batch, channels)
        elif refusal.kind == "request":
            logger.warning("refused a request of the server: %s", refusal.reason)
            channels.to_server(error_frame(refusal.id, refusal.code, refusal.reason))
        else:
            logger.warning("dropped %d bytes of the server: invalid JSON-RPC", len(line))
            if (request := self.pending.asked.pop(refusal.id)) is not None:
                fail(request, SERVER_GONE, "the server's response is not valid JSON-RPC")
        return None

    async def _forward_message(self, frame: Frame, channels: Channels) -> None:
        """Forward a notification or request; return when the next line may follow.

        Messages keep their order, but handlers that hang must not block the session.
        """
        task = self._start(self.server_messages.forward(frame, channels))
        if not (await asyncio.wait({task}, timeout=IN_ORDER))[0]:
            text = "%s has been at handlers for %g s; later messages overtake it"
            logger.warning(text, frame.method, IN_ORDER)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start *work* on a message of the server, as one of the session's tasks."""
        task = asyncio.create_task(work)
        self._server_tasks.add(task)
        task.add_done_callback(self._server_tasks.discard)
        return task

    async def _receive_batch(self, batch: list[bytes], channels: Channels) -> None:
        for part in batch:
            await self.from_server(part, channels)

    def _route_response(self, frame: Frame, channels: Channels) -> Coroutine[Any, Any, None] | None:
        request = self.pending.asked.pop(frame.id)
        if request is not None and request.future is not None:
            resolve(request, frame)
        elif request is not None:
            self._start(self.server_messages.answer(request, frame))
        elif frame.id is None and frame.failed:
            request = OpenRequest(None, ERROR, channels.to_client)
            return self.server_messages.answer(request, frame)
        else:
            logger.warning(UNEXPECTED, frame.id)
        return None

"""One client session: it takes each frame of either side, and sends on what may go on."""

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
from toolbus.mcp.session.session_log import SessionLog
from toolbus.mcp.session.tool_calls import ToolCalls
from toolbus.mcp.session.tool_list import ToolList
from toolbus.messages.ids import new_id

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from toolbus.events.catalogue import Scope
    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.session.request_table import Channels

logger = logging.getLogger("toolbus")

UNASKED = "the server answered %r, which nobody asked or it answered before; dropped"


class JudgedSession:
    """One client's session with a server; frames of both sides pass the handlers of *proxy*.

    Over HTTP each request has *channels* of its own: they come with each line, and all frames
    that the session sends because of that line, also much later, go there. The questions of a
    client without a session are kept in *question_session*.
    """

    def __init__(self, proxy: Proxy, channels: Channels, question_session: str = "") -> None:
        self.proxy = proxy = proxy.current  # From here on the session keeps it.
        self._channels = channels
        self.scope: Scope = replace(proxy.scope, session_id=new_id())
        session_id = self.scope.session_id
        self.log = SessionLog(proxy.bus, session_id, proxy.store, proxy.discard_session)
        self.pending = PendingRequests()
        self.tool_list = ToolList(proxy.bus, self.scope, proxy.tools)
        self.server_messages = ServerMessages(proxy.bus, self.scope, self.tool_list, self.log)
        self._calls = ToolCalls(self, question_session)
        self._requests = ClientRequests(proxy.bus, self.scope, self._forward)
        self._answers: set[asyncio.Task[None]] = set()
        self._tokens = ProgressTokens()
        self._logged = proxy.log.session(session_id) if proxy.log else None

    def from_client(self, line: bytes, channels: Channels | None = None) -> None:
        """Take a line of the client: a frame, or a batch, whose frames are answered one by one."""
        channels = channels or self._channels
        if self._logged is not None:
            channels = self._logged.begin(line, channels)
        batch = read_batch(line)
        if batch is not None:
            if not batch:
                problem = "a batch holds at least one frame"
                channels.reply(error_frame(None, INVALID_REQUEST, problem))
            for part in batch:
                self._take_line(part, channels)
        elif line.strip():
            self._take_line(line, channels)
        else:
            channels.to_server(b"\n")

    def owed(self, batch: bytes) -> list[Any]:
        """Return the ids under which the frames of *batch* are answered, also those refused."""
        frames = [from_client(part) for part in read_batch(batch) or [batch]]
        asking = [
            frame
            for frame in frames
            if (frame.wants_answer if isinstance(frame, Refusal) else frame.is_request)
        ]
        return [None if frame.id is UNSET else frame.id for frame in asking]

    async def from_server(self, line: bytes, channels: Channels | None = None) -> None:
        """Take a line of the server; returns when what comes after it may follow."""
        if (rest := self.begin_from_server(line, channels)) is not None:
            await rest

    def begin_from_server(
        self, line: bytes, channels: Channels | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """Do as `from_server` does; return what to await before the next line, or None."""
        channels = channels or self._channels
        frame = from_server(line, self.pending.asked.method_of)
        if isinstance(frame, Refusal):
            return self._take_refused(frame, line, channels)
        if frame.is_response:
            return self._take_answer(frame, channels)
        if frame.method != PROGRESS or self._tokens.holds(frame):
            return self.server_messages.pass_on(frame, channels)
        logger.warning("the server told of progress by a token that nobody gave; dropped")
        return None

    def is_open(self, request_id: Any) -> bool:
        """Return whether the server owes an answer to the request *request_id*."""
        return self.pending.asked.is_open(request_id)

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema of the arguments of the server's tool *name*, if that is known."""
        spec = self.tool_list.specs.get(name)
        return None if spec is None else spec.input_schema

    def server_gone(self, reason: str) -> None:
        """Answer the requests that the server will never answer."""
        self.pending.server_gone(reason)

    def client_gone(self) -> None:
        """Let nobody wait for the client any more."""
        self._calls.client_left.set()
        self.pending.client_gone()

    async def settle(self, seconds: float) -> None:
        """Wait at most *seconds* for all frames that are being judged, also later ones."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while tasks := self._tasks:
                    await asyncio.wait(tasks)

    async def close(self) -> None:
        """Cancel what is under way, and write what is to be kept."""
        tasks = self._tasks
        for task in tasks:
            task.cancel()
        if tasks:
            # A handler that ignores its cancellation is left behind.
            _, hanging = await asyncio.wait(tasks, timeout=2 * GRACE)
            if hanging:
                logger.warning("handlers of %d requests do not end; left behind", len(hanging))
        if self._logged is not None:
            self._logged.close()
        await self.log.close()

    @property
    def _tasks(self) -> tuple[asyncio.Task[Any], ...]:
        """The tasks of all frames that are being judged."""
        return (*self._calls.tasks, *self._requests.tasks, *self._answers)

    # --- what the client sends -----------------------------------------------------------------

    def _take_line(self, line: bytes, channels: Channels) -> None:
        """Take a frame; a frame that may not go on is answered, if it wants an answer."""
        frame = from_client(line)
        if not isinstance(frame, Refusal):
            self._tokens.learn(frame)
            self._take_frame(frame, channels)
            return
        logger.warning("a frame of the client is refused: %s", frame.reason)
        if frame.wants_answer:
            reason = f"the frame is refused: {frame.reason}"
            channels.reply(error_frame(frame.id, frame.code, reason))

    def _take_frame(self, frame: Frame, channels: Channels) -> None:
        if frame.method == CALL:
            self._calls.take(frame, channels)
        elif frame.method == CANCELLED and not frame.is_request:
            self._take_cancellation(frame, channels)
        elif frame.is_response and self.pending.take_elicited(frame):
            return
        else:
            if frame.method == "initialize":
                self._calls.introduce(params_of(frame))
            if not self._requests.take(frame, channels):
                self._forward(frame, channels)

    def _forward(self, frame: Frame, channels: Channels) -> None:
        """Send a frame to the server; of a request the answer is expected then."""
        if frame.is_request:
            if self.pending.gone is not None:
                channels.reply(error_frame(frame.id, SERVER_GONE, self.pending.gone))
                return
            method = str(frame.method)
            asked = OpenRequest(frame.id, method, channels.reply, None, frame.params)
            self.pending.asked.add(asked)
        channels.to_server(frame.line)

    def _take_cancellation(self, frame: Frame, channels: Channels) -> None:
        """Pass it on; a request that has not come to the server ends here.

        A server may still answer a call that it has cancelled, and the client wait for that: see
        MCP 2025-11-25, basic/utilities/cancellation, "Timing Considerations".
        """
        request_id = cancelled_id(frame)
        if self._requests.stop(request_id):
            return
        call, late = self._calls.pop(request_id), None
        if call is not None:
            late = OpenRequest(request_id, CALL, call.channels.reply, call=call.call)
        forwarded = self.pending.asked.abandon(request_id, late)
        if call is None or forwarded is not None:
            channels.to_server(frame.line)
        if call is not None:
            call.task.cancel()

    # --- what the server sends -----------------------------------------------------------------

    def _take_refused(
        self, refusal: Refusal, line: bytes, channels: Channels
    ) -> Coroutine[Any, Any, None] | None:
        if not line.strip():
            channels.to_client(b"\n")
        elif (batch := read_batch(line)) is not None:
            return self._take_parts(batch, channels)
        elif refusal.kind == "request":
            logger.warning("a request of the server is refused: %s", refusal.reason)
            channels.to_server(error_frame(refusal.id, refusal.code, refusal.reason))
        else:
            logger.warning("the server wrote %d bytes that are no JSON-RPC; dropped", len(line))
            if (request := self.pending.asked.take(refusal.id)) is not None:
                fail(request, SERVER_GONE, "the server's answer is no JSON-RPC")
        return None

    async def _take_parts(self, batch: list[bytes], channels: Channels) -> None:
        for part in batch:
            await self.from_server(part, channels)

    def _take_answer(self, frame: Frame, channels: Channels) -> Coroutine[Any, Any, None] | None:
        request = self.pending.asked.take(frame.id)
        if request is not None and request.future is not None:
            resolve(request, frame)
        elif request is not None:
            task = asyncio.create_task(self.server_messages.answer(request, frame))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)
        elif frame.id is None and frame.failed:
            request = OpenRequest(None, ERROR, channels.to_client)
            return self.server_messages.answer(request, frame)
        else:
            logger.warning(UNASKED, frame.id)
        return None

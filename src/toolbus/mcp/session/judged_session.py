"""One client session: it takes each frame of either side, and sends on what may go on."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from toolbus.bus.grace import GRACE
from toolbus.mcp.protocol.batches import BatchResponse, refused_batch, wants_answer
from toolbus.mcp.protocol.canonical import Refusal, from_client, from_server
from toolbus.mcp.protocol.jsonrpc import (
    SERVER_GONE,
    error_frame,
    read_batch,
    read_frame,
    scan_top_level,
)
from toolbus.mcp.protocol.revisions import CALL, CANCELLED, ERROR, PROGRESS, cancelled_id, params_of
from toolbus.mcp.session.client_requests import ClientRequests
from toolbus.mcp.session.pending_requests import PendingRequests, fail, resolve
from toolbus.mcp.session.request_table import OpenRequest, ProgressTokens
from toolbus.mcp.session.response_filter import ResponseFilter
from toolbus.mcp.session.running_calls import RunningCalls
from toolbus.mcp.session.server_messages import ServerMessageFilter
from toolbus.mcp.session.session_log import SessionLog
from toolbus.mcp.session.tool_list import ToolList
from toolbus.messages.ids import new_id

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from toolbus.events.catalogue import Scope
    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.session.request_table import Channels

logger = logging.getLogger("toolbus")


class JudgedSession:
    """One client's session with a server, between which lines go in *channels*.

    Over HTTP each request has channels of its own: they come with each line, and all that the
    session does for that line, also much later, it sends there. Of a client without a session,
    *question_session* keeps what a person is asked.
    """

    def __init__(self, proxy: Proxy, channels: Channels, question_session: str = "") -> None:
        proxy = proxy.current  # From here on the session keeps it.
        self._directions = channels
        self.scope: Scope = replace(proxy.scope, session_id=new_id())
        self.judging = proxy.judging
        self._log = SessionLog(proxy.bus, self.scope.session_id, proxy.store, proxy.discard_session)
        self._pending = PendingRequests()
        self._asked = self._pending.asked
        response_filter = ResponseFilter(proxy.bus, self.scope)
        self.tool_list = ToolList(proxy.bus, self.scope, proxy.tools)
        self._server_messages = ServerMessageFilter(response_filter, self.tool_list, self._log)
        self._calls = RunningCalls(
            proxy,
            self.scope,
            self._pending,
            tool_list=self.tool_list,
            response_filter=response_filter,
            log=self._log,
            question_session=question_session,
        )
        self._requests = ClientRequests(proxy.bus, self.scope, self._forward)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._tokens = ProgressTokens()
        self._logged = proxy.log.session(self.scope.session_id) if proxy.log else None

    def from_client(self, line: bytes, channels: Channels | None = None) -> None:
        """Take a line of the client."""
        channels = channels or self._directions
        if self._logged is not None:
            channels = self._logged.begin(line, channels)
        if (batch := read_batch(line)) is not None:
            self._take_batch(batch, line, channels)
        elif self.judging and line.strip():
            self._take_canonical(from_client(line), channels)
        elif self.judging:
            channels.to_server(b"\n")
        elif (frame := read_frame(line)) is not None:
            self._take_frame(frame, channels)
        else:
            self._take_unread(line, channels)

    def as_judged(self, line: bytes) -> bytes:
        """Return a line of the client as it goes on if no handler changes what it says."""
        canonical = from_client(line) if self.judging else None
        return line if canonical is None or isinstance(canonical, Refusal) else canonical.line

    async def from_server(self, line: bytes, channels: Channels | None = None) -> None:
        """Take a line of the server; returns when what comes after it may follow."""
        if (rest := self.begin_from_server(line, channels)) is not None:
            await rest

    def begin_from_server(
        self, line: bytes, channels: Channels | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """Do as `from_server` does; return what to await before the next line, or None."""
        channels = channels or self._directions
        if self.judging:
            canonical = from_server(line, self._asked.method_of)
            if isinstance(canonical, Refusal):
                return self._take_refused(canonical, line, channels)
            frame = canonical
        elif (read := read_frame(line)) is None:
            return self._take_no_frame(line, channels)
        else:
            frame = read
        if frame.is_answer:
            return self._take_answer(frame, channels)
        if not self.judging:
            channels.to_client(line)
        elif frame.method != PROGRESS or self._tokens.holds(frame):
            return self._server_messages.pass_on(frame, channels)
        else:
            logger.warning("the server told of progress by a token that nobody gave; dropped")
        return None

    def is_open(self, request_id: Any) -> bool:
        """Tell whether the server owes an answer to the request *request_id*."""
        return self._asked.is_open(request_id)

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Return what the server's tool *name* takes, if the server was asked."""
        spec = self.tool_list.specs.get(name)
        return None if spec is None else spec.input_schema

    def server_gone(self, reason: str) -> None:
        """Answer what the server will never answer."""
        self._pending.server_gone(reason)

    def client_gone(self) -> None:
        """Let nobody wait for the client any more."""
        self._calls.client_left.set()
        self._pending.client_gone()

    async def settle(self, seconds: float) -> None:
        """Wait at most *seconds* for what is being judged, also for what comes meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while tasks := self._under_way:
                    await asyncio.wait(tasks)

    async def close(self) -> None:
        """Cancel what is under way, and write what is to be kept."""
        tasks = self._under_way
        self._calls.stop()
        for task in (*self._tasks, *self._requests.tasks):
            task.cancel()
        if tasks:
            # A handler that ignores its cancellation is left behind.
            _, hanging = await asyncio.wait(tasks, timeout=2 * GRACE)
            if hanging:
                logger.warning("handlers of %d requests do not end; left behind", len(hanging))
        if self._logged is not None:
            self._logged.close()
        await self._log.close()

    @property
    def _under_way(self) -> tuple[asyncio.Task[Any], ...]:
        return (*self._calls.tasks, *self._requests.tasks, *self._tasks)

    # --- what the client sends -----------------------------------------------------------------

    def _take_canonical(self, canonical: Frame | Refusal, channels: Channels) -> None:
        """Take a frame as it may go on; one that may not is answered, if it wants an answer."""
        if isinstance(canonical, Refusal):
            logger.warning("a frame of the client is refused: %s", canonical.reason)
            if canonical.wants_answer:
                reason = f"the frame is refused: {canonical.reason}"
                channels.reply(error_frame(canonical.id, canonical.code, reason))
        else:
            self._tokens.learn(canonical)
            self._take_frame(canonical, channels)

    def _take_unread(self, line: bytes, channels: Channels) -> None:
        """Pass on what is no frame to the proxy; the server may find a request in it."""
        request_id, names = scan_top_level(line)
        if request_id is not UNSET and "method" in names:
            self._asked.add(OpenRequest(request_id, "", channels.reply))
        channels.to_server(line)

    def _take_frame(self, frame: Frame, channels: Channels) -> None:
        match frame.method:
            case "tools/call" if self.judging:
                self._calls.take(frame, channels)
                return
            case "initialize" if self.judging:
                self._calls.introduce(params_of(frame))
            case method if method == CANCELLED and not frame.is_request:
                self._take_cancellation(frame, channels)
                return
        if frame.is_answer and self._pending.take_elicited(frame):
            return
        if not (self.judging and self._requests.take(frame, channels)):
            self._forward(frame, channels)

    def _forward(self, frame: Frame, channels: Channels) -> None:
        """Send a frame to the server; of a request the answer is expected then."""
        if frame.is_request:
            if self._pending.gone is not None:
                channels.reply(error_frame(frame.id, SERVER_GONE, self._pending.gone))
                return
            method = str(frame.method)
            self._asked.add(OpenRequest(frame.id, method, channels.reply, None, frame.params))
        channels.to_server(frame.line)

    def _take_batch(self, batch: list[bytes], line: bytes, channels: Channels) -> None:
        """Take a batch apart if its frames are judged: each may be answered at another time."""
        if self.judging and (refusal := refused_batch(batch)) is not None:
            if refusal:
                channels.reply(refusal)
            return
        if self.judging:
            all_canonical = [from_client(part) for part in batch]
            gathered = BatchResponse(sum(map(wants_answer, all_canonical)), channels.reply)
            for canonical in all_canonical:
                self._take_canonical(canonical, channels._replace(answer=gathered.add))
            return
        for frame in map(read_frame, batch):
            if frame is not None and frame.is_request:
                self._asked.add(OpenRequest(frame.id, str(frame.method), channels.reply))
        channels.to_server(line)

    def _take_cancellation(self, frame: Frame, channels: Channels) -> None:
        """Pass it on; what has not come to the server ends here.

        A server may still answer a call that it has cancelled, and the client wait for that: see
        MCP 2025-11-25, basic/utilities/cancellation, "Timing Considerations".
        """
        request_id = cancelled_id(frame)
        if self._requests.stop(request_id):
            return
        call, late = self._calls.pop(request_id), None
        if call is not None:
            answer = call.request.channels.reply
            late = OpenRequest(request_id, CALL, answer, call=call.request.call)
        forwarded = self._asked.abandon(request_id, late)
        if call is None or forwarded is not None:
            channels.to_server(frame.line)
        if call is not None:
            call.stop()

    # --- what the server sends -----------------------------------------------------------------

    async def _take_no_frame(self, line: bytes, channels: Channels) -> None:
        if not line.strip():
            channels.to_client(line)
        elif (batch := read_batch(line)) is None:
            self._take_broken(line, scan_top_level(line)[0])
        elif None in (frames := [read_frame(part) for part in batch]):
            await self._take_parts(batch, channels)
        else:
            answers = [frame for frame in frames if frame is not None and frame.is_answer]
            sends = [asked.send for each in answers if (asked := self._asked.take(each.id))]
            (sends[0] if sends else channels.to_client)(line)

    async def _take_parts(self, batch: list[bytes], channels: Channels) -> None:
        for part in batch:
            await self.from_server(part.strip() + b"\n", channels)

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
            self._take_broken(line, refusal.id)
        return None

    def _take_broken(self, line: bytes, request_id: Any) -> None:
        """Drop what nobody can read; if it is the answer to a request, say so."""
        logger.warning("the server wrote %d bytes that are no JSON-RPC; dropped", len(line))
        if (request := self._asked.take(request_id)) is not None:
            fail(request, SERVER_GONE, "the server's answer is no JSON-RPC")

    def _take_answer(self, frame: Frame, channels: Channels) -> Coroutine[Any, Any, None] | None:
        request = self._asked.take(frame.id)
        if request is not None and request.future is not None:
            resolve(request, frame)
        elif not self.judging and (request is not None or frame.id is None):
            (channels.to_client if request is None else request.send)(frame.line)
        elif request is not None:
            task = asyncio.create_task(self._server_messages.answer(request, frame))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif frame.id is None and frame.failed:
            request = OpenRequest(None, ERROR, channels.to_client)
            return self._server_messages.answer(request, frame)
        else:
            unasked = "the server answered %r, which nobody asked or it answered before; dropped"
            logger.warning(unasked, frame.id)
        return None

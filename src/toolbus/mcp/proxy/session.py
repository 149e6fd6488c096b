"""One client session: it takes each frame of either side, and sends on what may go on."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from toolbus.mcp.proxy.canonical import Refusal, from_client, from_server
from toolbus.mcp.proxy.jsonrpc import (
    INTERNAL_ERROR,
    SERVER_GONE,
    Frame,
    error_frame,
    outline,
    read_batch,
    read_frame,
    read_json,
)
from toolbus.mcp.proxy.pending_requests import PendingRequests, can_elicit
from toolbus.mcp.proxy.request_table import (
    BatchResponse,
    Directions,
    OpenRequest,
    ProgressTokens,
)
from toolbus.mcp.proxy.response_filter import ResponseFilter
from toolbus.mcp.proxy.running_calls import RunningCalls
from toolbus.mcp.proxy.server_messages import ServerMessageFilter
from toolbus.mcp.proxy.session_log import SessionLog
from toolbus.mcp.proxy.texts import CALL, ERROR
from toolbus.mcp.proxy.tool_list import ToolList
from toolbus.messages.ids import new_id
from toolbus.tasks.eager import Begun

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from toolbus.events.catalogue import Scope
    from toolbus.mcp.proxy.proxy import Proxy

    Send = Callable[[bytes], object]

logger = logging.getLogger("toolbus")

PROGRESS = "notifications/progress"


class ProxySession:
    """One client's session with a server; *to_client* and *to_server* send a line.

    Over HTTP each request has directions of its own: they come with each line, and all that the
    session does for that line, also much later, it sends there.
    """

    def __init__(self, proxy: Proxy, to_client: Send, to_server: Send) -> None:
        self._directions = Directions(to_client, to_server)
        self.scope: Scope = replace(proxy.scope, session_id=new_id())
        self.judging = proxy.judging
        log = self._log = SessionLog(proxy.bus, self.scope.session_id, proxy.store)
        response_filter, pending = ResponseFilter(proxy.bus, self.scope), PendingRequests()
        self._pending, self._asked = pending, pending.asked
        tool_list = ToolList(proxy.bus, self.scope, proxy.tools)
        self._tool_list = tool_list
        self._server_messages = ServerMessageFilter(response_filter, tool_list, log)
        self._calls = RunningCalls(
            proxy,
            self.scope,
            pending,
            tool_list=tool_list,
            response_filter=response_filter,
            log=log,
        )
        self._tasks: set[asyncio.Task[Any]] = set()
        self._tokens = ProgressTokens()

    def from_client(
        self, line: bytes, send: Send | None = None, directions: Directions | None = None
    ) -> None:
        """Take a line of the client; *send* takes what answers it, if not all goes one way."""
        directions = directions or self._directions
        send = send or directions.to_client
        if (batch := read_batch(line)) is not None:
            self._take_batch(batch, line, send, directions)
        elif self.judging and line.strip():
            self._take_made(from_client(line), send, directions)
        elif self.judging:
            directions.to_server(b"\n")
        elif (frame := read_frame(line)) is not None:
            self._take_request(frame, line, send, directions)
        else:
            self._take_unread(line, send, directions)

    def as_judged(self, line: bytes) -> bytes:
        """Return a line of the client as it goes on if no handler changes what it says."""
        made = from_client(line) if self.judging else line
        return line if isinstance(made, Refusal) else made

    async def from_server(self, line: bytes, directions: Directions | None = None) -> None:
        """Take a line of the server; returns when what comes after it may follow."""
        if (rest := self.hear(line, directions)) is not None:
            await rest

    def hear(
        self, line: bytes, directions: Directions | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """Do as `from_server` does; return what to await before the next line, or None."""
        directions = directions or self._directions
        if self.judging:
            made = from_server(line, self._asked.method_of)
            if isinstance(made, Refusal):
                return self._take_refused(made, line, directions)
            line = made
        frame = read_frame(line)
        if frame is None:
            return self._take_no_frame(line, directions)
        if frame.is_answer:
            return self._take_answer(frame, line, directions)
        if not self.judging:
            directions.to_client(line)
        elif frame.method != PROGRESS or self._tokens.holds(frame.params):
            return self._server_messages.words(frame, line, directions)
        else:
            logger.warning("the server told of progress by a token that nobody gave; dropped")
        return None

    def is_open(self, own: Any) -> bool:
        """Tell whether the server owes an answer to the request *own*."""
        return self._asked.is_open(own)

    @property
    def tool_list(self) -> ToolList:
        """What the client was told of the server's tools."""
        return self._tool_list

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Return what the server's tool *name* takes, if the server was asked."""
        spec = self._tool_list.specs.get(name)
        return None if spec is None else spec.input_schema

    def server_gone(self, reason: str) -> None:
        """Answer what the server will never answer."""
        self._pending.server_gone(reason)

    def client_gone(self) -> None:
        """Let nobody wait for the client any more."""
        self._pending.client_gone()

    async def settle(self, seconds: float) -> None:
        """Wait at most *seconds* for what is being judged."""
        if tasks := (*self._calls.tasks, *self._tasks):
            await asyncio.wait(tasks, timeout=seconds)

    async def close(self) -> None:
        """Cancel what is under way, and write what is to be kept."""
        tasks = (*self._calls.tasks, *self._tasks)
        self._calls.stop()
        for task in tuple(self._tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._log.close()

    # --- what the client sends -----------------------------------------------------------------

    def _take_made(self, made: bytes | Refusal, send: Send, directions: Directions) -> None:
        """Take a frame as it may go on; one that may not is answered, if it wants an answer."""
        if isinstance(made, Refusal):
            logger.warning("a frame of the client is refused: %s", made.reason)
            if made.wants_answer:
                send(error_frame(made.id, made.code, f"the frame is refused: {made.reason}"))
        elif (frame := read_frame(made)) is not None:
            self._tokens.learn(made, frame.params)
            self._take_request(frame, made, send, directions)

    def _take_unread(self, line: bytes, send: Send, directions: Directions) -> None:
        """Pass on what is no frame to the proxy; the server may find a request in it."""
        own, names = outline(line)
        if own is not UNSET and "method" in names:
            self._asked.add(OpenRequest(own, "", send))
        directions.to_server(line)

    def _take_request(self, frame: Frame, line: bytes, send: Send, directions: Directions) -> None:
        match frame.method:
            case "tools/call" if self.judging:
                self._calls.take(frame, line, send, directions)
                return
            case "initialize" if self.judging and can_elicit(_params(frame)):
                self._calls.can_elicit = True
            case "notifications/cancelled" if not frame.is_request:
                self._take_cancellation(frame, line, directions)
                return
        if frame.is_answer and self._pending.take_elicited(frame, line):
            return
        if frame.is_request:
            assert isinstance(frame.method, str)  # noqa: S101 - a request has one
            if self._pending.gone is not None:
                send(error_frame(frame.id, SERVER_GONE, self._pending.gone))
                return
            self._asked.add(OpenRequest(frame.id, frame.method, send, None, frame.params))
        directions.to_server(line)

    def _take_batch(
        self, batch: list[bytes], line: bytes, send: Send, directions: Directions
    ) -> None:
        """Take a batch apart if its frames are judged: each may be answered at another time."""
        if self.judging:
            all_made = [from_client(one) for one in batch]
            gathered = BatchResponse(sum(map(_wants_answer, all_made)), send)
            for made in all_made:
                self._take_made(made, gathered.add, directions)
            return
        frames = [read_frame(one) for one in batch]
        for asking in frames:
            if asking is not None and asking.is_request:
                self._asked.add(OpenRequest(asking.id, str(asking.method), send))
        directions.to_server(line)

    def _take_cancellation(self, frame: Frame, line: bytes, directions: Directions) -> None:
        """Pass it on; a call that has not come to the server ends here.

        A server may still answer a call that it has cancelled, and the client wait for that.
        """
        params = _params(frame)
        own = params.get("requestId") if isinstance(params, dict) else None
        if not isinstance(own, str | int):
            own = None
        call = self._calls.pop(own)
        late = None if call is None else OpenRequest(own, CALL, call.send, call=call.request.call)
        forwarded = self._asked.abandon(own, late)
        if call is None or forwarded is not None:
            directions.to_server(line)
        if call is not None:
            call.stop()

    # --- what the server sends -----------------------------------------------------------------

    async def _take_no_frame(self, line: bytes, directions: Directions) -> None:
        if not line.strip():
            directions.to_client(line)
        elif (batch := read_batch(line)) is None:
            self._take_broken(line, outline(line)[0])
        elif None in (frames := [read_frame(one) for one in batch]):
            await self._take_parts(batch, directions)
        else:
            answers = [one for one in frames if one is not None and one.is_answer]
            taken = [self._asked.take(one.id) for one in answers]
            sends = [asked.send for asked in taken if asked is not None]
            (sends[0] if sends else directions.to_client)(line)

    async def _take_parts(self, batch: list[bytes], directions: Directions) -> None:
        for part in batch:
            await self.from_server(part.strip() + b"\n", directions)

    def _take_refused(
        self, made: Refusal, line: bytes, directions: Directions
    ) -> Coroutine[Any, Any, None] | None:
        if not line.strip():
            directions.to_client(b"\n")
        elif (batch := read_batch(line)) is not None:
            return self._take_parts(batch, directions)
        elif made.kind == "request":
            logger.warning("a request of the server is refused: %s", made.reason)
            directions.to_server(error_frame(made.id, made.code, made.reason))
        else:
            self._take_broken(line, made.id)
        return None

    def _take_broken(self, line: bytes, own: Any) -> None:
        """Drop what nobody can read; if it is the answer to the request *own*, say so."""
        logger.warning("the server wrote %d bytes that are no JSON-RPC; dropped", len(line))
        if (asked := self._asked.take(own)) is not None:
            reason = "the server's answer is no JSON-RPC"
            self._pending.give(asked, error_frame(asked.id, SERVER_GONE, reason))

    def _take_answer(
        self, frame: Frame, line: bytes, directions: Directions
    ) -> Coroutine[Any, Any, None] | None:
        asked = self._asked.take(frame.id)
        if asked is not None and asked.future is not None:
            self._pending.give(asked, line, frame)
        elif not self.judging and (asked is not None or frame.id is None):
            (directions.to_client if asked is None else asked.send)(line)
        elif asked is not None:
            self._begin(self._pass_answer(asked, frame, line))
        elif frame.id is None and frame.failed:
            return self._pass_answer(OpenRequest(None, ERROR, directions.to_client), frame, line)
        else:
            logger.warning(
                "the server answered %r, which nobody asked or it answered before; dropped",
                frame.id,
            )
        return None

    async def _pass_answer(self, asked: OpenRequest, frame: Frame, line: bytes) -> None:
        try:
            await self._server_messages.answer(asked, frame, line)
        except Exception:
            # Whoever waits for an answer is to be told, whatever it was.
            logger.exception("an answer of the server could not be handled")
            reason = "the proxy has failed, and its log says how"
            self._pending.give(asked, error_frame(asked.id, INTERNAL_ERROR, reason))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = Begun(work, alone=True).task
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a frame could not be handled", exc_info=error)


def _wants_answer(made: bytes | Refusal) -> bool:
    if isinstance(made, Refusal):
        return made.wants_answer
    frame = read_frame(made)
    return frame is not None and frame.is_request


def _params(frame: Frame) -> Any:
    try:
        return None if frame.params is UNSET else read_json(frame.params)
    except ValueError:
        return None

"""Tables of open requests of both sides, with the channels for their responses."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import UNSET

from toolbus.mcp.protocol.jsonrpc import REFUSED, SERVER_GONE, Frame, error_frame, write_frame
from toolbus.mcp.protocol.revisions import CALL, CANCELLED, LIST
from toolbus.messages.ids import new_id
from toolbus.tasks.loops import LoopLock

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from toolbus.messages.records import ToolCall

_MAX_ABANDONED = 1_000
"""The number of cancelled requests remembered for late responses."""

_MAX_TOKENS = 10_000

Send: TypeAlias = Callable[[bytes], object]
"""A receiver of one line: a JSON-RPC frame, or a batch of frames, with its line end."""


class Channels(NamedTuple):
    """The destinations of lines caused by one message of either side.

    *to_client* receives notifications and requests of the server and the proxy; *answer*, if set,
    receives responses to the client: over HTTP each request has its own stream.
    """

    to_client: Send
    to_server: Send
    answer: Send | None = None
    settle: Callable[[Any, str], object] | None = None
    """A receiver of the id and the outcome of a tool call, for the request log."""

    def reply(self, line: bytes) -> None:
        """Send the client a response."""
        (self.answer or self.to_client)(line)


class OpenRequest(NamedTuple):
    """A request whose response goes as a line to *send*, or as a frame to the proxy's *future*.

    *call* is the tool call of a request that the client has cancelled.
    """

    id: Any
    method: str
    send: Send
    future: asyncio.Future[Frame] | None = None
    params: Any = UNSET
    call: ToolCall | None = None


class RequestTable:
    """The unanswered requests of one side."""

    def __init__(self) -> None:
        # A client that reuses the id of an open request gets both responses, in order.
        self._open: dict[Any, deque[OpenRequest]] = {}
        self._abandoned: OrderedDict[Any, OpenRequest] = OrderedDict()

    def add(self, request: OpenRequest) -> None:
        """Register a request until its response comes."""
        self._open.setdefault(request.id, deque()).append(request)

    def pop(self, request_id: Any) -> OpenRequest | None:
        """Remove and return the request for a response with *request_id*, or None."""
        return self._pop_open(request_id) or self._abandoned.pop(request_id, None)

    def is_open(self, request_id: Any) -> bool:
        """Return whether the request *request_id* is unanswered."""
        return request_id in self._open

    def method_of(self, request_id: Any) -> str | None:
        """Return the method of the request that a response with *request_id* belongs to."""
        waiting = self._open.get(request_id)
        request = waiting[0] if waiting else self._abandoned.get(request_id)
        return None if request is None else request.method

    def abandon(self, request_id: Any, instead: OpenRequest | None = None) -> OpenRequest | None:
        """Remove and return a request whose response is no longer expected.

        A late response is attributed to *instead*, if that is given.
        """
        if (request := self._pop_open(request_id)) is not None:
            self._abandoned[request_id] = instead or request
            if len(self._abandoned) > _MAX_ABANDONED:
                self._abandoned.popitem(last=False)
        return request

    def _pop_open(self, request_id: Any) -> OpenRequest | None:
        waiting = self._open.get(request_id)
        if not waiting:
            return None
        request = waiting.popleft()
        if not waiting:
            del self._open[request_id]
        return request

    def pop_all(self) -> list[OpenRequest]:
        """Remove and return all requests."""
        requests = [request for waiting in self._open.values() for request in waiting]
        self._open.clear()
        return requests


class PendingRequests:
    """The unanswered requests of a session: *asked* of the server, *elicited* of the client."""

    def __init__(self) -> None:
        self.asked, self.elicited = RequestTable(), RequestTable()
        self.gone: str | None = None
        self._one_question = LoopLock()

    def server_gone(self, reason: str) -> None:
        """Fail the requests to the server, now and later, with *reason*."""
        self.gone = reason
        for request in self.asked.pop_all():
            fail(request, SERVER_GONE, reason)

    def client_gone(self) -> None:
        """Fail the requests to the client."""
        for request in self.elicited.pop_all():
            fail(request, REFUSED, "the client is gone")

    def resolve_elicited(self, frame: Frame) -> bool:
        """Resolve the proxy's request that the client's *frame* answers; return whether it did."""
        request = self.elicited.pop(frame.id)
        if request is not None:
            resolve(request, frame)
        return request is not None

    async def ask(self, request_id: Any, line: bytes, to_server: Send, method: str = CALL) -> Frame:
        """Send the server a request in place of the client's; return the response."""
        return await self._ask(self.asked, request_id, method, line, to_server)

    async def ask_list(self, params: dict[str, Any], to_server: Send) -> Frame:
        """Ask the server for a page of its tools."""
        request_id = f"toolbus-{new_id()}"
        line = write_frame(id=request_id, method=LIST, params=params)
        return await self.ask(request_id, line, to_server, LIST)

    async def ask_client(self, method: str, params: dict[str, Any], to_client: Send) -> Frame:
        """Send the client a request, one at a time; return the response."""
        request_id = f"toolbus-{new_id()}"
        line = write_frame(id=request_id, method=method, params=params)
        async with self._one_question.current():
            return await self._ask(self.elicited, request_id, method, line, to_client)

    async def _ask(
        self, table: RequestTable, request_id: Any, method: str, line: bytes, send: Send
    ) -> Frame:
        """Send *line*, and return the response; a cancellation is sent on to the other side."""
        future: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        request = OpenRequest(request_id, method, send, future)
        if table is self.asked and self.gone is not None:
            fail(request, SERVER_GONE, self.gone)
        else:
            table.add(request)
            send(line)
        try:
            return await future
        except asyncio.CancelledError:
            # MCP 2025-11-25, basic/utilities/cancellation: the sender of a request cancels it.
            if table.abandon(request_id) is not None:
                params = {"requestId": request_id, "reason": "the response is no longer needed"}
                send(write_frame(method=CANCELLED, params=params))
            raise


def resolve(request: OpenRequest, answer: Frame) -> None:
    """Deliver *answer* to the client, or to the proxy's own future."""
    if request.future is None:
        request.send(answer.line)
    elif not request.future.done():
        request.future.set_result(answer)


def fail(request: OpenRequest, code: int, reason: str) -> None:
    """Answer *request* with an error."""
    error = {"code": code, "message": reason}
    resolve(request, Frame(error_frame(request.id, code, reason), request.id, error=error))


async def run_or_fail(work: Awaitable[None], fail: Callable[[BaseException], object]) -> None:
    """Await *work*, and pass its exception to *fail*, so that each request gets a response."""
    try:
        await work
    except asyncio.CancelledError as error:
        # A handler may raise this itself, without a cancellation of this task.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        fail(error)
    # A handler's exit must not end the proxy for its other clients.
    except (Exception, SystemExit) as error:  # noqa: BLE001 - any failure is answered
        fail(error)


class ProgressTokens:
    """The client's latest progress tokens that are strings; progress with others is dropped.

    Numbers cannot carry prose and always pass. See MCP 2025-11-25, basic/utilities/progress.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    def learn(self, frame: Frame) -> None:
        """Remember the token of the request *frame*, if it has one."""
        match frame.params:
            case {"_meta": {"progressToken": str(token)}}:
                self._known[token] = None
                if len(self._known) > _MAX_TOKENS:
                    self._known.popitem(last=False)

    def holds(self, frame: Frame) -> bool:
        """Return whether the token of the notification *frame* is known, or not a string."""
        match frame.params:
            case {"progressToken": str(token)}:
                return token in self._known
        return True

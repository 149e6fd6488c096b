"""Requests under way: who asked what, and where the answer goes."""

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
"""How many cancelled requests are remembered, whose answers may still come."""

_MAX_TOKENS = 10_000

Send: TypeAlias = Callable[[bytes], object]
"""Takes one line: a JSON-RPC frame, or a batch of them, with its line end."""


class Channels(NamedTuple):
    """Where the lines go that come of one message of either side.

    *to_client* takes the server's notifications and requests, and the proxy's own; *answer* takes
    what answers the client, if that is another place: over HTTP each of its requests has streams
    of its own.
    """

    to_client: Send
    to_server: Send
    answer: Send | None = None
    settle: Callable[[Any, str], object] | None = None
    """Takes the id of a tool call and how it ended, for who keeps a log of that."""

    def reply(self, line: bytes) -> None:
        """Send the client the answer to what it asked."""
        (self.answer or self.to_client)(line)


class OpenRequest(NamedTuple):
    """A request: *send* takes the line that answers it, or *future* the frame, for the proxy.

    *call* is the tool call that the client has cancelled with it.
    """

    id: Any
    method: str
    send: Send
    future: asyncio.Future[Frame] | None = None
    params: Any = UNSET
    call: ToolCall | None = None


class RequestTable:
    """The requests that one side has asked and the other has not answered."""

    def __init__(self) -> None:
        # A client that gives one id to two requests gets both answers, in the order of asking.
        self._open: dict[Any, deque[OpenRequest]] = {}
        self._abandoned: OrderedDict[Any, OpenRequest] = OrderedDict()

    def add(self, request: OpenRequest) -> None:
        """Remember a request until its answer comes."""
        self._open.setdefault(request.id, deque()).append(request)

    def take(self, request_id: Any) -> OpenRequest | None:
        """Return the request that an answer with *request_id* is for, and forget it, or None."""
        return self._take(request_id) or self._abandoned.pop(request_id, None)

    def is_open(self, request_id: Any) -> bool:
        """Return whether a request *request_id* waits for its answer."""
        return request_id in self._open

    def method_of(self, request_id: Any) -> str | None:
        """Return the method of the request that an answer with *request_id* would answer."""
        waiting = self._open.get(request_id)
        request = waiting[0] if waiting else self._abandoned.get(request_id)
        return None if request is None else request.method

    def abandon(self, request_id: Any, instead: OpenRequest | None = None) -> OpenRequest | None:
        """Expect no answer any more to a request, though one may still come; return it.

        An answer that comes all the same is one to *instead*, if that is given.
        """
        if (request := self._take(request_id)) is not None:
            self._abandoned[request_id] = instead or request
            if len(self._abandoned) > _MAX_ABANDONED:
                self._abandoned.popitem(last=False)
        return request

    def _take(self, request_id: Any) -> OpenRequest | None:
        waiting = self._open.get(request_id)
        if not waiting:
            return None
        request = waiting.popleft()
        if not waiting:
            del self._open[request_id]
        return request

    def take_all(self) -> list[OpenRequest]:
        """Return all requests, and forget them."""
        requests = [request for waiting in self._open.values() for request in waiting]
        self._open.clear()
        return requests


class PendingRequests:
    """Requests without an answer yet: *asked* of the server, *elicited* of the client."""

    def __init__(self) -> None:
        self.asked, self.elicited = RequestTable(), RequestTable()
        self.gone: str | None = None
        self._one_question = LoopLock()

    def server_gone(self, reason: str) -> None:
        """Answer what the server will never answer."""
        self.gone = reason
        for request in self.asked.take_all():
            fail(request, SERVER_GONE, reason)

    def client_gone(self) -> None:
        """Let nobody wait for the client any more."""
        for request in self.elicited.take_all():
            fail(request, REFUSED, "the client is gone")

    def take_elicited(self, frame: Frame) -> bool:
        """Take an answer of the client, if the proxy has asked for it."""
        request = self.elicited.take(frame.id)
        if request is not None:
            resolve(request, frame)
        return request is not None

    async def ask(self, request_id: Any, line: bytes, to_server: Send, method: str = CALL) -> Frame:
        """Send the server a request in the place of the client; return the answer."""
        return await self._ask(self.asked, request_id, method, line, to_server)

    async def ask_list(self, params: dict[str, Any], to_server: Send) -> Frame:
        """Ask the server for its tools."""
        request_id = f"toolbus-{new_id()}"
        line = write_frame(id=request_id, method=LIST, params=params)
        return await self.ask(request_id, line, to_server, LIST)

    async def ask_client(self, method: str, params: dict[str, Any], to_client: Send) -> Frame:
        """Ask the client, one question at a time; return the answer."""
        request_id = f"toolbus-{new_id()}"
        line = write_frame(id=request_id, method=method, params=params)
        async with self._one_question.current():
            return await self._ask(self.elicited, request_id, method, line, to_client)

    async def _ask(
        self, table: RequestTable, request_id: Any, method: str, line: bytes, send: Send
    ) -> Frame:
        """Write *line* with *send*, and return its answer; cancelling this cancels the request."""
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
            # MCP 2025-11-25, basic/utilities/cancellation: whoever asked says so.
            if table.abandon(request_id) is not None:
                params = {"requestId": request_id, "reason": "nobody waits for it any more"}
                send(write_frame(method=CANCELLED, params=params))
            raise


def resolve(request: OpenRequest, answer: Frame) -> None:
    """Give *answer* to the client, or to the part of the proxy that waits for it."""
    if request.future is None:
        request.send(answer.line)
    elif not request.future.done():
        request.future.set_result(answer)


def fail(request: OpenRequest, code: int, reason: str) -> None:
    """Answer *request* with an error."""
    error = {"code": code, "message": reason}
    resolve(request, Frame(error_frame(request.id, code, reason), request.id, error=error))


async def run_or_fail(work: Awaitable[None], fail: Callable[[BaseException], object]) -> None:
    """Await *work*; if it dies, give *fail* the reason: whoever waits for an answer gets one."""
    try:
        await work
    except asyncio.CancelledError as error:
        # A handler, or a future of a handler's, may say so though nobody cancels this task.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        fail(error)
    except Exception as error:  # noqa: BLE001 - whatever it is
        fail(error)


class ProgressTokens:
    """The latest texts by which the client wants to be told of progress: it gets no others.

    Numbers are no secret to anybody. See MCP 2025-11-25, basic/utilities/progress.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    def learn(self, frame: Frame) -> None:
        """Take the token of the request *frame*, if it has one."""
        match frame.params:
            case {"_meta": {"progressToken": str(token)}}:
                self._known[token] = None
                if len(self._known) > _MAX_TOKENS:
                    self._known.popitem(last=False)

    def holds(self, frame: Frame) -> bool:
        """Return whether the notification *frame* names no token but one of these."""
        match frame.params:
            case {"progressToken": str(token)}:
                return token in self._known
        return True

"""Requests under way: who asked what, and where the answer goes."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import UNSET

if TYPE_CHECKING:
    import asyncio

    from toolbus.mcp.protocol.jsonrpc import Frame
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
        """Tell whether a request *request_id* waits for its answer."""
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

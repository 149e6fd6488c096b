"""Requests under way: who asked what, and where the answer goes."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from toolbus.mcp.proxy.jsonrpc import read_json

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from msgspec import Raw, UnsetType

    from toolbus.mcp.proxy.jsonrpc import Frame
    from toolbus.messages.records import ToolCall

_MOST_ABANDONED = 1_000
"""How many cancelled requests are remembered, whose answers may still come."""

_MOST_TOKENS = 10_000


class Directions(NamedTuple):
    """Where lines of a session go: *to_client* and *to_server* each take one line."""

    to_client: Callable[[bytes], object]
    to_server: Callable[[bytes], object]


class RpcResponse(NamedTuple):
    """The frame that answers a request, and its line."""

    frame: Frame
    line: bytes


class OpenRequest(NamedTuple):
    """A request: *send* takes the line that answers it, or *future* the frame, for the proxy.

    *call* is the tool call that the client has cancelled with it.
    """

    id: Any
    method: str
    send: Callable[[bytes], object]
    future: asyncio.Future[RpcResponse] | None = None
    params: Any = UNSET
    call: ToolCall | None = None


class RequestTable:
    """The requests that one side has asked and the other has not answered."""

    def __init__(self) -> None:
        # A client that gives one id to two requests gets both answers, in the order of asking.
        self._open: dict[Any, deque[OpenRequest]] = {}
        self._abandoned: OrderedDict[Any, OpenRequest] = OrderedDict()

    def add(self, asked: OpenRequest) -> None:
        """Remember a request until its answer comes."""
        self._open.setdefault(asked.id, deque()).append(asked)

    def take(self, own: Any) -> OpenRequest | None:
        """Return the request that is answered with the id *own*, and forget it; None: nobody's."""
        return self._take(own) or self._abandoned.pop(own, None)

    def is_open(self, own: Any) -> bool:
        """Tell whether a request *own* waits for its answer."""
        return own in self._open

    def method_of(self, own: Any) -> str | None:
        """Return the method of the request that an answer with the id *own* would answer."""
        waiting = self._open.get(own)
        asked = waiting[0] if waiting else self._abandoned.get(own)
        return None if asked is None else asked.method

    def abandon(self, own: Any, late: OpenRequest | None = None) -> OpenRequest | None:
        """Expect no answer any more to a request, though one may still come; return it.

        An answer that comes all the same is one to *late*, if that is given.
        """
        if (asked := self._take(own)) is not None:
            self._abandoned[own] = late or asked
            if len(self._abandoned) > _MOST_ABANDONED:
                self._abandoned.popitem(last=False)
        return asked

    def _take(self, own: Any) -> OpenRequest | None:
        waiting = self._open.get(own)
        if not waiting:
            return None
        asked = waiting.popleft()
        if not waiting:
            del self._open[own]
        return asked

    def take_all(self) -> list[OpenRequest]:
        """Return all requests, and forget them."""
        asked = [one for waiting in self._open.values() for one in waiting]
        self._open.clear()
        return asked


class ProgressTokens:
    """The last texts by which the client wants to be told of progress: no others are its business.

    Numbers say nothing to anybody.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    def learn(self, line: bytes, params: Raw | UnsetType) -> None:
        """Take the token of a request with *params*, if it has one, from its *line*."""
        if params is UNSET or b'"progressToken"' not in line:
            return
        match read_json(params):
            case {"_meta": {"progressToken": str(token)}}:
                self._known[token] = None
                if len(self._known) > _MOST_TOKENS:
                    self._known.popitem(last=False)

    def holds(self, params: Raw | UnsetType) -> bool:
        """Tell whether the *params* of a notification name no token but one of these."""
        match None if params is UNSET else read_json(params):
            case {"progressToken": str(token)}:
                return token in self._known
        return True


class BatchResponse:
    """The answers to the *count* requests of a batch, sent as one array when all are there."""

    def __init__(self, count: int, send: Callable[[bytes], object]) -> None:
        self._count, self._send = count, send
        self._answers: list[bytes] = []

    def add(self, line: bytes) -> None:
        """Take one answer."""
        self._answers.append(line.strip())
        if len(self._answers) == self._count:
            self._send(b"[" + b",".join(self._answers) + b"]\n")

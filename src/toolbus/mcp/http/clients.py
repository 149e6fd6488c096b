"""A client of a relay: its session, its open requests, and responses kept for a resumption."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.mcp.http.session_table import ClientSession
from toolbus.mcp.protocol.jsonrpc import SERVER_GONE, error_frame, frames_in, read_frame
from toolbus.mcp.protocol.revisions import SESSION, cancelled_id
from toolbus.mcp.session.judged_session import JudgedSession
from toolbus.mcp.session.request_table import Channels

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.http.client import HttpReply
    from toolbus.mcp.http.relayed_request import RelayedRequest
    from toolbus.mcp.proxy.proxy import Proxy

_ANSWER_LIMIT, _BYTE_LIMIT = 100, 2**24
"""The number and bytes of responses kept for a client that lost them."""


class Client(ClientSession):
    """A client with its session; *add* is called with the session id given by the server.

    Without such an id, each request is a session of its own, whose questions belong to
    *question_session*.
    """

    def __init__(
        self, proxy: Proxy, add: Callable[[str, Client], None], question_session: str = ""
    ) -> None:
        self.session = JudgedSession(proxy, Channels(_drop, _drop), question_session)
        self._add = add
        self._requests: set[RelayedRequest] = set()
        self.detached: dict[Any, RelayedRequest] = {}
        self._answers: OrderedDict[Any, bytes] = OrderedDict()
        self._size = 0

    @property
    def is_known(self) -> bool:
        """Whether the client has a lasting session."""
        return self.id is not None

    def enter(self, request: RelayedRequest) -> None:
        """Register a request; a cancellation in it is applied to the client's other requests."""
        self._requests.add(request)
        for frame in [request.frame] if request.frame else frames_in(request.request.body):
            cancelled = cancelled_id(frame)
            for other in self._requests if cancelled is not UNSET else ():
                if cancelled in other.ids:
                    other.cancel(cancelled)

    async def leave(self, request: RelayedRequest, *, resumable: bool) -> None:
        """Remove a request; its open parts are kept if *resumable*, else answered with an error."""
        self._requests.discard(request)
        if not self.is_known:
            await self.session.close()
            return
        for request_id in filter(self.session.is_open, request.ids):
            if resumable:
                self.detached[request_id] = request
            else:
                reason = "the client closed the connection before the response"
                await self.session.from_server(error_frame(request_id, SERVER_GONE, reason))

    def learn_id(self, request: RelayedRequest, reply: HttpReply) -> None:
        """Learn the session id from the head of the server's *reply* to *request*.

        See MCP 2025-11-25, Transports, "Session Management".
        """
        assigned, named = reply.headers.get(SESSION), request.request.headers.get(SESSION)
        begins = request.frame is not None and request.frame.method == "initialize"
        if reply.status >= 400:  # noqa: PLR2004 - HTTP's
            return
        if begins and assigned is not None:
            self._add(assigned, self)
        elif named is not None and not self.is_known:
            self._add(named, self)

    async def end(self, reason: str) -> None:  # noqa: ARG002 - the server goes on
        """Close the session; the server's session is left to the server."""
        await self.session.close()

    def remember(self, line: bytes) -> None:
        """Keep a response as sent to the client."""
        frame = read_frame(line)
        if frame is None or len(line) > _BYTE_LIMIT:
            return
        self._size += len(line) - len(self._answers.pop(frame.id, b""))
        self._answers[frame.id] = line
        while len(self._answers) > _ANSWER_LIMIT or self._size > _BYTE_LIMIT:
            self._size -= len(self._answers.popitem(last=False)[1])

    def recall(self, request_id: Any) -> bytes | None:
        """Return the kept response to the request *request_id*, or None."""
        return self._answers.get(request_id)


def _drop(_line: bytes) -> None:
    """Drop a line that belongs to no request: there is no stream for it."""

"""What the servers of a group ask the client, under ids and tokens that no two of them share."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from toolbus.mcp.protocol.jsonrpc import write_frame
from toolbus.mcp.protocol.revisions import params_of

if TYPE_CHECKING:
    from toolbus.mcp.group.grouped_server import GroupedServer
    from toolbus.mcp.protocol.jsonrpc import Frame


class _Asked(NamedTuple):
    server: GroupedServer
    id: Any
    token: Any


class ServerRequests:
    """Requests of servers that the client has not answered."""

    def __init__(self) -> None:
        self._open: dict[str, _Asked] = {}
        self._numbers = count(1)

    def ask(self, server: GroupedServer, frame: Frame) -> bytes:
        """Return the line by which the client is asked what *server* asks in *frame*."""
        request_id = f"{server.name}:{next(self._numbers)}"
        params = {} if frame.params is UNSET else frame.params
        token = None
        if isinstance(params, dict):
            if isinstance(meta := params.get("_meta"), dict) and "progressToken" in meta:
                token, meta["progressToken"] = meta["progressToken"], request_id
            if frame.method == "elicitation/create" and isinstance(params.get("message"), str):
                # A person has to know who asks.
                params["message"] = f"{server.name}: {params['message']}"
        self._open[request_id] = _Asked(server, frame.id, token)
        return write_frame(id=request_id, method=frame.method, params=params)

    def answer(self, frame: Frame) -> None:
        """Give the client's answer to the server that asked."""
        if (asked := self._open.pop(frame.id, None)) is not None:
            kind = "error" if frame.failed else "result"
            value = frame.error if frame.failed else frame.result
            asked.server.write(write_frame(id=asked.id, **{kind: value}))

    def progress(self, frame: Frame) -> None:
        """Pass on what the client tells of a server's request."""
        params = params_of(frame)
        token = params.get("progressToken")
        asked = self._open.get(token) if isinstance(token, str) else None
        if asked is not None:
            params = {**params, "progressToken": asked.token}
            asked.server.write(write_frame(method=frame.method, params=params))

    def cancelled(self, server: GroupedServer, request_id: Any) -> bytes | None:
        """Return the line that tells the client that *server* cancels a request of its own."""
        for ours, asked in self._open.items():
            if asked.server is server and asked.id == request_id:
                del self._open[ours]
                params = {"requestId": ours}
                return write_frame(method="notifications/cancelled", params=params)
        return None

    def forget(self, server: GroupedServer) -> list[bytes]:
        """Return the lines that cancel what *server* has asked, for it is gone."""
        ids = [asked.id for asked in self._open.values() if asked.server is server]
        lines = [self.cancelled(server, request_id) for request_id in ids]
        return [line for line in lines if line is not None]

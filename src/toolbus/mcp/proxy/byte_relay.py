"""The relay of unfiltered lines, for a proxy without handlers and store."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.mcp.protocol.jsonrpc import SERVER_GONE, error_frame, frames_in, scan_top_level
from toolbus.mcp.protocol.revisions import cancelled_id
from toolbus.mcp.session.judged_session import UNEXPECTED, JudgedSession
from toolbus.mcp.session.request_table import Channels, OpenRequest, RequestTable, fail
from toolbus.messages.ids import new_id

if TYPE_CHECKING:
    from toolbus.mcp.proxy.proxy import Proxy


logger = logging.getLogger("toolbus")


def open_session(
    proxy: Proxy, channels: Channels, question_session: str = ""
) -> JudgedSession | ByteRelay:
    """Return a session for a client: a `JudgedSession` if the proxy has handlers or a store."""
    if proxy.current.is_filtering:
        return JudgedSession(proxy, channels, question_session)
    return ByteRelay(proxy, channels)


class ByteRelay:
    """A session that forwards lines unchanged, with the interface of `JudgedSession`.

    Open requests are registered, so that each gets one response even if the server ends.
    """

    def __init__(self, proxy: Proxy, channels: Channels) -> None:
        self._channels, self._open = channels, RequestTable()
        self._gone: str | None = None
        log = proxy.current.log
        self._logged = log.session(new_id()) if log else None

    def from_client(self, line: bytes, channels: Channels | None = None) -> None:
        """Forward a line of the client to the server."""
        channels = channels or self._channels
        if self._logged is not None:
            channels = self._logged.begin(line, channels)
        frames = frames_in(line)
        requests = [frame for frame in frames if frame.is_request]
        if requests and self._gone is not None:
            for frame in requests:
                channels.reply(error_frame(frame.id, SERVER_GONE, self._gone))
            return
        for frame in requests:
            self._open.add(OpenRequest(frame.id, str(frame.method), channels.reply))
        for frame in frames:
            if (cancelled := cancelled_id(frame)) is not UNSET:
                self._open.abandon(cancelled)
        channels.to_server(line)

    def owed(self, batch: bytes) -> list[Any]:
        """Return the ids of the responses to *batch*."""
        return [frame.id for frame in frames_in(batch) if frame.is_request]

    async def from_server(self, line: bytes, channels: Channels | None = None) -> None:
        """Forward a line of the server to the client."""
        self.begin_from_server(line, channels)

    def begin_from_server(self, line: bytes, channels: Channels | None = None) -> None:
        """Forward a line as `from_server`; there is nothing to await."""
        # Each open request gets exactly one end, which a broken or a stray line must not prevent.
        frames = frames_in(line)
        if not frames and line.strip():
            logger.warning("dropped %d bytes of the server: invalid JSON-RPC", len(line))
            if (request := self._open.pop(scan_top_level(line)[0])) is not None:
                fail(request, SERVER_GONE, "the server's response is not valid JSON-RPC")
            return
        ids = [frame.id for frame in frames if frame.is_response]
        asked = [request for each in ids if (request := self._open.pop(each)) is not None]
        if not asked and any(each is not None for each in ids):
            logger.warning(UNEXPECTED, ids[0])
        else:
            (asked[0].send if asked else (channels or self._channels).to_client)(line)

    def server_gone(self, reason: str) -> None:
        """Answer all open requests with an error: the server has ended, for *reason*."""
        self._gone = reason
        for request in self._open.pop_all():
            fail(request, SERVER_GONE, reason)

    def client_gone(self) -> None:
        """Do nothing: the relay sends the client no requests."""

    async def settle(self, seconds: float) -> None:
        """Return at once: no line is held back."""

    async def close(self) -> None:
        """Write the log of unanswered requests."""
        if self._logged is not None:
            self._logged.close()

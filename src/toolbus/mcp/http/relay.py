"""The relay from HTTP to a remote server: each request of a client is sent on by the proxy."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from toolbus.http.client import TransportError
from toolbus.mcp.http.clients import Client
from toolbus.mcp.http.failures import HttpError
from toolbus.mcp.http.relayed_request import RelayedRequest
from toolbus.mcp.http.requests import check_judged, check_method
from toolbus.mcp.http.session_table import SessionTable
from toolbus.mcp.http.upstream import client_identity
from toolbus.mcp.protocol.jsonrpc import SERVER_GONE, error_frame, read_frame
from toolbus.mcp.protocol.revisions import SESSION, is_stateless

if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Hashable

    from toolbus.http.server import HttpRequest
    from toolbus.mcp.http.upstream import Upstream
    from toolbus.mcp.protocol.jsonrpc import Frame
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.session.tool_list import ToolList
    from toolbus.messages.records import ToolCall

logger = logging.getLogger("toolbus")

_SETTLE = 1.0
"""Seconds that handlers have, at the end of the proxy, for the errors of aborted requests."""

_ENDED = "the proxy has ended"
_LIST_SECONDS, _MAX_LISTS = 60.0, 100
"""Seconds after which a tool list of a stateless client is fetched again; the number kept."""

_MAX_CLIENTS = 10_000
"""The number of stateless clients whose tasks are remembered with their calls."""


class Relay:
    """A backend that relays to *server*, with at most *limit* sessions, each *idle* seconds."""

    def __init__(self, proxy: Proxy, server: Upstream, *, limit: int, idle: float) -> None:
        self._proxy, self._server, self._limit = proxy, server, limit
        self._clients: SessionTable[Client] = SessionTable(idle)
        self._requests: set[RelayedRequest] = set()
        self._unfiltered: dict[asyncio.Task[Any], HttpRequest] = {}
        self._is_closing = False
        # Tool lists from stateless requests, for later requests of the same client.
        self._tool_lists: dict[Hashable, ToolList] = {}
        self._task_calls: dict[Hashable, OrderedDict[str, ToolCall]] = {}

    async def answer(self, request: HttpRequest) -> None:
        """Answer *request*; a cancellation means that the client is gone."""
        check_method(request)
        if (oauth := self._server.oauth) is not None:
            if oauth.serves(request.path):
                await oauth.answer(request)
                return
            oauth.restore_token(request)
        known = self._clients.get(request.headers.get(SESSION))
        proxy = self._proxy.current
        if known is None and not proxy.is_filtering and proxy.log is None:
            await self._relay_bytes(request)
        else:
            await self._relay_judged(request, known)

    async def _relay_bytes(self, request: HttpRequest) -> None:
        """Forward *request* and its response unchanged, without handlers."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - always set in a coroutine
        self._unfiltered[task] = request
        try:
            reply = await self._server.send(request)
            try:
                fields = self._server.response_fields(request, reply)
                if "content-length" in reply.headers:
                    fields.append(("content-length", reply.headers["content-length"]))
                data, ends = reply.take_waiting()
                await request.begin(reply.status, fields, data, ends=ends)
                if not ends:
                    async for piece in reply.pieces():
                        await request.write(piece)
                    await request.write(b"", ends=True)
            finally:
                reply.close()
        except TransportError as error:
            if not request.has_begun:
                raise _bad_gateway(request, str(error)) from error
            logger.warning("a response of the server was cut off: %s", error)
        except asyncio.CancelledError:
            if not self._is_closing or request.has_begun:
                raise
            raise _bad_gateway(request, _ENDED) from None
        finally:
            del self._unfiltered[task]

    async def _relay_judged(self, request: HttpRequest, known: Client | None) -> None:
        frame = read_frame(request.body) if request.method == "POST" else None
        check_judged(request, frame)
        self._clients.shrink(self._limit)
        if known is not None:
            await self._relay(request, frame, known)
        elif not is_stateless(request.headers):
            await self._relay(request, frame, Client(self._proxy, self._clients.add))
        else:
            await self._relay_stateless(request, frame)

    async def _relay_stateless(self, request: HttpRequest, frame: Frame | None) -> None:
        """Relay a stateless request, with the tool list and tasks of earlier ones."""
        asker = client_identity(request.fields)
        question_session = self._proxy.client_approvals.session_of(asker)
        client = Client(self._proxy, self._clients.add, question_session)
        key = asker, self._proxy.current, time.monotonic() // _LIST_SECONDS
        if (known := self._tool_lists.get(key)) is not None:
            client.session.tool_list.adopt(known)
        # A task is created by one request, and polled by later requests of the same client.
        messages = client.session.server_messages
        messages.task_calls = self._task_calls.setdefault(asker, messages.task_calls)
        try:
            await self._relay(request, frame, client)
        finally:
            if client.session.tool_list.listed:
                self._tool_lists.pop(key, None)
                self._tool_lists[key] = client.session.tool_list
            while len(self._tool_lists) > _MAX_LISTS:
                del self._tool_lists[next(iter(self._tool_lists))]
            while len(self._task_calls) > _MAX_CLIENTS:
                del self._task_calls[next(iter(self._task_calls))]

    async def _relay(self, request: HttpRequest, frame: Frame | None, client: Client) -> None:
        relayed = RelayedRequest(request, frame, client, self._server)
        self._requests.add(relayed)
        client.enter(relayed)
        try:
            with self._clients.using(client):
                await relayed.run()
        finally:
            self._requests.discard(relayed)
            # MCP 2025-11-25, Transports, "Session Management", 3 and 5.
            status = relayed.response.status
            deleted = request.method == "DELETE" and status < 300  # noqa: PLR2004 - HTTP's
            if deleted or status == 404:  # noqa: PLR2004 - as above
                ended = self._clients.get(request.headers.get(SESSION))
                if ended is not None:
                    self._clients.end(ended)

    def end_streams(self) -> None:
        """End the standing streams and the subscriptions."""
        for relayed in self._requests:
            if relayed.is_standing:
                relayed.end()
        for task, request in self._unfiltered.items():
            if request.method == "GET":
                task.cancel()

    async def close(self) -> None:
        """Answer open requests with an error, and end all sessions."""
        self._is_closing = True
        for task in self._unfiltered:
            task.cancel()
        remaining = tuple(self._requests)
        for relayed in remaining:
            for request_id in relayed.ids:
                line = error_frame(request_id, SERVER_GONE, _ENDED)
                await relayed.client.session.from_server(line)
        # Handlers see these errors too, before the client does.
        await asyncio.gather(*[relayed.client.session.settle(_SETTLE) for relayed in remaining])
        for relayed in remaining:
            relayed.end()
        await self._clients.close(_ENDED)
        self._server.wire.close()


def _bad_gateway(request: HttpRequest, reason: str) -> HttpError:
    frame = read_frame(request.body)
    request_id = frame.id if frame is not None and frame.is_request else None
    return HttpError(502, reason, request_id=request_id, code=SERVER_GONE)

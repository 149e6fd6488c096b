"""Requests of a client other than tool calls, through `MCP_REQUEST_BEFORE` to the server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.events.catalogue import MCP_REQUEST_BEFORE, McpRequest
from toolbus.mcp.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    REFUSED,
    Frame,
    error_frame,
    write_frame,
)
from toolbus.mcp.session.request_table import run_or_fail
from toolbus.mcp.session.server_messages import ResponseRejected, explain, fail_closed
from toolbus.messages.immutable import thaw

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.bus import EventBus
    from toolbus.events.catalogue import Scope
    from toolbus.mcp.session.request_table import Channels

    Forward = Callable[[Frame, Channels], None]

METHODS = frozenset({"resources/read", "resources/subscribe", "prompts/get", "completion/complete"})
"""The methods for resources, prompts and completions, which make the server act or disclose."""


class ClientRequests:
    """The requests of `METHODS` at the handlers of *bus*, which go on to *forward* afterwards."""

    def __init__(self, bus: EventBus, scope: Scope, forward: Forward) -> None:
        self._bus, self._scope, self._forward = bus, scope, forward
        self._by_id: dict[Any, asyncio.Task[None]] = {}

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks of the requests that are at handlers."""
        return [*self._by_id.values()]

    def start(self, frame: Frame, channels: Channels) -> bool:
        """Start the handlers for *frame*; return False if no handler subscribes to its method."""
        if frame.method not in METHODS or not self._bus.has_listeners(MCP_REQUEST_BEFORE):
            return False
        if not frame.is_request:
            # Dropped: a server may act on a notification as on a request.
            return True
        task = asyncio.create_task(self._run(frame, channels))
        self._by_id[frame.id] = task
        task.add_done_callback(lambda _: self._forget(frame.id, task))
        return True

    def cancel(self, request_id: Any) -> bool:
        """Cancel the request *request_id*; return False if it is not at handlers."""
        task = self._by_id.get(request_id)
        return task is not None and task.cancel()

    def _forget(self, request_id: Any, task: asyncio.Task[None]) -> None:
        if self._by_id.get(request_id) is task:
            del self._by_id[request_id]

    async def _run(self, frame: Frame, channels: Channels) -> None:
        def fail(error: BaseException) -> None:
            reason = explain(str(frame.method), error)
            code = REFUSED if isinstance(error, ResponseRejected) else INTERNAL_ERROR
            channels.reply(error_frame(frame.id, code, reason))

        await run_or_fail(self._judge(frame, channels), fail)

    async def _judge(self, frame: Frame, channels: Channels) -> None:
        params = {} if frame.params is UNSET else frame.params
        if not isinstance(params, dict):
            problem = f"expected an object as the params of {frame.method}"
            channels.reply(error_frame(frame.id, INVALID_PARAMS, problem))
            return
        method = str(frame.method)
        with fail_closed(method):
            asked = McpRequest(method=method, params=params)
            context = await self._bus.apply(MCP_REQUEST_BEFORE, asked, scope=self._scope)
        judged = context.value
        if context.denied is not None:
            raise ResponseRejected(context.denied.reason)
        if judged.method != method:
            raise ResponseRejected(f"a handler changed the method to {judged.method!r}")
        if judged is not asked:
            params = thaw(judged.params)
            line = write_frame(id=frame.id, method=method, params=params)
            # Handlers later see the response together with these params.
            frame = Frame(line, frame.id, method, params)
        self._forward(frame, channels)

"""Requests of a client besides tool calls, past `MCP_REQUEST_BEFORE` to the server."""

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
"""The methods that name a resource or a prompt, and make the server act or tell."""


class ClientRequests:
    """Shows requests of `METHODS` to the handlers of *bus*; what they leave goes to *forward*."""

    def __init__(self, bus: EventBus, scope: Scope, forward: Forward) -> None:
        self._bus, self._scope, self._forward = bus, scope, forward
        self._by_id: dict[Any, asyncio.Task[None]] = {}

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks of those that handlers judge at the moment."""
        return [*self._by_id.values()]

    def take(self, frame: Frame, channels: Channels) -> bool:
        """Begin to judge the request *frame*; False: it is none that a handler wants to see."""
        if frame.method not in METHODS or not self._bus.has_listeners(MCP_REQUEST_BEFORE):
            return False
        if not frame.is_request:
            # Some servers may act upon a notification as well.
            return True
        task = asyncio.create_task(self._run(frame, channels))
        self._by_id[frame.id] = task
        task.add_done_callback(lambda _: self._forget(frame.id, task))
        return True

    def stop(self, request_id: Any) -> bool:
        """Judge the client's *request_id* no more, and send it nowhere; False: it is not here."""
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
            problem = f"the params of {frame.method} are no object"
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
            raise ResponseRejected(f"a handler made it another method, {judged.method!r}")
        if judged is not asked:
            params = thaw(judged.params)
            line = write_frame(id=frame.id, method=method, params=params)
            # Its parameters tell later how its answer is to be shown.
            frame = Frame(line, frame.id, method, params)
        self._forward(frame, channels)

"""The tool calls of one client that are under way: how they begin, and how they are ended."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.mcp.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Frame,
    error_frame,
)
from toolbus.mcp.session.calls import CallRequest, ProxiedCall
from toolbus.mcp.session.client_approvals import CallApprovals
from toolbus.mcp.session.forms import can_elicit
from toolbus.mcp.session.named_sessions import client_name
from toolbus.mcp.session.pending_requests import run_or_fail
from toolbus.mcp.session.response_filter import ResponseFilter, explain
from toolbus.mcp.session.round_trips import ForeignStateError
from toolbus.mcp.session.server_tools import ServerTools

if TYPE_CHECKING:
    from toolbus.events.catalogue import Scope
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.session.pending_requests import PendingRequests
    from toolbus.mcp.session.request_table import Channels
    from toolbus.mcp.session.session_log import SessionLog
    from toolbus.mcp.session.tool_list import ToolList

logger = logging.getLogger("toolbus")


class RunningCalls:
    """Takes each call past the handlers; a client that *elicits* is put what guards ask.

    Questions are kept in *question_session*; if that is "", in what the proxy's named session has
    for the *client*, and without one in the session of *scope*.
    """

    def __init__(
        self,
        proxy: Proxy,
        scope: Scope,
        pending: PendingRequests,
        *,
        tool_list: ToolList,
        response_filter: ResponseFilter,
        log: SessionLog,
        question_session: str = "",
    ) -> None:
        self._proxy, self._scope, self._pending = proxy, scope, pending
        self._tool_list, self._filter, self._log = tool_list, response_filter, log
        self._approvals, self._asks_in = proxy.client_approvals, question_session
        self.elicits, self.client_left = False, asyncio.Event()
        self.client = ""
        # All that are under way, and by the client's ids, of which it may use one twice.
        self._under_way: set[ProxiedCall] = set()
        self._by_id: dict[Any, ProxiedCall] = {}

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks of all that are under way."""
        return [call.task for call in self._under_way]

    def introduce(self, params: dict[str, Any]) -> None:
        """Learn from *params* of `initialize` who the client is, and whether it shows forms."""
        self.elicits, self.client = self.elicits or can_elicit(params), client_name(params)

    def take(self, frame: Frame, channels: Channels) -> None:
        """Begin the call *frame*."""
        if frame.id is UNSET or frame.id is None:
            logger.warning("the client sent a tool call without an id; it is dropped")
            if frame.id is None:
                problem = error_frame(None, INVALID_REQUEST, "a tool call needs an id")
                channels.reply(problem)
            return
        try:
            request = CallRequest(frame, channels)
        except ValueError as error:
            channels.reply(error_frame(frame.id, INVALID_PARAMS, f"no tool call: {error}"))
            return
        call = self._by_id[frame.id] = ProxiedCall(
            request, self._pending, self._filter, self._log, self._proxy.timeout
        )
        self._under_way.add(call)
        call.task = asyncio.create_task(self._run(call))
        # Not in its `finally`, which a task that is cancelled before it begins never enters.
        call.task.add_done_callback(lambda _: self._end(call))

    def pop(self, request_id: Any) -> ProxiedCall | None:
        """Return the call of the client's *request_id*, which no longer finds it, or None."""
        return self._by_id.pop(request_id, None)

    def stop(self) -> None:
        """Cancel all."""
        for call in tuple(self._under_way):
            call.stop()

    async def _run(self, call: ProxiedCall) -> None:
        request = call.request

        def fail(error: BaseException) -> None:
            reason = explain(f"tool {request.call.name!r}", error)
            request.channels.reply(error_frame(request.id, INTERNAL_ERROR, reason))

        await run_or_fail(self._answer(call), fail)

    def _approvals_of(self, request: CallRequest) -> CallApprovals | None:
        """Return the gate that decides what guards ask about *request*; None if nobody decides."""
        clients = self._approvals
        if not self.elicits and clients.stored is None:
            return None
        elicit = partial(self._pending.elicit, request.channels.to_client)
        return CallApprovals(
            clients,
            request,
            self._session_for(request),
            elicit if self.elicits else None,
            self.client_left,
        )

    def _session_for(self, request: CallRequest) -> str:
        """Return the session of the questions about *request*."""
        named = self._approvals.named
        if named is None or self._asks_in:
            return self._asks_in or self._scope.session_id
        return named.id_for(client_name(request.params) or self.client)

    def _end(self, call: ProxiedCall) -> None:
        self._under_way.discard(call)
        if self._by_id.get(call.request.id) is call:
            del self._by_id[call.request.id]

    async def _answer(self, call: ProxiedCall) -> None:
        channels = call.request.channels
        advertised = await self._tool_list.advertise(call.request, self._pending.ask_list)
        listed = lambda: self._tool_list.specs  # noqa: E731 - a list that comes in is a new one
        tools = ServerTools(listed, advertised, call, self._proxy.tools)
        approvals = self._approvals_of(call.request)
        try:
            if approvals is not None:
                await approvals.take_verdict()
        except ForeignStateError as error:
            channels.reply(error_frame(call.request.id, INVALID_PARAMS, str(error)))
            return
        line = await call.answer(tools, advertised, self._scope, approvals)
        if line is not None:
            channels.reply(line)

"""What a server says, on its way past the handlers to the client."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.mcp.protocol.jsonrpc import (
    INTERNAL_ERROR,
    REFUSED,
    Frame,
    error_frame,
    write_frame,
)
from toolbus.mcp.protocol.revisions import LIST
from toolbus.mcp.session.calls import answer_member
from toolbus.mcp.session.pending_requests import run_or_fail
from toolbus.mcp.session.response_filter import UNCHANGED, ResponseRejected, explain

if TYPE_CHECKING:
    from toolbus.mcp.session.request_table import Channels, OpenRequest
    from toolbus.mcp.session.response_filter import ResponseFilter
    from toolbus.mcp.session.session_log import SessionLog
    from toolbus.mcp.session.tool_list import ToolList

logger = logging.getLogger("toolbus")

_RECORDED = frozenset({"resources/read", "prompts/get"})


class ServerMessageFilter:
    """Lets handlers see what is no answer to a tool call, and sends on what they leave of it."""

    def __init__(
        self, response_filter: ResponseFilter, tool_list: ToolList, log: SessionLog
    ) -> None:
        self._filter, self._tool_list, self._log = response_filter, tool_list, log

    async def answer(self, request: OpenRequest, frame: Frame) -> None:
        """Send the client the answer *frame* to its *request* as handlers leave it."""

        def fail(error: BaseException) -> None:
            reason = explain(request.method, error)
            request.send(error_frame(request.id, INTERNAL_ERROR, reason))

        await run_or_fail(self._answer(request, frame), fail)

    async def _answer(self, request: OpenRequest, frame: Frame) -> None:
        kind, came = answer_member(frame)
        try:
            body = await self._judge(request, kind, came)
        except ResponseRejected as error:
            request.send(error_frame(request.id, REFUSED, error.reason))
            return
        same = body is UNCHANGED
        request.send(frame.line if same else write_frame(id=request.id, **{kind: body}))

    async def _judge(self, request: OpenRequest, kind: str, came: Any) -> Any:
        if kind == "error":
            return await self._filter.error(request.method, came, request.call)
        if request.call is not None:
            return await self._filter.result(request.call, came)
        params = request.params if request.params is not UNSET else {}
        if request.method == LIST:
            # Handlers see the tools, and then what the list says of them.
            first = not (isinstance(params, dict) and params.get("cursor"))
            listed = await self._tool_list.relist(came, first=first)
            body = await self._filter.body(LIST, came if listed is UNCHANGED else listed)
            return listed if body is UNCHANGED else body
        if request.method in _RECORDED:
            # The model will read it.
            record = self._log.call_record()
            return await self._filter.recorded(record, request.method, came, params)
        return await self._filter.body(request.method, came)

    async def pass_on(self, frame: Frame, channels: Channels) -> None:
        """Send the client a notification or a request of the server as handlers leave it."""

        def fail(error: BaseException) -> None:
            reason = explain(str(frame.method), error)
            if frame.is_request:
                channels.to_server(error_frame(frame.id, INTERNAL_ERROR, reason))

        await run_or_fail(self._pass_on(frame, channels), fail)

    async def _pass_on(self, frame: Frame, channels: Channels) -> None:
        assert isinstance(frame.method, str)  # noqa: S101 - it has one
        if frame.method.endswith("list_changed"):
            self._tool_list.forget()
        try:
            body = UNCHANGED
            if frame.params is not UNSET:
                body = await self._filter.body(frame.method, frame.params, params=True)
        except ResponseRejected as error:
            logger.warning("%s of the server was withheld: %s", frame.method, error.reason)
            if frame.is_request:
                channels.to_server(error_frame(frame.id, REFUSED, error.reason))
            return
        if body is UNCHANGED:
            channels.to_client(frame.line)
            return
        request_id = {"id": frame.id} if frame.is_request else {}
        channels.to_client(write_frame(**request_id, method=frame.method, params=body))

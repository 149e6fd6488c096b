"""What a server says, on its way past the handlers to the client."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.mcp.proxy.calls import answer_member
from toolbus.mcp.proxy.jsonrpc import REFUSED, Frame, error_frame, read_json, write_frame
from toolbus.mcp.proxy.response_filter import UNCHANGED, Refused
from toolbus.mcp.proxy.texts import ERROR
from toolbus.mcp.proxy.tool_list import LIST

if TYPE_CHECKING:
    from toolbus.mcp.proxy.request_table import Directions, OpenRequest
    from toolbus.mcp.proxy.response_filter import ResponseFilter
    from toolbus.mcp.proxy.session_log import SessionLog
    from toolbus.mcp.proxy.tool_list import ToolList

logger = logging.getLogger("toolbus")

_RECORDED = frozenset({"resources/read", "prompts/get"})


class ServerMessageFilter:
    """Lets handlers see what is no answer to a tool call, and sends on what they leave of it."""

    def __init__(
        self, response_filter: ResponseFilter, tool_list: ToolList, log: SessionLog
    ) -> None:
        self._filter, self._tool_list, self._log = response_filter, tool_list, log

    async def answer(self, asked: OpenRequest, frame: Frame, line: bytes) -> None:
        """Send an answer to the client as handlers leave it."""
        kind, raw = answer_member(frame)
        try:
            if kind == "error":
                body = await self._filter.body(ERROR, raw, name=asked.method, call=asked.call)
            elif asked.call is not None:
                body = await self._filter.result(asked.call, raw)
            elif asked.method == LIST:
                body = await self._relisted(asked, raw)
            elif asked.method in _RECORDED:
                body = await self._recorded(asked, raw)
            else:
                body = await self._filter.body(asked.method, raw)
        except Refused as error:
            asked.send(error_frame(asked.id, REFUSED, error.reason))
            return
        if body is UNCHANGED:
            asked.send(line)
        else:
            asked.send(write_frame(id=asked.id, **{kind: body}))

    async def _relisted(self, asked: OpenRequest, raw: Any) -> Any:
        """Return what handlers leave of a list of tools: of the tools, and of what it says."""
        listed = await self._tool_list.relist(raw, first=_first(asked.params))
        body = await self._filter.body(LIST, raw if listed is UNCHANGED else listed)
        return listed if body is UNCHANGED else body

    async def _recorded(self, asked: OpenRequest, raw: Any) -> Any:
        """Return what handlers leave of a text that the model will read; it is kept as well."""
        params = read_json(asked.params) if asked.params is not UNSET else {}
        return await self._filter.recorded(self._log.transcript(), asked.method, raw, params)

    async def words(self, frame: Frame, line: bytes, directions: Directions) -> None:
        """Take a notification or a request of the server."""
        assert isinstance(frame.method, str)  # noqa: S101 - it has one
        if frame.method.endswith("list_changed"):
            self._tool_list.forget()
        try:
            body = UNCHANGED
            if frame.params is not UNSET:
                body = await self._filter.body(frame.method, frame.params, params=True)
        except Refused as error:
            logger.warning("%s of the server was withheld: %s", frame.method, error.reason)
            if frame.is_request:
                directions.to_server(error_frame(frame.id, REFUSED, error.reason))
            return
        if body is UNCHANGED:
            directions.to_client(line)
            return
        own = {"id": frame.id} if frame.is_request else {}
        directions.to_client(write_frame(**own, method=frame.method, params=body))


def _first(params: Any) -> bool:
    """Tell whether *params* ask for the first page of a list."""
    found = read_json(params) if params is not UNSET else None
    return not (isinstance(found, dict) and found.get("cursor"))

"""A tool call as the client wrote it, and as a handler rewrote it, for the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.mcp.proxy.frames import Frame, read_json, write_frame
from toolbus.mcp.proxy.texts import CALL
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import thaw
from toolbus.messages.records import ToolCall

if TYPE_CHECKING:
    from toolbus.messages.records import JsonObject


VERSION = "io.modelcontextprotocol/protocolVersion"
"""Where each request of the stateless revision, 2026-07-28, names its revision."""


class Request:
    """A `tools/call` of the client: its *line* and what it says.

    Raises `FreezeError` and `ValueError` for what is no call of a tool.
    """

    def __init__(self, frame: Frame, line: bytes) -> None:
        self.id, self.line = frame.id, line
        params = {} if frame.params is UNSET else read_json(frame.params)
        name = params.get("name") if isinstance(params, dict) else None
        if not isinstance(name, str):
            raise ValueError("it needs a `name`")  # noqa: TRY004 - of what came, not of an argument
        arguments = params.get("arguments")
        if not (arguments is None or isinstance(arguments, dict)):
            raise ValueError("`arguments` must be an object")
        self.params: dict[str, Any] = params
        self.call = ToolCall(id=new_id(), name=name, arguments=arguments or {})

    def line_of(self, result: dict[str, Any]) -> bytes:
        """Return the line that answers with *result*, which no server gave."""
        meta = self.params.get("_meta")
        # The stateless revision tells results that are whole from those that ask back.
        if isinstance(meta, dict) and VERSION in meta:
            result = {"resultType": "complete", **result}
        return write_frame(id=self.id, result=result)

    def line_for(self, own: Any, name: str, arguments: JsonObject) -> bytes:
        """Return the line that asks for *name* with *arguments* under the id *own*."""
        if own is self.id and name == self.call.name and arguments is self.call.arguments:
            return self.line
        params = {**self.params, "name": name, "arguments": thaw(arguments)}
        return write_frame(id=own, method=CALL, params=params)

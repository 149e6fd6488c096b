"""Arguments that HTTP headers repeat: `Mcp-Param-…`, for the properties with an `x-mcp-header`.

See SEP-2243, in the revision of 2026-07-28 under "Custom Headers".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from toolbus.mcp.proxy.frames import read_frame, read_json
from toolbus.mcp.proxy.revisions import marked, mirrored, params_of

if TYPE_CHECKING:
    from toolbus.mcp.proxy.frames import Frame


class Mirrors:
    """Which arguments of which tools are repeated; learned from the lists that pass."""

    def __init__(self) -> None:
        self._tools: dict[str, list[tuple[tuple[str, ...], str]]] = {}

    def learn(self, line: bytes) -> None:
        """Take the answer to a `tools/list`."""
        answer = read_frame(line)
        try:
            result = {} if answer is None or answer.result is UNSET else read_json(answer.result)
        except ValueError:
            return
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            match tool:
                case {"name": str(name), "inputSchema": dict(schema)}:
                    self._tools[name] = list(marked(schema))

    def headers(self, frame: Frame | None) -> dict[str, str]:
        """Return the headers that repeat arguments of the call *frame*."""
        if frame is None or frame.method != "tools/call" or not any(self._tools.values()):
            return {}
        params = params_of(frame)
        name = params.get("name")
        ways = self._tools.get(name, []) if isinstance(name, str) else []
        return mirrored(ways, params.get("arguments"))

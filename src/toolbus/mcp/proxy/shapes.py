"""The members that MCP knows, where handlers tell one from another by its name."""

from __future__ import annotations

from toolbus.mcp.proxy.alike import Shape

ERROR = "error"
"""Stands for the method of what is said in the place of a result."""

_OF_CALLS = frozenset(
    {"name", "arguments", "_meta", "task", "inputResponses", "requestState"},
)
ASKED = {
    "tools/call": _OF_CALLS,
    "prompts/get": _OF_CALLS,
    "resources/read": frozenset({"uri", "_meta", "inputResponses", "requestState"}),
}
"""What clients ask, and handlers decide by."""

_RESOURCE = Shape.of("uri", "mimeType", "text", "blob")
_BLOCK = Shape.of(
    *("type", "text", "data", "mimeType", "uri", "name", "title", "description", "annotations"),
    resource=_RESOURCE,
)
_TOOL = Shape.of(
    *("name", "title", "description", "annotations", "icons", "execution"),
    *("inputSchema", "outputSchema"),
)
_HANDSHAKE = Shape.of(
    *("protocolVersion", "supportedVersions", "capabilities", "serverInfo", "instructions"),
)
SAID = {
    "tools/call": Shape.of("structuredContent", "isError", "resultType", content=_BLOCK),
    "resources/read": Shape.of("resultType", contents=_RESOURCE),
    "prompts/get": Shape.of("description", "resultType", messages=Shape.of("role", content=_BLOCK)),
    "tools/list": Shape.of("nextCursor", "resultType", "ttlMs", "cacheScope", tools=_TOOL),
    "initialize": _HANDSHAKE,
    "server/discover": _HANDSHAKE,
    "notifications/message": Shape.of("level", "logger", "data"),
    "notifications/progress": Shape.of("progressToken", "progress", "total", "message"),
    ERROR: Shape.of("code", "message", "data"),
}
"""What servers say, and handlers see at its place."""

"""Methods and member names of MCP, and differences between its revisions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.mcp.protocol.jsonrpc import Frame

SESSION, REVISION = "mcp-session-id", "mcp-protocol-version"
"""Session headers: revision 2025-11-25, basic/transports, "Streamable HTTP"."""
CALL, LIST, LISTEN = "tools/call", "tools/list", "subscriptions/listen"
CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
ELICIT = "elicitation/create"
ERROR = "error"
"""The pseudo-method of a server's error response."""
VERSION = "io.modelcontextprotocol/protocolVersion"
"""The `_meta` member with the revision, in each request of the stateless revision, 2026-07-28."""
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
"""The `_meta` member with the client's capabilities, in each such request."""
CLIENT = "io.modelcontextprotocol/clientInfo"
"""The `_meta` member with the client's name and version, in each such request."""
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
"""The `_meta` member of a notification with the id of its `subscriptions/listen` request."""
HANDSHAKE = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
"""The revisions with an `initialize` handshake; later revisions are stateless."""

_WITHOUT_TIMEOUT = frozenset({CALL, LISTEN})
_TOOL_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")


def is_tool_name(value: Any) -> bool:
    """Return whether *value* is a valid tool name: MCP 2025-11-25, server/tools, "Tool Names"."""
    return isinstance(value, str) and _TOOL_NAME.fullmatch(value) is not None


def is_stateless(headers: Mapping[str, str]) -> bool:
    """Return whether a request with *headers* is stateless; closing its response cancels it."""
    return headers.get(REVISION, "2025-03-26") not in HANDSHAKE


def has_no_timeout(frame: Frame | None) -> bool:
    """Return whether the response to *frame* may take any time, like the result of a tool."""
    return frame is None or frame.method in _WITHOUT_TIMEOUT


def params_of(frame: Frame | None) -> dict[str, Any]:
    """Return the params of *frame*, empty if they are missing or not an object."""
    params = None if frame is None else frame.params
    return params if isinstance(params, dict) else {}


def cancelled_id(frame: Frame | None) -> Any:
    """Return the id of the request that *frame* cancels, UNSET if it is not a cancellation."""
    if frame is None or frame.method != CANCELLED:
        return UNSET
    request_id = params_of(frame).get("requestId")
    return request_id if isinstance(request_id, str | int) else UNSET


def version_of(params: Mapping[str, Any]) -> str | None:
    """Return the revision named in the *params* of a stateless request, or None."""
    meta = params.get("_meta")
    version = meta.get(VERSION) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None

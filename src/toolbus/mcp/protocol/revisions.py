"""Methods and names of MCP, and facts in which its revisions differ."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.mcp.protocol.jsonrpc import Frame

SESSION, REVISION = "mcp-session-id", "mcp-protocol-version"
"""Headers of sessions: revision 2025-11-25, basic/transports, "Streamable HTTP"."""
CALL, LIST, LISTEN = "tools/call", "tools/list", "subscriptions/listen"
CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
ELICIT = "elicitation/create"
ERROR = "error"
"""Stands for the method of what a server says in the place of a result."""
VERSION = "io.modelcontextprotocol/protocolVersion"
"""Where each request of the stateless revision, 2026-07-28, names its revision: in its `_meta`."""
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
"""Where each request of that revision says what its client can do: in its `_meta` as well."""
CLIENT = "io.modelcontextprotocol/clientInfo"
"""Where each request of that revision says who its client is."""
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
"""Where a notification of that revision names the `subscriptions/listen` that it is about."""
HANDSHAKE = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
"""The revisions that begin with `initialize`; those that came later are stateless."""

_WITHOUT_TIMEOUT = frozenset({CALL, LISTEN})
_TOOL_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")


def is_tool_name(value: Any) -> bool:
    """Return whether *value* can be a tool's name: MCP, server features, tools, tool names."""
    return isinstance(value, str) and _TOOL_NAME.fullmatch(value) is not None


def is_stateless(headers: Mapping[str, str]) -> bool:
    """Return whether a request with *headers* stands for itself: closing its answer cancels it."""
    return headers.get(REVISION, "2025-03-26") not in HANDSHAKE


def has_no_timeout(frame: Frame | None) -> bool:
    """Return whether the answer to *frame* may take any time: a tool works as long as it likes."""
    return frame is None or frame.method in _WITHOUT_TIMEOUT


def params_of(frame: Frame | None) -> dict[str, Any]:
    """Return the params of *frame*, empty if there are none that can be read."""
    params = None if frame is None else frame.params
    return params if isinstance(params, dict) else {}


def cancelled_id(frame: Frame | None) -> Any:
    """Return the id of the request that *frame* cancels, UNSET if it cancels none."""
    if frame is None or frame.method != CANCELLED:
        return UNSET
    request_id = params_of(frame).get("requestId")
    return request_id if isinstance(request_id, str | int) else UNSET


def version_of(params: Mapping[str, Any]) -> str | None:
    """Return the revision that the *params* of a stateless request name; None: they name none."""
    meta = params.get("_meta")
    version = meta.get(VERSION) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None

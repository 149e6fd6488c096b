"""MCP: a proxy between any client and any server, on the raw frames of JSON-RPC."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolbus.http.addresses import is_loopback, read_url
    from toolbus.mcp.http.listening import Listening
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.proxy.stdio import run_link, run_stdio
    from toolbus.mcp.transport.limits import ProxyLimits

# Loaded when it is asked for: a proxy begins without most of it.
_PLACES = {
    "Listening": "mcp.http.listening",
    "Proxy": "mcp.proxy.proxy",
    "ProxyLimits": "mcp.transport.limits",
    "is_loopback": "http.addresses",
    "read_url": "http.addresses",
    "run_link": "mcp.proxy.stdio",
    "run_stdio": "mcp.proxy.stdio",
}

__all__ = [
    "Listening",
    "Proxy",
    "ProxyLimits",
    "is_loopback",
    "read_url",
    "run_link",
    "run_stdio",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        msg = f"module 'toolbus.mcp.proxy' has no attribute {name!r}"
        raise AttributeError(msg)
    value = globals()[name] = getattr(import_module(f"toolbus.{_PLACES[name]}"), name)
    return value

"""MCP: a proxy between any client and any server, on the raw frames of JSON-RPC."""

from __future__ import annotations

from toolbus.hosts.mcp.listening import Listening, is_loopback
from toolbus.hosts.mcp.proxy import Proxy
from toolbus.hosts.mcp.remote import run_remote
from toolbus.hosts.mcp.stdio import Limits, run_stdio
from toolbus.hosts.mcp.wire import read_url

__all__ = [
    "Limits",
    "Listening",
    "Proxy",
    "is_loopback",
    "read_url",
    "run_remote",
    "run_stdio",
]

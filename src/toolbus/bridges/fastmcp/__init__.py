"""The bridge to FastMCP: components as a middleware of a server."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.bridges.fastmcp.middleware import FastMCPBridge as FastMCPBridge

__getattr__, __dir__ = lazy_exports(__name__, {"FastMCPBridge": "middleware"})

"""The bridge to FastMCP: components as a middleware of a server."""

from toolbus.bridges.fastmcp.middleware import FastMCPBridge

__all__ = ["FastMCPBridge"]

"""MCP: a proxy between any client and any server, on the raw frames of JSON-RPC."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_names import lazily

if TYPE_CHECKING:
    from toolbus.http.addresses import is_loopback as is_loopback
    from toolbus.http.addresses import read_url as read_url
    from toolbus.mcp.http.listening import Listening as Listening
    from toolbus.mcp.proxy.proxy import Proxy as Proxy
    from toolbus.mcp.proxy.stdio import run_link as run_link
    from toolbus.mcp.proxy.stdio import run_stdio as run_stdio
    from toolbus.mcp.transport.limits import ProxyLimits as ProxyLimits

__getattr__, __dir__ = lazily(
    __name__,
    {
        "Listening": ".http.listening",
        "Proxy": "proxy",
        "ProxyLimits": ".transport.limits",
        "is_loopback": "..http.addresses",
        "read_url": "..http.addresses",
        "run_link": "stdio",
        "run_stdio": "stdio",
    },
)

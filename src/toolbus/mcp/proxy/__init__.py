"""The MCP proxy: handlers between any client and any server, on raw JSON-RPC frames."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.http.urls import is_loopback as is_loopback
    from toolbus.http.urls import read_url as read_url
    from toolbus.mcp.http.options import ListenOptions as ListenOptions
    from toolbus.mcp.proxy.proxy import Proxy as Proxy
    from toolbus.mcp.proxy.stdio import run_link as run_link
    from toolbus.mcp.proxy.stdio import run_stdio as run_stdio
    from toolbus.mcp.transport.limits import ProxyLimits as ProxyLimits

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "ListenOptions": ".http.options",
        "Proxy": "proxy",
        "ProxyLimits": ".transport.limits",
        "is_loopback": "..http.urls",
        "read_url": "..http.urls",
        "run_link": "stdio",
        "run_stdio": "stdio",
    },
)

"""The proxy as an HTTP server, in front of a server at an address or of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import SplitResult

from toolbus.mcp.proxy.http.bridge import Bridge
from toolbus.mcp.proxy.http.forwarding import Upstream
from toolbus.mcp.proxy.http.front import Rules
from toolbus.mcp.proxy.http.relay import Relay
from toolbus.mcp.proxy.http.serving import bind, serve
from toolbus.mcp.proxy.http_client import HttpClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.mcp.proxy.addresses import Listening
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.proxy.stdio import ProxyLimits


async def run_listener(
    proxy: Proxy,
    server: SplitResult | Sequence[str],
    limits: ProxyLimits,
    listening: Listening,
    *,
    token: str | None = None,
    shown: str | None = None,
) -> int:
    """Let HTTP clients in to *server*, an address or a command, until a signal; return 0.

    *token* is what the server is shown, *shown* what clients must show. Raises `OSError`.
    """
    most, idle = listening.sessions, listening.idle
    back: Bridge | Relay
    if isinstance(server, SplitResult):
        upstream = Upstream(HttpClient(), server, limits, token, guarded=shown is not None)
        back = Relay(proxy, upstream, most=most, idle=idle)
    else:
        back = Bridge(proxy, server, limits, most=most, idle=idle)
    rules = Rules(
        path=listening.path,
        hosts=frozenset([one.lower() for one in (listening.host, *listening.hosts)]),
        origins=frozenset([one.lower() for one in listening.origins]),
        token=shown,
        body=limits.frame,
        seconds=listening.seconds,
    )
    return await serve(bind(listening.host, listening.port), back, rules, limits.grace)

"""The proxy as an HTTP server, in front of a server at an address or of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import SplitResult

from toolbus.mcp.http.asgi_app import Rules
from toolbus.mcp.http.bridge import Bridge
from toolbus.mcp.http.forwarding import Upstream
from toolbus.mcp.http.relay import Relay
from toolbus.mcp.http.serving import bind, serve
from toolbus.mcp.oauth.gateway import ISSUERS, OAuthGateway
from toolbus.mcp.oauth.metadata import RESOURCE, SERVER
from toolbus.mcp.transport.http_client import HttpClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.mcp.group.grouped_server import ServerSettings
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.transport.addresses import Listening
    from toolbus.mcp.transport.limits import ProxyLimits


async def run_listener(
    proxy: Proxy,
    server: SplitResult | Sequence[str],
    limits: ProxyLimits,
    listening: Listening,
    *,
    token: str | None = None,
    headers: tuple[tuple[str, str], ...] = (),
    servers: Sequence[ServerSettings] = (),
    client_token: str | None = None,
) -> int:
    """Let HTTP clients in to *server*, an address or a command, until a signal; return 0.

    *servers* stand in the place of a command.

    *token* is what the server is shown, with *headers* of each request; *client_token* is what
    clients must show. Raises `OSError`.
    """
    limit, idle = listening.sessions, listening.idle
    backend: Bridge | Relay
    oauth = None
    if isinstance(server, SplitResult):
        guarded, wire = client_token is not None, HttpClient()
        # Where clients show a token for the proxy they cannot show one of theirs for the server.
        oauth = None if guarded else OAuthGateway(wire, server, listening.path)
        upstream = Upstream(wire, server, limits, token, guarded, headers, oauth)
        backend = Relay(proxy, upstream, limit=limit, idle=idle)
    else:
        backend = Bridge(proxy, server, limits, servers=servers, limit=limit, idle=idle)
    rules = Rules(
        path=listening.path,
        hosts=frozenset([name.lower() for name in (listening.host, *listening.hosts)]),
        origins=frozenset([name.lower() for name in listening.origins]),
        token=client_token,
        body=limits.frame,
        seconds=listening.seconds,
        others=() if oauth is None else (RESOURCE, SERVER, ISSUERS),
    )
    return await serve(bind(listening.host, listening.port), backend, rules, limits.grace)

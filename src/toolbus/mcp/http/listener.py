"""The proxy as an HTTP server, in front of a remote server or a command."""

from __future__ import annotations

import asyncio
import resource
import sys
from typing import TYPE_CHECKING
from urllib.parse import SplitResult

from toolbus.http.client import HttpClient
from toolbus.http.server import HttpServer, listen_on
from toolbus.mcp.http.bridge import Bridge
from toolbus.mcp.http.front import Front, Rules
from toolbus.mcp.http.relay import Relay
from toolbus.mcp.http.upstream import Upstream
from toolbus.mcp.oauth.gateway import ISSUERS, OAuthGateway
from toolbus.mcp.oauth.metadata import RESOURCE, SERVER
from toolbus.mcp.proxy.stdio import signal_handlers

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from toolbus.mcp.group.settings import ServerSettings
    from toolbus.mcp.http.options import ListenOptions
    from toolbus.mcp.proxy.proxy import Proxy
    from toolbus.mcp.transport.limits import ProxyLimits

_CONNECTIONS = 16_384
"""The maximum number of open connections, if the system allows it."""


async def run_listener(
    proxy: Proxy,
    server: SplitResult | Sequence[str],
    limits: ProxyLimits,
    listening: ListenOptions,
    *,
    token: str | None = None,
    headers: tuple[tuple[str, str], ...] = (),
    servers: Sequence[ServerSettings] = (),
    client_token: str | None = None,
) -> int:
    """Serve *server*, a URL or a command, to HTTP clients until a signal; return 0.

    *servers* replace the command. *token* and *headers* are sent to the server with each request;
    *client_token* is required from clients. Raises `OSError`.
    """
    limit, idle = listening.sessions, listening.idle
    backend: Bridge | Relay
    oauth = None
    if isinstance(server, SplitResult):
        guarded, wire = client_token is not None, HttpClient()
        # Clients that send a token for the proxy cannot also send their own for the server.
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
        other_paths=() if oauth is None else (RESOURCE, SERVER, ISSUERS),
    )
    bound = listen_on(listening.host, listening.port)
    await _serve(bound, Front(backend, rules), rules, limits.grace)
    return 0


async def _serve(bound: socket.socket, front: Front, rules: Rules, grace: float) -> None:
    """Serve clients on *bound* until a signal.

    Open requests then have *grace* seconds. A second signal ends the wait.
    """
    limit = _allow_connections()
    server = HttpServer(front.answer, seconds=rules.seconds, limit=limit, unique=("mcp-",))
    stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ending: asyncio.Task[None] | None = None

    def stop(_number: int) -> None:
        if not stopped.done():
            stopped.set_result(None)
        elif ending is not None:
            ending.cancel()

    with signal_handlers(stop):
        await server.start(bound)
        _print_address(bound, rules.path)
        await stopped
        ending = asyncio.create_task(front.close(grace))
        await asyncio.wait({ending})
        await server.close(max(1.0, grace))


def _print_address(bound: socket.socket, path: str) -> None:
    host, port = bound.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    print(f"toolbus: listening on http://{name}:{port}{path}", file=sys.stderr, flush=True)  # noqa: T201


def _allow_connections() -> int:
    """Raise the limit of open files; return the number of connections that it allows.

    Each client may need a second connection, to the server.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, _CONNECTIONS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    files = 2 * _CONNECTIONS if soft == resource.RLIM_INFINITY else max(soft, wanted)
    return min(_CONNECTIONS, files // 2)

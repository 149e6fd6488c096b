"""The proxy in front of an HTTP server: the client on pipes, the server at an address."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from toolbus.mcp.proxy.byte_relay import open_session
from toolbus.mcp.proxy.stdio import calling_on_signals, pass_requests
from toolbus.mcp.session.request_table import Channels
from toolbus.mcp.transport.limits import ProxyLimits
from toolbus.mcp.transport.pipes import open_sink
from toolbus.mcp.transport.remote import RemoteServer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from urllib.parse import SplitResult

    from toolbus.mcp.oauth.logins import Logins
    from toolbus.mcp.proxy.proxy import Proxy


async def run_remote(
    proxy: Proxy,
    url: SplitResult,
    limits: ProxyLimits | None = None,
    *,
    token: str | None = None,
    headers: Iterable[tuple[str, str]] = (),
    logins: Logins | None = None,
    output: int = 1,
) -> int:
    """Stand between standard input and output and the server at *url*; return 0 at the end.

    *token* is sent as bearer token, and *headers* with each request; they stand in no log. Of
    *logins* the one for the address is used.
    """
    limits = limits or ProxyLimits()
    sink = await open_sink(output)
    remote = RemoteServer(url, limits, token, headers, logins)
    session = open_session(proxy, Channels(sink.write, remote.write))
    remote.take, remote.is_open = session.from_server, session.is_open
    asking = asyncio.create_task(pass_requests(session, sink, remote.drain, limits.frame))
    if await _ended(asking, sink.lost):
        session.client_gone()
        await session.settle(limits.grace)
        await remote.settle(limits.grace)
    asking.cancel()
    await asyncio.wait({asking})
    await remote.close()
    session.server_gone("the proxy has ended")
    await session.close()
    await sink.close(limits.grace)
    return 0


async def _ended(asking: asyncio.Task[None], lost: asyncio.Future[None]) -> bool:
    """Wait until the client has left, or a signal ends us; tell whether it was the client."""
    stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def stop(_number: int) -> None:
        if not stopped.done():
            stopped.set_result(None)

    with calling_on_signals(stop):
        ends: set[asyncio.Future[Any]] = {asking, stopped, lost}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    return not stopped.done()

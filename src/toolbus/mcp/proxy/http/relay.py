"""HTTP in front of HTTP: each request of a client becomes one of the proxy's to the server."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextvars import ContextVar
from typing import TYPE_CHECKING

from toolbus.mcp.proxy.http.checks import check_judged, check_method
from toolbus.mcp.proxy.http.clients import Client
from toolbus.mcp.proxy.http.errands import Errand
from toolbus.mcp.proxy.http.forwarding import identity
from toolbus.mcp.proxy.http.listings import Listings
from toolbus.mcp.proxy.jsonrpc import SERVER_GONE, error_frame, read_frame
from toolbus.mcp.proxy.revisions import SESSION, is_stateless
from toolbus.mcp.proxy.session import ProxySession

if TYPE_CHECKING:
    from toolbus.mcp.proxy.http.forwarding import Upstream
    from toolbus.mcp.proxy.http.visits import Visit
    from toolbus.mcp.proxy.proxy import Proxy

# What a session does for a request it does in that request's context, also much later.
_errand: ContextVar[Errand] = ContextVar("errand")


_SETTLE = 1.0


class Relay:
    """Takes requests to the server; at most *most* sessions are known, each *idle* seconds long."""

    def __init__(self, proxy: Proxy, server: Upstream, *, most: int, idle: float) -> None:
        self._proxy, self._server, self._most, self._idle = proxy, server, most, idle
        self._clients: OrderedDict[str, Client] = OrderedDict()
        self._visits: dict[asyncio.Task[None] | None, Errand] = {}
        self._listings = Listings()
        self._closing: set[asyncio.Task[None]] = set()

    async def take(self, visit: Visit) -> None:
        """Answer *visit*; being cancelled means that the client has gone."""
        check_method(visit)
        frame = read_frame(visit.body) if visit.method == "POST" else None
        self._make_room()
        client = self._clients.get(visit.headers.get(SESSION, ""))
        if self._proxy.judging if client is None else client.session.judging:
            check_judged(visit, frame)
        key = None
        if client is None:
            client = Client(ProxySession(self._proxy, _to_client, _to_server), self._keep)
            if is_stateless(visit.headers) and client.session.judging:
                key = identity(visit.fields)
                self._listings.lend(key, client.session)
        errand = Errand(visit, frame, client, self._server)
        task = asyncio.current_task()
        _errand.set(errand)
        self._visits[task] = errand
        client.enter(errand)
        try:
            await errand.run()
        finally:
            del self._visits[task]
            if key is not None:
                self._listings.keep(key, client.session)
            self._rest(client)
            ended = visit.method == "DELETE" and errand.response.head[0] < 300  # noqa: PLR2004 - HTTP's
            gone = ended or errand.response.head[0] == 404  # noqa: PLR2004 - as above
            if gone and (known := self._clients.get(visit.headers.get(SESSION, ""))) is not None:
                self._forget(known)

    async def close(self, grace: float) -> None:
        """End what goes on by itself; give the rest *grace* seconds, and then an error."""
        for errand in self._visits.values():
            if errand.listens:
                errand.end()
        if self._visits:
            await asyncio.wait([*filter(None, self._visits)], timeout=grace)
        left = tuple(self._visits.values())
        for errand in left:
            for own in errand.own:
                line = error_frame(own, SERVER_GONE, "the proxy has ended")
                await errand.client.session.from_server(line)
        # Handlers see that as well, before the client does.
        await asyncio.gather(*[one.client.session.settle(_SETTLE) for one in left])
        for errand in left:
            errand.end()
        for client in tuple(self._clients.values()):
            self._forget(client)
        if self._closing:
            await asyncio.wait(self._closing)
        self._server.wire.close()

    def _keep(self, client: Client, own: str) -> None:
        client.id = own
        self._clients[own] = client

    def _make_room(self) -> None:
        for client in tuple(self._clients.values()):
            if len(self._clients) <= self._most:
                break
            if not client.errands:
                self._forget(client)

    def _rest(self, client: Client) -> None:
        """Keep *client* for as long as it may be idle, if nothing of it is under way."""
        if client.id is None or client.forgotten:
            return
        if client.id in self._clients:
            self._clients.move_to_end(client.id)
        if not client.errands:
            loop = asyncio.get_running_loop()
            client.expect(loop.call_later(self._idle, self._forget, client))

    def _forget(self, client: Client) -> None:
        if client.id is not None and self._clients.get(client.id) is client:
            del self._clients[client.id]
        client.forgotten = True
        client.expect(None)
        task = asyncio.create_task(client.session.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _to_client(line: bytes) -> None:
    _errand.get().to_client(line)


def _to_server(line: bytes) -> None:
    _errand.get().to_server(line)

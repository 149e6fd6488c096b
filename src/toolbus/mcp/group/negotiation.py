"""The negotiation of a revision between a client and the servers of a group.

The servers are addressed as the client begins: with a handshake, or with stateless requests. A
group supports the revisions common to its servers, so one server without stateless revisions
limits the group to handshakes.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from toolbus.mcp.group.grouped_server import GroupedServer, ServerError, rpc_error
from toolbus.mcp.group.merge import merged_discovery, merged_handshake
from toolbus.mcp.protocol.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND, SERVER_GONE, write_frame
from toolbus.mcp.protocol.revisions import HANDSHAKE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    Hello = dict[str, Any]
    Hellos = dict[str, Hello]
    Begun = Coroutine[Any, Any, Hello | None]

logger = logging.getLogger("toolbus")

START = 20.0
"""Seconds after which the handshake completes without servers that have not answered.

Clients wait some 30 to 60 seconds.
"""

DISCOVER = "server/discover"
_UNKNOWN_REVISION = -32022
"""MCP 2026-07-28, basic/versioning, "Protocol Version Negotiation"."""
_INITIALIZED = write_frame(method="notifications/initialized")
_INITIALIZED_BEFORE = "the client has already sent initialize"


class Negotiation:
    """The negotiation with *servers*; *changed* is called for a server that answers late."""

    def __init__(
        self, servers: Mapping[str, GroupedServer], changed: Callable[[GroupedServer], None]
    ) -> None:
        self._servers, self._changed = servers, changed
        self.is_greeted = self.is_initialized = False
        self.revision: str | None = None
        """The client's stateless revision, None after a handshake."""
        self._beginning: set[asyncio.Task[Any]] = set()
        self._discovery: asyncio.Task[Hellos] | None = None

    async def _begin(self, begin: Callable[[GroupedServer], Begun]) -> Hellos:
        """Return the results of *begin* by server name, without late servers."""
        # Late servers are left out, but never all of them: one must answer, or all must be gone.
        tasks = {name: asyncio.create_task(begin(server)) for name, server in self._servers.items()}
        self._beginning = {task for task in self._beginning if not task.done()} | {*tasks.values()}
        try:
            await asyncio.wait(tasks.values(), timeout=START)
        except asyncio.CancelledError:
            for task in tasks.values():
                task.cancel()
            raise
        hellos: Hellos = {}
        while not hellos:
            waiting = [task for task in tasks.values() if not task.done()]
            for name, task in tasks.items():
                if task.done() and (hello := task.result()) is not None:
                    hellos[name] = hello
            if not (hellos or waiting):
                reasons = "; ".join(str(server.gone) for server in self._servers.values())
                raise rpc_error(SERVER_GONE, f"no server is available: {reasons}")
            if not hellos:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for name, task in tasks.items():
            if not task.done():
                logger.warning(
                    "server %r has not answered within %g s; left out so far", name, START
                )
        return hellos

    async def close(self) -> None:
        """Cancel all pending handshakes."""
        for task in self._beginning:
            task.cancel()
        await asyncio.gather(*self._beginning, return_exceptions=True)

    async def initialize(self, params: Any) -> dict[str, Any]:
        """Initialize all servers with *params*, and return the merged result."""
        if self._discovery is not None:
            # A client may probe for the stateless revision first.
            self._discovery.cancel()
            self.revision = None
        hellos = await self._begin(partial(self._initialize, params=params))
        self.is_greeted = True
        return merged_handshake(hellos)

    async def _initialize(self, server: GroupedServer, params: Any) -> Hello | None:
        """Return the result of a server's handshake, None if it fails."""
        await server.connected.wait()
        if server.is_probed and server.ready:
            await server.restart()
        try:
            hello: Hello = await server.ask("initialize", params)
            match hello:
                case {"protocolVersion": str(), "capabilities": dict()}:
                    server.is_probed = False
                    self._admit(server, hello)
                    return hello
            reason = "invalid result of initialize"
        except ServerError as error:
            reason = str(error)[:200]
            if server.is_probed and server.gone is None:
                # A cancelled probe may still have been the server's first request.
                await server.restart()
                return await self._initialize(server, params)
        server.fail(f"refused the handshake: {reason}")
        server.finish()
        return None

    async def discover(self, params: dict[str, Any], version: str) -> None:
        """Discover the servers, once; raises `ServerError` unless all support *version*."""
        if self.is_greeted:
            raise rpc_error(INVALID_REQUEST, _INITIALIZED_BEFORE)
        if self._discovery is None:
            probe = partial(self._probe, params={"_meta": params["_meta"]})
            self._discovery = asyncio.create_task(self._begin(probe))
            self._beginning.add(self._discovery)
        discovery = self._discovery
        try:
            hellos = await asyncio.shield(discovery)
        except asyncio.CancelledError:
            if not discovery.cancelled():
                raise
            raise rpc_error(INVALID_REQUEST, _INITIALIZED_BEFORE) from None
        common = _common_revisions(hellos)
        if version in common:
            self.revision = version
            return
        self._discovery = None
        if not HANDSHAKE.issuperset(common):
            data = {"supported": common, "requested": version}
            error = {"code": _UNKNOWN_REVISION, "message": "unsupported revision", "data": data}
            raise ServerError(error)
        names = [name for name, hello in hellos.items() if version not in _revisions_of(hello)]
        reason = "supports only revisions with initialize"
        raise rpc_error(METHOD_NOT_FOUND, f"server {', '.join(map(repr, names))} {reason}")

    async def _probe(self, server: GroupedServer, params: dict[str, Any]) -> Hello | None:
        """Return the result of a server's `server/discover`, None if it is gone."""
        await server.connected.wait()
        server.is_probed, hello = True, {}
        try:
            hello = await server.ask(DISCOVER, params)
        except ServerError as error:
            match error.error:
                case {"code": -32022, "data": {"supported": list(revisions)}}:
                    hello = {"supportedVersions": revisions}
                case _:
                    server.is_probed = False
        if server.gone is not None:
            return None
        hello = hello if isinstance(hello, dict) else {}
        if self.revision is not None and self.revision not in _revisions_of(hello):
            server.fail(f"does not support revision {self.revision}, unlike the other servers")
            server.finish()
        elif isinstance(hello.get("capabilities"), dict):
            self._admit(server, hello)
        return hello

    def discovered(self) -> dict[str, Any]:
        """Return the merged result of `server/discover`."""
        hellos = {server.name: server.hello for server in self._servers.values() if server.ready}
        return merged_discovery(hellos, _common_revisions(hellos))

    def _admit(self, server: GroupedServer, hello: Hello) -> None:
        server.hello, server.ready = hello, server.gone is None
        if self.is_initialized:
            server.write(_INITIALIZED)
        if self.is_initialized or self.revision is not None:
            self._changed(server)

    def initialized(self) -> None:
        """Send the client's `notifications/initialized` to the servers."""
        self.is_initialized = True
        for server in self._servers.values():
            if server.ready:
                server.write(_INITIALIZED)


def _revisions_of(hello: Hello) -> list[str]:
    revisions = hello.get("supportedVersions")
    known = revisions if isinstance(revisions, list) else []
    return [revision for revision in known if isinstance(revision, str)]


def _common_revisions(hellos: Hellos) -> list[str]:
    """Return the revisions that all servers support, in the order of the first."""
    all_revisions = [_revisions_of(hello) for hello in hellos.values()]
    known = all_revisions[0] if all_revisions else []
    return [revision for revision in known if all(revision in each for each in all_revisions)]

"""What the client of a group asks: each request is answered by one server, or by all of them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.mcp.group.grouped_server import GroupedServer, ServerError
from toolbus.mcp.group.merging import (
    LISTS,
    merged_handshake,
    merged_list,
    split_name,
)
from toolbus.mcp.group.resource_table import ResourceTable
from toolbus.mcp.protocol.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    SERVER_GONE,
    write_frame,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from toolbus.mcp.protocol.jsonrpc import Frame

logger = logging.getLogger("toolbus")

START, LIST = 20.0, 15.0
"""Seconds until the client hears of a handshake, or a list, without those who have not answered.

Clients wait some 30 to 60 for theirs.
"""

_MOST_PAGES = 1_000
_NAMED = {"tools/call": "tool", "prompts/get": "prompt"}
_OF_RESOURCES = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})
_UNKNOWN_RESOURCE = -32002
"""MCP 2025-11-25, server/resources, "Error Handling"."""

_INITIALIZED = write_frame(method="notifications/initialized")

Params = dict[str, Any]


class GroupRequests:
    """Answers what a client asks of *servers*; *notify* takes what it is told besides."""

    def __init__(self, servers: Sequence[GroupedServer], notify: Callable[[bytes], object]) -> None:
        self._servers = {server.name: server for server in servers}
        self._notify = notify
        self._resources, self._knows_resources = ResourceTable(), False
        self._greeted = self._initialized = False

    async def answer(self, frame: Frame) -> Any:
        """Return the result of the request *frame*; raises `ServerError`."""
        method, params = str(frame.method), _params(frame.params)
        if method == "initialize":
            return await self._initialize(frame.params)
        if method == "ping":
            return {}
        if not self._greeted:
            reason = "several servers behind one proxy speak revisions that begin with initialize"
            raise _error(INVALID_REQUEST, reason)
        if method in LISTS:
            return {LISTS[method][1]: await self._list(method)}
        if method == "logging/setLevel":
            return await self._set_level(frame.params)
        server, params = await self._addressee(method, params)
        return await server.ask(method, params, token=_token(params))

    def initialized(self) -> None:
        """Tell the servers that the client has heard of their handshakes."""
        self._initialized = True
        for server in self._servers.values():
            if server.ready:
                server.write(_INITIALIZED)

    def changed(self, server: GroupedServer) -> None:
        """Tell the client that lists with what *server* has are others now."""
        self._knows_resources = False
        for name in ("tools", "prompts", "resources"):
            if self._initialized and name in server.capabilities:
                self._notify(write_frame(method=f"notifications/{name}/list_changed"))

    # --- the handshake -------------------------------------------------------------------------

    async def _initialize(self, params: Any) -> Any:
        greetings = {
            name: asyncio.create_task(self._greet(server, params))
            for name, server in self._servers.items()
        }
        await asyncio.wait(greetings.values(), timeout=START)
        results: dict[str, Any] = {}
        while not results:
            results = {n: task.result() for n, task in greetings.items() if task.done()}
            results = {name: result for name, result in results.items() if result is not None}
            waiting = [task for task in greetings.values() if not task.done()]
            if not (results or waiting):
                reasons = "; ".join(str(server.gone) for server in self._servers.values())
                raise _error(SERVER_GONE, f"no server could be started: {reasons}")
            if not results:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for name, task in greetings.items():
            if not task.done():
                logger.warning("server %r has not answered in %g s; others go on", name, START)
        self._greeted = True
        return merged_handshake(results)

    async def _greet(self, server: GroupedServer, params: Any) -> Any:
        """Return the result of a server's handshake, None if it takes none."""
        await server.connected.wait()
        try:
            result = await server.ask("initialize", params)
            match result:
                case {"protocolVersion": str(), "capabilities": dict(capabilities)}:
                    server.capabilities, server.ready = capabilities, server.gone is None
                case _:
                    raise ServerError({"message": "its handshake is none"})  # noqa: TRY301
        except (ServerError, ValueError) as error:
            server.fail(f"refused the handshake: {_worded(error)}")
            server.finish()
            return None
        if self._initialized:
            server.write(_INITIALIZED)
            self.changed(server)
        return result

    # --- of all servers ------------------------------------------------------------------------

    async def _list(self, method: str) -> list[dict[str, Any]]:
        capability, member = LISTS[method]
        servers = [each for each in self._servers.values() if each.offers(capability)]
        lists = await asyncio.gather(*[self._list_of(each, method, member) for each in servers])
        listed = {each.name: items for each, items in zip(servers, lists, strict=True)}
        if capability == "resources":
            self._resources.learn(method, listed)
        return merged_list(method, listed.items())

    async def _list_of(self, server: GroupedServer, method: str, member: str) -> list[Any]:
        """Return all pages of a server's list, empty if it does not give them."""
        items: list[Any] = []
        params: dict[str, Any] = {}
        try:
            async with asyncio.timeout(LIST):
                for _ in range(_MOST_PAGES):
                    page = await server.ask(method, params)
                    listed = page.get(member) if isinstance(page, dict) else None
                    items += listed if isinstance(listed, list) else []
                    if not (isinstance(page, dict) and isinstance(page.get("nextCursor"), str)):
                        break
                    params = {"cursor": page["nextCursor"]}
        except TimeoutError:
            logger.warning("server %r gave no list within %g s; left out", server.name, LIST)
            return []
        except (ServerError, ValueError) as error:
            logger.warning("server %r gave no list: %s; left out", server.name, _worded(error))
            return []
        return items

    async def _set_level(self, params: Any) -> Any:
        servers = [each for each in self._servers.values() if each.offers("logging")]
        asking = [each.ask("logging/setLevel", params) for each in servers]
        for result in await asyncio.gather(*asking, return_exceptions=True):
            if isinstance(result, BaseException):
                logger.warning("a server did not take the level of its log: %s", _worded(result))
        return {}

    # --- of one server -------------------------------------------------------------------------

    async def _addressee(self, method: str, params: Params) -> tuple[GroupedServer, Params]:
        """Return the server that a request is for, and its params as that server knows them."""
        if method in _NAMED:
            server, name = self._named(_NAMED[method], _text(params.get("name")))
            return server, {**params, "name": name}
        if method in _OF_RESOURCES:
            return await self._owner(_text(params.get("uri"))), params
        if method == "completion/complete":
            reference: Any = params.get("ref")
            match reference:
                case {"type": "ref/prompt", "name": str(prompt)}:
                    server, rest = self._named("prompt", prompt)
                    return server, {**params, "ref": {**reference, "name": rest}}
                case {"type": "ref/resource", "uri": str(uri)}:
                    return await self._owner(uri), params
            raise _error(INVALID_PARAMS, "`ref` must name a prompt or a resource")
        raise _error(METHOD_NOT_FOUND, f"several servers behind one proxy have no {method!r}")

    def _named(self, kind: str, name: str) -> tuple[GroupedServer, str]:
        prefix, rest = split_name(name)
        if (server := self._servers.get(prefix)) is None or not rest:
            known = ", ".join(f"{each}_…" for each in self._servers)
            raise _error(INVALID_PARAMS, f"no server has the {kind} {name!r}; known: {known}")
        return server, rest

    async def _owner(self, uri: str) -> GroupedServer:
        """Return the only server that has the resource *uri*.

        A resource of two servers is refused: either may have listed it to answer for the other.
        """
        if not self._knows_resources and not self._resources.servers_of(uri):
            self._knows_resources = True
            await self._list("resources/list")
            await self._list("resources/templates/list")
        names = self._resources.servers_of(uri)
        having = [each for each in self._servers.values() if each.offers("resources")]
        if not names and len(having) == 1:
            return having[0]
        if not names:
            raise _error(_UNKNOWN_RESOURCE, f"no server lists the resource {uri!r}")
        if len(names) > 1:
            reason = f"the resource {uri!r} is listed by the servers {', '.join(names)}"
            raise _error(_UNKNOWN_RESOURCE, f"{reason}; disable all but one of them")
        return self._servers[names[0]]


def _params(value: Any) -> Params:
    if value is UNSET:
        return {}
    if not isinstance(value, dict):
        raise _error(INVALID_PARAMS, "params must be an object")
    return value


def _token(params: Mapping[str, Any]) -> Any:
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if isinstance(token, str | int) else None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _error(INVALID_PARAMS, "a request needs the name, or the uri, of what it is for")
    return value


def _error(code: int, message: str) -> ServerError:
    return ServerError({"code": code, "message": message})


def _worded(error: BaseException) -> str:
    """Return what *error* says; the text of a server's, which it may have chosen to mislead."""
    value = error.error if isinstance(error, ServerError) else None
    text = value.get("message") if isinstance(value, dict) else None
    return repr(text)[:200] if isinstance(text, str) else str(error)[:200]

"""Requests of the client of a group: each is answered by one server, or by all of them."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.mcp.group.grouped_server import GroupedServer, ServerError, rpc_error
from toolbus.mcp.group.merge import (
    LISTED_KINDS,
    LISTS,
    UNCACHED,
    URIS,
    merged_list,
    named,
    split_name,
    unnamed,
)
from toolbus.mcp.group.negotiation import DISCOVER, Negotiation
from toolbus.mcp.group.subscriptions import ClientSubscription
from toolbus.mcp.protocol.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    write_frame,
)
from toolbus.mcp.protocol.revisions import LISTEN, SUBSCRIPTION, version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from toolbus.mcp.protocol.jsonrpc import Frame

logger = logging.getLogger("toolbus")

LIST = 15.0
"""Seconds until the client hears of a list without the servers that have not answered."""

_MOST_PAGES = 1_000
_PREFIXED = {
    "tools/call": ("tool", "name"),
    "prompts/get": ("prompt", "name"),
    **dict.fromkeys(
        ("tasks/get", "tasks/result", "tasks/update", "tasks/cancel"), ("task", "taskId")
    ),
}
"""By method: what a request is for, and the param that names it and its server."""

_OF_RESOURCES = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})
_UNKNOWN_RESOURCE = -32002
"""MCP 2025-11-25, server/resources, "Error Handling"."""
_EXPRESSION = re.compile(r"\{[^{}]*\}")
"""RFC 6570, 2.2; what one stands for is any text here, which is enough to find a server."""

Params = dict[str, Any]


class Router:
    """Answers what a client asks of *servers*; *notify* takes what it is told besides."""

    def __init__(self, servers: Sequence[GroupedServer], notify: Callable[[bytes], object]) -> None:
        self._servers = {server.name: server for server in servers}
        self._notify = notify
        self.negotiation = Negotiation(self._servers, self.changed)
        self._subscriptions: dict[Any, ClientSubscription] = {}
        # By the member that names a resource, and by server: what was listed last.
        self._listed: dict[str, dict[str, set[str]]] = {"uri": {}, "uriTemplate": {}}
        self._knows_resources = False

    async def answer(self, frame: Frame) -> Any:
        """Return the result of the request *frame*; raises `ServerError`."""
        method, params = str(frame.method), _params(frame.params)
        if method == "initialize":
            return await self.negotiation.initialize(frame.params)
        if method == "ping":
            return {}
        if (version := version_of({"_meta": _meta(params)})) is not None:
            await self.negotiation.discover(params, version)
            if method == DISCOVER:
                return self.negotiation.discovered()
        elif method == DISCOVER or not self.negotiation.is_greeted:
            reason = "clients begin with initialize, or name their revision in each request"
            raise rpc_error(METHOD_NOT_FOUND if method == DISCOVER else INVALID_REQUEST, reason)
        if method in LISTS:
            listed = {LISTS[method][1]: await self._list(method, params)}
            return listed if self.negotiation.revision is None else {**listed, **UNCACHED}
        if method == "logging/setLevel":
            return await self._set_level(frame.params)
        if method == LISTEN and self.negotiation.revision is not None:
            return await self._listen(frame.id, params)
        server, params = await self._addressee(method, params)
        token = _meta(params).get("progressToken")
        token = token if isinstance(token, str | int) else None
        result = await server.ask(method, unnamed(server.name, params), token=token)
        return named(server.name, result)

    # --- what the client is told of changes ----------------------------------------------------

    def changed(self, server: GroupedServer) -> None:
        """Tell the client that the lists with items of *server* have changed."""
        self._knows_resources = False
        for kind in LISTED_KINDS:
            if kind in server.capabilities:
                if self.negotiation.is_initialized:
                    self._notify(write_frame(method=f"notifications/{kind}/list_changed"))
                for subscription in self._subscriptions.values():
                    subscription.list_changed(kind)

    def pass_on(self, server: GroupedServer, method: str, params: Params) -> bool:
        """Pass on a notification of *server* about a subscription; return whether it is one."""
        meta = _meta(params)
        if SUBSCRIPTION not in meta:
            return False
        request_id, known = meta[SUBSCRIPTION], [*self._subscriptions.values()]
        if not isinstance(request_id, int):
            known = []
        if not any(each.receive(server, request_id, method, params) for each in known):
            logger.warning("server %r tells of a foreign subscription; dropped", server.name)
        return True

    async def _listen(self, own_id: Any, params: Params) -> Any:
        wanted = params.get("notifications")
        if not isinstance(wanted, dict):
            raise rpc_error(INVALID_PARAMS, "a subscription needs a filter of `notifications`")
        kinds = [kind for kind in LISTED_KINDS if wanted.get(f"{kind}ListChanged") is True]
        filters = await self._filters(kinds, wanted, params)
        subscription = ClientSubscription(own_id, kinds, filters, self._notify)
        self._subscriptions[own_id] = subscription
        try:
            return await subscription.run(params)
        finally:
            self._subscriptions.pop(own_id, None)

    async def _filters(
        self, kinds: Sequence[str], wanted: Mapping[str, Any], params: Params
    ) -> dict[GroupedServer, dict[str, Any]]:
        """Return, by server, the part of *wanted* that it can tell."""
        filters: dict[GroupedServer, dict[str, Any]] = {
            server: {f"{kind}ListChanged": True for kind in kinds if server.offers(kind)}
            for server in self._servers.values()
        }
        for uri in _texts(wanted.get("resourceSubscriptions")):
            with suppress(ServerError):
                owner = await self._owner(uri, params)
                if owner.offers("resources", "subscribe"):
                    filters[owner].setdefault("resourceSubscriptions", []).append(uri)
        for task_id in _texts(wanted.get("taskIds")):
            with suppress(ServerError):
                server, rest = self._named("task", task_id)
                filters[server].setdefault("taskIds", []).append(rest)
        return {server: theirs for server, theirs in filters.items() if theirs}

    # --- of all servers ------------------------------------------------------------------------

    async def _list(self, method: str, params: Params) -> list[dict[str, Any]]:
        """Return what all servers list, for a request with *params*."""
        capability, member = LISTS[method]
        part = "list" if method == "tasks/list" else None
        servers = [each for each in self._servers.values() if each.offers(capability, part)]
        if part and not servers:
            raise rpc_error(METHOD_NOT_FOUND, "no server lists its tasks")
        meta = {} if self.negotiation.revision is None else {"_meta": params["_meta"]}
        lists = await asyncio.gather(
            *[self._list_of(each, method, member, meta) for each in servers]
        )
        listed = {each.name: items for each, items in zip(servers, lists, strict=True)}
        if (key := URIS.get(method)) is not None:
            self._listed[key] = {
                name: {str(item.get(key)) for item in items if isinstance(item, dict)}
                for name, items in listed.items()
            }
        return merged_list(method, listed.items())

    async def _list_of(
        self, server: GroupedServer, method: str, member: str, meta: Params
    ) -> list[Any]:
        """Return all pages of a server's list, empty if it does not give them."""
        items: list[Any] = []
        params = meta
        try:
            async with asyncio.timeout(LIST):
                for _ in range(_MOST_PAGES):
                    page = await server.ask(method, params)
                    listed = page.get(member) if isinstance(page, dict) else None
                    items += listed if isinstance(listed, list) else []
                    if not (isinstance(page, dict) and isinstance(page.get("nextCursor"), str)):
                        break
                    params = {**meta, "cursor": page["nextCursor"]}
        except TimeoutError:
            logger.warning("server %r gave no list within %g s; left out", server.name, LIST)
            return []
        except ServerError as error:
            logger.warning("server %r gave no list: %s; left out", server.name, error)
            return []
        return items

    async def _set_level(self, params: Any) -> Any:
        servers = [each for each in self._servers.values() if each.offers("logging")]
        asking = [each.ask("logging/setLevel", params) for each in servers]
        for result in await asyncio.gather(*asking, return_exceptions=True):
            if isinstance(result, BaseException):
                logger.warning("a server did not take the level of its log: %s", result)
        return {}

    # --- of one server -------------------------------------------------------------------------

    async def _addressee(self, method: str, params: Params) -> tuple[GroupedServer, Params]:
        """Return the server that a request is for, and its params as that server knows them."""
        if method in _PREFIXED:
            kind, key = _PREFIXED[method]
            server, name = self._named(kind, _text(params.get(key)))
            return server, {**params, key: name}
        if method in _OF_RESOURCES:
            return await self._owner(_text(params.get("uri")), params), params
        if method == "completion/complete":
            reference: Any = params.get("ref")
            match reference:
                case {"type": "ref/prompt", "name": str(prompt)}:
                    server, rest = self._named("prompt", prompt)
                    return server, {**params, "ref": {**reference, "name": rest}}
                case {"type": "ref/resource", "uri": str(uri)}:
                    return await self._owner(uri, params), params
            raise rpc_error(INVALID_PARAMS, "`ref` must name a prompt or a resource")
        raise rpc_error(METHOD_NOT_FOUND, f"several servers behind one proxy have no {method!r}")

    def _named(self, kind: str, name: str) -> tuple[GroupedServer, str]:
        prefix, rest = split_name(name)
        if (server := self._servers.get(prefix)) is None or not rest:
            known = ", ".join(f"{each}_…" for each in self._servers)
            raise rpc_error(INVALID_PARAMS, f"no server has the {kind} {name!r}; known: {known}")
        return server, rest

    async def _owner(self, uri: str, params: Params) -> GroupedServer:
        """Return the only server that has the resource *uri*, for a request with *params*.

        A resource of two servers is refused: either may have listed it to answer for the other.
        """
        if not self._knows_resources and not self.listing(uri):
            self._knows_resources = True
            await self._list("resources/list", params)
            await self._list("resources/templates/list", params)
        names = self.listing(uri)
        having = [each for each in self._servers.values() if each.offers("resources")]
        if not names and len(having) == 1:
            return having[0]
        if not names:
            raise rpc_error(_UNKNOWN_RESOURCE, f"no server lists the resource {uri!r}")
        if len(names) > 1:
            reason = f"the resource {uri!r} is listed by the servers {', '.join(names)}"
            raise rpc_error(_UNKNOWN_RESOURCE, f"{reason}; disable all but one of them")
        return self._servers[names[0]]

    def listing(self, uri: str) -> list[str]:
        """Return the names of the servers that list *uri*, or have a template that fits it.

        *uri* may be a template itself.
        """
        listed, templates = self._listed["uri"], self._listed["uriTemplate"]
        return [
            server
            for server in {**listed, **templates}
            if uri in listed.get(server, ())
            or any(uri == each or fits(uri, each) for each in templates.get(server, ()))
        ]


def fits(uri: str, template: str) -> bool:
    """Return whether *uri* begins, goes on and ends as the plain text of *template* does."""
    first, *rest = _EXPRESSION.split(template)
    if not rest or not uri.startswith(first) or not uri.endswith(rest[-1]):
        return False
    position, end = len(first), len(uri) - len(rest[-1])
    for text in rest[:-1]:
        place = uri.find(text, position, end)
        if place < 0:
            return False
        position = place + len(text)
    return position <= end


def _params(value: Any) -> Params:
    if value is UNSET:
        return {}
    if not isinstance(value, dict):
        raise rpc_error(INVALID_PARAMS, "params must be an object")
    return value


def _meta(params: Mapping[str, Any]) -> dict[str, Any]:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise rpc_error(INVALID_PARAMS, "a request needs the name, or the uri, of what it is for")
    return value


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []

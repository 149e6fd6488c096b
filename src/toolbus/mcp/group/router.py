"""The router of a client's requests: each goes to one server of a group, or to all."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.events.subjects import matches
from toolbus.mcp.group.grouped_server import GroupedServer, ServerError, rpc_error
from toolbus.mcp.group.merge import (
    LISTED_KINDS,
    LISTS,
    UNCACHED,
    URIS,
    add_owner,
    address_key,
    merged_list,
    remove_owner,
    split_name,
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
"""Seconds after which a list is returned without servers that have not answered."""

_MAX_PAGES = 1_000
_PREFIXED = {
    "tools/call": ("tool", "name"),
    "prompts/get": ("prompt", "name"),
    **dict.fromkeys(
        ("tasks/get", "tasks/result", "tasks/update", "tasks/cancel"), ("task", "taskId")
    ),
}
"""By method: the kind of the target, and the param with its prefixed name."""

_RESOURCE_METHODS = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})
_UNKNOWN_RESOURCE = -32002
"""MCP 2025-11-25, server/resources, "Error Handling"."""
_EXPRESSION = re.compile(r"\{[^{}]*\}")
"""An expression of a URI template, RFC 6570, 2.2; here it matches any text."""

Params = dict[str, Any]


class Router:
    """The router of requests to *servers*; *notify* takes notifications for the client."""

    def __init__(self, servers: Sequence[GroupedServer], notify: Callable[[bytes], object]) -> None:
        self._servers = {server.name: server for server in servers}
        self._notify = notify
        self.negotiation = Negotiation(self._servers, self.changed)
        self._subscriptions: dict[Any, ClientSubscription] = {}
        # The latest list of resources, by identifying member and server; also of a server that has
        # ended, whose resources no other server may take over.
        self._listed: dict[str, dict[str, set[str]]] = {"uri": {}, "uriTemplate": {}}
        self._unlisted = {*URIS}

    async def answer(self, frame: Frame) -> Any:
        """Return the result of the request *frame*; raises `ServerError`."""
        # One branch for each method that the group answers itself; any other goes to one server.
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
            reason = "expected initialize first, or the revision in the request's _meta"
            raise rpc_error(METHOD_NOT_FOUND if method == DISCOVER else INVALID_REQUEST, reason)
        if method in LISTS:
            listed = {LISTS[method][1]: await self._list(method, params)}
            return listed if self.negotiation.revision is None else {**listed, **UNCACHED}
        if method == "logging/setLevel":
            return await self._set_level(frame.params)
        if method == LISTEN and self.negotiation.revision is not None:
            return await self._listen(frame.id, params)
        server, params = await self._target(method, params)
        token = _meta(params).get("progressToken")
        token = token if isinstance(token, str | int) else None
        result = await server.ask(method, remove_owner(server.name, params), token=token)
        return add_owner(server.name, result)

    # --- changes of lists, and subscriptions ---------------------------------------------------

    def changed(self, server: GroupedServer) -> None:
        """Notify the client of changed lists with items of *server*."""
        self.forget_resources()
        for kind in LISTED_KINDS:
            if kind in server.capabilities:
                if self.negotiation.is_initialized:
                    self._notify(write_frame(method=f"notifications/{kind}/list_changed"))
                for subscription in self._subscriptions.values():
                    subscription.list_changed(kind)

    def forget_resources(self) -> None:
        """Have the resources listed again before the next request for one of them."""
        self._unlisted = {*URIS}

    def forward_subscription(self, server: GroupedServer, method: str, params: Params) -> bool:
        """Forward a notification of *server* if it belongs to a subscription; return whether so."""
        meta = _meta(params)
        if SUBSCRIPTION not in meta:
            return False
        request_id, known = meta[SUBSCRIPTION], [*self._subscriptions.values()]
        if not isinstance(request_id, int):
            known = []
        if not any(each.receive(server, request_id, method, params) for each in known):
            logger.warning("dropped a notification of server %r: unknown subscription", server.name)
        return True

    async def _listen(self, own_id: Any, params: Params) -> Any:
        wanted = params.get("notifications")
        if not isinstance(wanted, dict):
            raise rpc_error(INVALID_PARAMS, "expected an object as `notifications`")
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
        """Return, by server, the part of *wanted* that it supports."""
        filters: dict[GroupedServer, dict[str, Any]] = {
            server: {f"{kind}ListChanged": True for kind in kinds if server.supports(kind)}
            for server in self._servers.values()
        }
        for uri in _texts(wanted.get("resourceSubscriptions")):
            with suppress(ServerError):
                owner = await self._owner(uri, params)
                if owner.supports("resources", "subscribe"):
                    filters[owner].setdefault("resourceSubscriptions", []).append(uri)
        for task_id in _texts(wanted.get("taskIds")):
            with suppress(ServerError):
                server, rest = self._by_prefix("task", task_id)
                filters[server].setdefault("taskIds", []).append(rest)
        return {server: theirs for server, theirs in filters.items() if theirs}

    # --- requests to all servers ---------------------------------------------------------------

    async def _list(self, method: str, params: Params) -> list[dict[str, Any]]:
        """Return the merged list of all servers, for a request with *params*."""
        # A later request for a URI goes to the server that listed it, so lists are noted here.
        capability, member = LISTS[method]
        part = "list" if method == "tasks/list" else None
        servers = [each for each in self._servers.values() if each.supports(capability, part)]
        if part and not servers:
            raise rpc_error(METHOD_NOT_FOUND, "no server supports tasks/list")
        meta = {} if self.negotiation.revision is None else {"_meta": params["_meta"]}
        lists = await asyncio.gather(
            *[self._list_of(each, method, member, meta) for each in servers]
        )
        pairs = zip(servers, lists, strict=True)
        listed = {each.name: items for each, items in pairs if items is not None}
        if method in URIS:
            self._note_resources(method, listed)
        return merged_list(method, listed.items(), partial(self._owner_in_list, URIS.get(method)))

    def _note_resources(self, method: str, listed: Mapping[str, Sequence[Any]]) -> None:
        """Remember the addresses of the resources or templates *listed* by the servers."""
        key = URIS[method]
        self._listed[key] |= {
            name: {address_key(str(item.get(key))) for item in items if isinstance(item, dict)}
            for name, items in listed.items()
        }
        self._unlisted.discard(method)

    async def _list_of(
        self, server: GroupedServer, method: str, member: str, meta: Params
    ) -> list[Any] | None:
        """Return all pages of a server's list, None if it fails or times out."""
        items: list[Any] = []
        params = meta
        try:
            async with asyncio.timeout(LIST):
                for _ in range(_MAX_PAGES):
                    page = await server.ask(method, params)
                    listed = page.get(member) if isinstance(page, dict) else None
                    items += listed if isinstance(listed, list) else []
                    if not (isinstance(page, dict) and isinstance(page.get("nextCursor"), str)):
                        break
                    params = {**meta, "cursor": page["nextCursor"]}
        except TimeoutError:
            text = "left out server %r: no response to %s within %g s"
            logger.warning(text, server.name, method, LIST)
            return None
        except ServerError as error:
            logger.warning("left out server %r: %s failed: %s", server.name, method, error)
            return None
        return items

    async def _set_level(self, params: Any) -> Any:
        servers = [each for each in self._servers.values() if each.supports("logging")]
        asking = [each.ask("logging/setLevel", params) for each in servers]
        for result in await asyncio.gather(*asking, return_exceptions=True):
            if isinstance(result, BaseException):
                logger.warning("a server rejected logging/setLevel: %s", result)
        return {}

    # --- requests to one server ----------------------------------------------------------------

    async def _target(self, method: str, params: Params) -> tuple[GroupedServer, Params]:
        """Return the target server of a request, and the params without the server's prefix."""
        if method in _PREFIXED:
            kind, key = _PREFIXED[method]
            server, name = self._by_prefix(kind, _text(params.get(key)))
            return server, {**params, key: name}
        if method in _RESOURCE_METHODS:
            return await self._owner(_text(params.get("uri")), params), params
        if method == "completion/complete":
            reference: Any = params.get("ref")
            match reference:
                case {"type": "ref/prompt", "name": str(prompt)}:
                    server, rest = self._by_prefix("prompt", prompt)
                    return server, {**params, "ref": {**reference, "name": rest}}
                case {"type": "ref/resource", "uri": str(uri)}:
                    return await self._owner(uri, params), params
            raise rpc_error(INVALID_PARAMS, "expected a prompt or a resource as `ref`")
        raise rpc_error(METHOD_NOT_FOUND, f"a group of servers does not support {method!r}")

    def _by_prefix(self, kind: str, name: str) -> tuple[GroupedServer, str]:
        prefix, rest = split_name(name)
        if (server := self._servers.get(prefix)) is None or not rest:
            known = ", ".join(f"{each}_…" for each in self._servers)
            problem = f"no server has the {kind} {name!r}; known prefixes: {known}"
            raise rpc_error(INVALID_PARAMS, problem)
        return server, rest

    async def _owner(self, uri: str, params: Params) -> GroupedServer:
        """Return the only server with the resource *uri*, for a request with *params*.

        A resource of several servers is refused until a person chooses one of them, because one may
        have listed it to impersonate another.
        """
        for method in sorted(self._unlisted):
            await self._list(method, params)
        names = self.listed_by(uri)
        having = [each for each in self._servers.values() if each.supports("resources")]
        if not names and len(having) == 1:
            return having[0]
        if not names:
            raise rpc_error(_UNKNOWN_RESOURCE, f"no server lists the resource {uri!r}")
        if (name := self._chosen(uri, names)) is None:
            reason = f"the resource {uri!r} is listed by the servers {', '.join(names)}"
            way_out = f"choose one with `resources = [{json.dumps(uri)}]` in its [[server]] table"
            raise rpc_error(_UNKNOWN_RESOURCE, f"{reason}; none of them is asked: {way_out}")
        return self._servers[name]

    def _owner_in_list(self, key: str | None, uri: str) -> str | None:
        """Return the server with *uri* in its list of the items with *key*, None if unclear."""
        address, listed = address_key(uri), self._listed.get(key or "", {})
        return self._chosen(uri, [name for name, theirs in listed.items() if address in theirs])

    def _chosen(self, uri: str, names: Sequence[str]) -> str | None:
        """Return the only server of *names*, or the only one that claims *uri*, or None."""
        if len(names) == 1:
            return names[0]
        claiming = [name for name in names if matches(self._servers[name].resources, uri)]
        return claiming[0] if len(claiming) == 1 else None

    def listed_by(self, uri: str) -> list[str]:
        """Return the names of the servers that list *uri*, itself or by a template.

        *uri* may be a template itself. Addresses that look alike count as equal.
        """
        listed, templates, key = self._listed["uri"], self._listed["uriTemplate"], address_key(uri)
        return [
            server
            for server in {**listed, **templates}
            if key in listed.get(server, ())
            or any(key == each or matches_template(key, each) for each in templates.get(server, ()))
        ]


def matches_template(uri: str, template: str) -> bool:
    """Return whether *uri* contains the literal parts of *template* in order, from end to end."""
    first, *rest = _EXPRESSION.split(template)
    if not rest or not uri.startswith(first) or not uri.endswith(rest[-1]):
        return False
    position, end = len(first), len(uri) - len(rest[-1])
    for text in rest[:-1]:
        start = uri.find(text, position, end)
        if start < 0:
            return False
        position = start + len(text)
    return position <= end


def _params(value: Any) -> Params:
    if value is UNSET:
        return {}
    if not isinstance(value, dict):
        raise rpc_error(INVALID_PARAMS, "expected an object as the params")
    return value


def _meta(params: Mapping[str, Any]) -> dict[str, Any]:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise rpc_error(INVALID_PARAMS, "expected a string as the name or uri of the target")
    return value


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []

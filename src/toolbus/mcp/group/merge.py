"""Words of several servers as those of one: names and ids with prefixes, lists, abilities.

A name begins with its server's name and "_". A server's name holds none, so the first one ends it,
and two servers cannot make the same name. See MCP 2025-11-25, server/tools, "Tool Names". Ids of
tasks are names in the same way: what a server says of a task is about a task of its own.
"""

from __future__ import annotations

import logging
from functools import reduce
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from toolbus.mcp.protocol.revisions import ELICIT, is_tool_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

logger = logging.getLogger("toolbus")

SEPARATOR = "_"
_RELATED_TASK = "io.modelcontextprotocol/related-task"
_TASKS = "io.modelcontextprotocol/tasks"
_SERVER_INFO = "io.modelcontextprotocol/serverInfo"

LISTED_KINDS = ("tools", "prompts", "resources")
LISTS = {
    "tools/list": ("tools", "tools"),
    "prompts/list": ("prompts", "prompts"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resources", "resourceTemplates"),
    "tasks/list": ("tasks", "tasks"),
}
"""By method: the capability of a server that has such a list, and the member that holds it."""

UNCACHED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""What a list of the stateless revision says besides: it holds while all servers live."""

URIS = {"resources/list": "uri", "resources/templates/list": "uriTemplate"}
"""By method: what an item of a list is told from others by, if that is not a name."""


def split_name(name: str) -> tuple[str, str]:
    """Return the name of the server that *name* begins with, and the rest of it."""
    server, _, rest = name.partition(SEPARATOR)
    return server, rest


# --- what one server says, and is told ---------------------------------------------------------


def named(server: str, message: Any) -> Any:
    """Return the result or params *message* of *server* with its name at tasks and at forms.

    A person has to know which server asks.
    """
    if not isinstance(message, dict):
        return message
    message = _with_owner(server, message)
    if "task" in message:
        message["task"] = _with_owner(server, message["task"])
    meta = message.get("_meta")
    if isinstance(meta, dict) and _RELATED_TASK in meta:
        message["_meta"] = {**meta, _RELATED_TASK: _with_owner(server, meta[_RELATED_TASK])}
    requests = message.get("inputRequests")
    for request in requests.values() if isinstance(requests, dict) else ():
        match request:
            case {"method": method, "params": dict(params)} if method == ELICIT:
                request["params"] = named_form(server, params)
    return message


def named_form(server: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the *params* of a form that say which server asks."""
    return {**params, "message": f"{server}: {params.get('message', '')}"}


def _with_owner(server: str, task: Any) -> Any:
    """Return *task* with its id as the client knows it."""
    if isinstance(task, dict) and isinstance(task.get("taskId"), str):
        return {**task, "taskId": f"{server}{SEPARATOR}{task['taskId']}"}
    return task


def unnamed(server: str, message: Any) -> Any:
    """Return the client's *message* to *server*, with a related task as the server knows it."""
    match message:
        case {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": str(task_id)}} as meta}:
            prefix, rest = split_name(task_id)
            if prefix == server:
                return {**message, "_meta": {**meta, _RELATED_TASK: {"taskId": rest}}}
    return message


# --- what all servers say ----------------------------------------------------------------------


def merged_handshake(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the result of `initialize` that says what *results*, by servers' names, say.

    The revision is the oldest, which all of them know.
    """
    return {
        "protocolVersion": min(str(result.get("protocolVersion")) for result in results.values()),
        "serverInfo": _info(results),
        **_abilities(results),
    }


def merged_discovery(
    results: Mapping[str, Mapping[str, Any]], revisions: Sequence[str]
) -> dict[str, Any]:
    """Return the result of `server/discover` that says what *results* say, of *revisions*."""
    return {
        **UNCACHED,
        "supportedVersions": list(revisions),
        **_abilities(results),
        "_meta": {_SERVER_INFO: _info(results)},
    }


def _info(results: Iterable[str]) -> dict[str, str]:
    return {"name": f"toolbus ({', '.join(results)})", "version": version("toolbus")}


def _abilities(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the capabilities and the instructions of all; lists may change: a server may end."""
    all_capabilities = [_object(result.get("capabilities")) for result in results.values()]
    known = {name for capabilities in all_capabilities for name in capabilities}
    merged: dict[str, Any] = {name: {} for name in ("logging", "completions") if name in known}
    for name in LISTED_KINDS:
        if name in known:
            merged[name] = {"listChanged": True}
    if any(_object(each.get("resources")).get("subscribe") is True for each in all_capabilities):
        merged["resources"]["subscribe"] = True
    if tasks := [_object(each["tasks"]) for each in all_capabilities if "tasks" in each]:
        merged["tasks"] = reduce(_joined, tasks)
    if any(_TASKS in _object(each.get("extensions")) for each in all_capabilities):
        merged["extensions"] = {_TASKS: {}}
    texts = [
        f"Of the tools and prompts that begin with {name}{SEPARATOR}: {result['instructions']}"
        for name, result in results.items()
        if isinstance(result.get("instructions"), str)
    ]
    instructions = {"instructions": "\n\n".join(texts)} if texts else {}
    return {"capabilities": merged, **instructions}


def _joined(first: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return an object that has what *first* or *other* has, at any depth."""
    both = {
        name: _joined(_object(first[name]), _object(other[name])) for name in first if name in other
    }
    return {**first, **other, **both}


def merged_list(method: str, listed: Iterable[tuple[str, Sequence[Any]]]) -> list[dict[str, Any]]:
    """Return the items that each server, by its name, has *listed*, each name and URI once.

    A URI of two servers is left out: a request for it would be answered by neither.
    """
    items: dict[str, dict[str, Any]] = {}
    owners: dict[str, set[str]] = {}
    key = URIS.get(method, "taskId" if method == "tasks/list" else "name")
    for server, theirs in listed:
        for item in theirs:
            if not isinstance(item, dict) or not isinstance(item.get(key), str):
                logger.warning("server %r lists an item without %s; left out", server, key)
                continue
            name = item[key]
            if method not in URIS:
                name = f"{server}{SEPARATOR}{name}"
                if method == "tools/list" and not is_tool_name(name):
                    logger.warning("%r cannot be a tool's name; left out", name)
                    continue
            if server in owners.setdefault(name, set()):
                logger.warning("server %r lists %r twice; the first counts", server, name)
            owners[name].add(server)
            items.setdefault(name, {**item, key: name})
    for name in [name for name in items if len(owners[name]) > 1]:
        logger.warning("servers %s all list %r; left out", ", ".join(sorted(owners[name])), name)
        del items[name]
    return list(items.values())


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

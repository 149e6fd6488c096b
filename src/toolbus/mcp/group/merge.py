"""The merge of several servers' results into one: prefixed names, lists, capabilities.

A name begins with its server's name and "_". A server's name contains no "_", so names of two
servers cannot collide. See MCP 2025-11-25, server/tools, "Tool Names". Ids of tasks have the same
prefix, so that a server can only refer to its own tasks.
"""

from __future__ import annotations

import logging
from functools import reduce
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from unicodedata import normalize
from urllib.parse import unquote

from toolbus.mcp.protocol.revisions import ELICIT, is_tool_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
"""By method: the capability that provides the list, and the member that holds it."""

UNCACHED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""The further members of a list in the stateless revision; it may change when a server ends."""

URIS = {"resources/list": "uri", "resources/templates/list": "uriTemplate"}
"""By method: the member that identifies an item, where it is not a prefixed name."""


def split_name(name: str) -> tuple[str, str]:
    """Return the server's name at the beginning of *name*, and the rest of it."""
    server, _, rest = name.partition(SEPARATOR)
    return server, rest


# --- messages of and to one server -------------------------------------------------------------


def add_owner(server: str, message: Any) -> Any:
    """Return *message*, result or params of *server*, with its name in task ids and in forms.

    A form names its server for the person who answers it.
    """
    if not isinstance(message, dict):
        return message
    message = _prefix_task_id(server, message)
    if "task" in message:
        message["task"] = _prefix_task_id(server, message["task"])
    meta = message.get("_meta")
    if isinstance(meta, dict) and _RELATED_TASK in meta:
        message["_meta"] = {**meta, _RELATED_TASK: _prefix_task_id(server, meta[_RELATED_TASK])}
    requests = message.get("inputRequests")
    for request in requests.values() if isinstance(requests, dict) else ():
        match request:
            case {"method": method, "params": dict(params)} if method == ELICIT:
                request["params"] = form_with_owner(server, params)
    return message


def form_with_owner(server: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the *params* of a form with the server's name in its message."""
    return {**params, "message": f"{server}: {params.get('message', '')}"}


def _prefix_task_id(server: str, task: Any) -> Any:
    """Return *task* with the server's name in its id."""
    if isinstance(task, dict) and isinstance(task.get("taskId"), str):
        return {**task, "taskId": f"{server}{SEPARATOR}{task['taskId']}"}
    return task


def remove_owner(server: str, message: Any) -> Any:
    """Return the client's *message* to *server* with the server's own id of a related task."""
    match message:
        case {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": str(task_id)}} as meta}:
            prefix, rest = split_name(task_id)
            if prefix == server:
                return {**message, "_meta": {**meta, _RELATED_TASK: {"taskId": rest}}}
    return message


# --- results of all servers --------------------------------------------------------------------


def merged_handshake(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the merged result of `initialize`, from *results* by server name.

    The revision is the oldest of them, which all servers support.
    """
    return {
        "protocolVersion": min(str(result.get("protocolVersion")) for result in results.values()),
        "serverInfo": _info(results),
        **_capabilities_and_instructions(results),
    }


def merged_discovery(
    results: Mapping[str, Mapping[str, Any]], revisions: Sequence[str]
) -> dict[str, Any]:
    """Return the merged result of `server/discover`, from *results*, with *revisions*."""
    return {
        **UNCACHED,
        "supportedVersions": list(revisions),
        **_capabilities_and_instructions(results),
        "_meta": {_SERVER_INFO: _info(results)},
    }


def _info(results: Iterable[str]) -> dict[str, str]:
    return {"name": f"toolbus ({', '.join(results)})", "version": version("toolbus")}


def _capabilities_and_instructions(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the merged capabilities and instructions; every list may change as servers end."""
    # Each capability of MCP has its own members, and so its own way to be merged.
    all_capabilities = [_object(result.get("capabilities")) for result in results.values()]
    known = {name for capabilities in all_capabilities for name in capabilities}
    merged: dict[str, Any] = {name: {} for name in ("logging", "completions") if name in known}
    for name in LISTED_KINDS:
        if name in known:
            merged[name] = {"listChanged": True}
    if any(_object(each.get("resources")).get("subscribe") is True for each in all_capabilities):
        merged["resources"]["subscribe"] = True
    if tasks := [_object(each["tasks"]) for each in all_capabilities if "tasks" in each]:
        merged["tasks"] = reduce(_deep_merge, tasks)
    if any(_TASKS in _object(each.get("extensions")) for each in all_capabilities):
        merged["extensions"] = {_TASKS: {}}
    texts = [
        f"Of the tools and prompts that begin with {name}{SEPARATOR}: {result['instructions']}"
        for name, result in results.items()
        if isinstance(result.get("instructions"), str)
    ]
    instructions = {"instructions": "\n\n".join(texts)} if texts else {}
    return {"capabilities": merged, **instructions}


def _deep_merge(first: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the union of the members of *first* and *other*, at any depth."""
    both = {
        name: _deep_merge(_object(first[name]), _object(other[name]))
        for name in first
        if name in other
    }
    return {**first, **other, **both}


def address_key(uri: str) -> str:
    """Return a key for the look of an address of a resource."""
    return normalize("NFKC", unquote(uri)).casefold().rstrip("/")


def merged_list(
    method: str,
    listed: Iterable[tuple[str, Sequence[Any]]],
    owner_of: Callable[[str], str | None],
) -> list[dict[str, Any]]:
    """Return the items *listed* by the servers, by server name, each name and URI once.

    A URI is listed for its owner only; *owner_of* returns None if a request would be ambiguous.
    """
    items: dict[str, dict[str, Any]] = {}
    for server, theirs in listed:
        for name, item in _named_items(method, server, theirs):
            if method in URIS and owner_of(name) != server:
                logger.warning("left out %r of server %r: other servers list it", name, server)
            elif items.setdefault(name, item) is not item:
                logger.warning("server %r lists %r twice; the first item is used", server, name)
    return list(items.values())


def _named_items(
    method: str, server: str, theirs: Sequence[Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each valid item with its name in the group, after that name."""
    key = URIS.get(method, "taskId" if method == "tasks/list" else "name")
    for item in theirs:
        if not isinstance(item, dict) or not isinstance(item.get(key), str):
            logger.warning("left out an item of server %r without %s", server, key)
            continue
        name = item[key] if method in URIS else f"{server}{SEPARATOR}{item[key]}"
        if method == "tools/list" and not is_tool_name(name):
            logger.warning("left out %r: invalid name of a tool", name)
            continue
        yield name, {**item, key: name}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

"""What several servers say, as one says it: handshakes, capabilities, and names with prefixes.

A name begins with its server's name and "_". A server's name holds none, so the first one ends it,
and two servers cannot make the same name. See MCP 2025-11-25, server/tools, "Tool Names".
"""

from __future__ import annotations

import logging
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from toolbus.mcp.protocol.revisions import is_tool_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

logger = logging.getLogger("toolbus")

SEPARATOR = "_"

LISTS = {
    "tools/list": ("tools", "tools"),
    "prompts/list": ("prompts", "prompts"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resources", "resourceTemplates"),
}
"""By method: the capability of a server that has such a list, and the member that holds it."""

_IDENTITY = {"resources/list": "uri", "resources/templates/list": "uriTemplate"}


def split_name(name: str) -> tuple[str, str]:
    """Return the name of the server that *name* begins with, and the rest of it."""
    server, _, rest = name.partition(SEPARATOR)
    return server, rest


def merged_handshake(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the result of `initialize` that says what *results*, by servers' names, say.

    The revision is the oldest, which all of them know. Lists may change: a server may end.
    """
    all_capabilities = [_object(result.get("capabilities")) for result in results.values()]
    known = {name for capabilities in all_capabilities for name in capabilities}
    merged: dict[str, Any] = {name: {} for name in ("logging", "completions") if name in known}
    for name in ("tools", "prompts", "resources"):
        if name in known:
            merged[name] = {"listChanged": True}
    if any(_object(each.get("resources")).get("subscribe") is True for each in all_capabilities):
        merged["resources"]["subscribe"] = True
    texts = [
        f"Of the tools and prompts that begin with {name}{SEPARATOR}: {result['instructions']}"
        for name, result in results.items()
        if isinstance(result.get("instructions"), str)
    ]
    return {
        "protocolVersion": min(str(result.get("protocolVersion")) for result in results.values()),
        "capabilities": merged,
        "serverInfo": {"name": f"toolbus ({', '.join(results)})", "version": version("toolbus")},
        **({"instructions": "\n\n".join(texts)} if texts else {}),
    }


def merged_list(method: str, listed: Iterable[tuple[str, Sequence[Any]]]) -> list[dict[str, Any]]:
    """Return the items that each server, by its name, has *listed*, each name and URI once.

    A URI of two servers is left out: a request for it would be answered by neither.
    """
    items: dict[str, dict[str, Any]] = {}
    owners: dict[str, set[str]] = {}
    key = _IDENTITY.get(method, "name")
    for server, theirs in listed:
        for item in theirs:
            if not isinstance(item, dict) or not isinstance(item.get(key), str):
                logger.warning("server %r lists what has no %s; left out", server, key)
                continue
            name = item[key]
            if key == "name":
                name = f"{server}{SEPARATOR}{name}"
                if method == "tools/list" and not is_tool_name(name):
                    logger.warning("%r can be no tool's name; left out", name)
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

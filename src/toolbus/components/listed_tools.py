"""Members of tools in the list of an MCP server beyond a spec, such as icons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HINTS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
"""Annotations of MCP 2025-11-25, schema, ToolAnnotations."""

_OF_SPEC = {
    **dict.fromkeys(("name", "title", "description"), str),
    **dict.fromkeys(("inputSchema", "outputSchema"), dict),
}
"""The members of a spec, if they have this type."""

MEMBERS = "toolbus/members"
"""The annotation of a spec with the further members of its tool, in the proxy and in pins."""


def further_members(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of *tool*, an item of `tools/list`, beyond its spec.

    Of annotations known to MCP only a title beside another title is returned.
    """
    members = {
        name: value
        for name, value in tool.items()
        if name != "annotations" and not isinstance(value, _OF_SPEC.get(name, ()))
    }
    annotations = tool.get("annotations")
    if not isinstance(annotations, Mapping):
        return members if annotations is None else {**members, "annotations": annotations}
    has_both = isinstance(tool.get("title"), str) and annotations.get("title") != tool["title"]
    unknown = {
        name: value
        for name, value in annotations.items()
        if name not in HINTS or (name == "title" and has_both)
    }
    return {**members, "annotations": unknown} if unknown else members

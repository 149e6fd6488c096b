"""Where prose stands in what programs read: a handshake, a list of tools, and its schemas.

What is no prose keeps a client at work: revisions, capabilities, names, cursors, the structure of a
schema. Handlers that reword what they do not know would take the server off its client. But that
holds only for what looks as the protocol wants it there: all else is prose as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from toolbus.mcp.protocol.names import (
    CAPABILITIES,
    DIALECTS,
    WORDS,
    is_capability,
    is_name,
    is_revision,
    is_tool_name,
    is_type,
    leads,
    properties_of,
)
from toolbus.mcp.protocol.revisions import LIST

HANDSHAKES = ("initialize", "server/discover")

GONE = object()
"""Stands for prose that is to be left out."""

Change: TypeAlias = Callable[[Any], Any]
"""Returns what stands in place of prose: a string, an array or an object of JSON."""

# Of a server's `serverInfo`, without which its handshake is none (MCP, lifecycle, initialization).
_NEEDED = ("name", "version")
_SCHEMAS = ("inputSchema", "outputSchema")
# The vocabularies of JSON Schema 2020-12, and the older names that are still in use.
_NAMED = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_INNER = frozenset(
    {
        *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"),
        *("additionalProperties", "unevaluatedProperties", "propertyNames", "contentSchema"),
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
    }
)


def rewrite_prose(method: str, body: dict[str, Any], change: Change) -> dict[str, Any]:
    """Return *body*, the result of *method*, with *change* made to all of its prose.

    The order is always the same. What becomes `GONE` is left out, or empty where something must be.
    """

    def prose(value: Any) -> Any:
        # What holds no text says nothing to a person or a model.
        return change(value) if isinstance(value, str | list | dict) else value

    return _list(body, prose) if method == LIST else _handshake(body, prose)


def _handshake(body: dict[str, Any], prose: Change) -> dict[str, Any]:
    def capability(name: str, value: Any) -> Any:
        known = name in CAPABILITIES and is_capability(value, CAPABILITIES[name])
        return value if known else _member(name, value, prose)

    def member(name: str, value: Any) -> Any:
        match name, value:
            case "instructions", str():
                return value  # A text for the model, which is shown as one.
            case "protocolVersion", _:
                return value if is_revision(value) else prose(value)
            case "supportedVersions", _:
                return _each(value, is_revision, prose)
            case "capabilities", dict():
                return _object(value, capability, prose)
            case "serverInfo", dict():
                return _object(value, lambda name, value: _member(name, value, prose), prose)
        return _member(name, value, prose)

    return _object(body, member, prose)


def _list(body: dict[str, Any], prose: Change) -> dict[str, Any]:
    def member(name: str, value: Any) -> Any:
        match name, value:
            case "tools", list():
                return _items(value, lambda tool: _tool(tool, prose))
            case "nextCursor", str():
                return value
        return _member(name, value, prose)

    return _object(body, member, prose)


def _tool(tool: Any, prose: Change) -> Any:
    def member(name: str, value: Any) -> Any:
        if name == "name":
            return value if is_tool_name(value) else prose(value)
        if name in _SCHEMAS:
            return _schema(value, _Known(value, frozenset(properties_of(value))), prose)
        return _member(name, value, prose)

    return _object(tool, member, prose) if isinstance(tool, dict) else prose(tool)


class _Known(NamedTuple):
    """The schema of which another is a part, and the names of its properties."""

    root: Any
    names: frozenset[str]


def _schema(schema: Any, known: _Known, prose: Change) -> Any:
    if not isinstance(schema, dict):
        return prose(schema)
    return _object(schema, lambda name, value: _keyword(name, value, known, prose), prose)


def _keyword(name: str, value: Any, known: _Known, prose: Change) -> Any:
    """Return the *value* of the keyword *name* of a schema, rewritten."""
    match value:
        case list() if name in _INNER:
            return _items(value, lambda item: _schema(item, known, prose))
        case _ if name in _INNER:
            return _schema(value, known, prose)
        case dict() if name in _NAMED:
            return _object(value, lambda _, inner: _schema(inner, known, prose), prose)
        case dict() if name == "dependentRequired":
            return _object(
                value, lambda _, names: _each(names, known.names.__contains__, prose), prose
            )
    if name == "required":
        return _each(value, known.names.__contains__, prose)
    return value if _is_structure(name, value, known.root) else prose(value)


def _is_structure(name: str, value: Any, root: Any) -> bool:
    match name:
        case "type":
            return is_type(value)
        case "$schema":
            return isinstance(value, str) and value in DIALECTS
        case "$ref" | "$dynamicRef":
            return leads(value, root)
    return False


def _member(name: str, value: Any, prose: Change) -> Any:
    """Return the *value* of any other member *name*: prose, if it is no word that MCP knows."""
    fixed = name in WORDS and isinstance(value, str) and value in WORDS[name]
    return value if fixed else prose(value)


def _each(values: Any, is_known: Callable[[str], bool], prose: Change) -> Any:
    """Return the array *values* with each item rewritten that is not known."""
    if not isinstance(values, list):
        return prose(values)
    return _items(values, lambda v: v if isinstance(v, str) and is_known(v) else prose(v))


def _items(values: list[Any], change: Change) -> list[Any]:
    return ["" if (new := change(value)) is GONE else new for value in values]


def _object(
    body: dict[str, Any], member: Callable[[str, Any], Any], prose: Change
) -> dict[str, Any]:
    """Return *body* with values as *member* has them, and names that are none as *prose* has."""
    members: dict[str, Any] = {}
    for name, value in body.items():
        label, new = name if is_name(name) else prose(name), member(name, value)
        if new is GONE and name in _NEEDED:
            new = ""
        if new is not GONE and isinstance(label, str):
            members[label] = new
    return members

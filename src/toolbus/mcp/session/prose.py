"""The prose in data for programs: handshakes, tool lists and their schemas.

The structure is hidden from handlers: revisions, capabilities, names, cursors, the keywords of a
schema. A handler that changed them would break the connection. Only a value that has the form
required at its place counts as structure; every other value is prose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

from toolbus.mcp.protocol.revisions import LIST, is_tool_name

HANDSHAKES = ("initialize", "server/discover")

OMITTED = object()
"""A marker for prose to leave out."""

Change: TypeAlias = Callable[[Any], Any]
"""A function that returns the replacement of prose: a string, an array or an object of JSON."""

Shape: TypeAlias = Any
"""The structure of a value: True if all of it is structure, `[shape]` for the items of an array,
shapes by the names of members of an object, or a function that returns such a shape of the value.

`ANY` is the name for all other members.
"""

ANY = ""

_NAME = re.compile(r"[A-Za-z0-9_$@.:/\[\]-]{1,64}")
_REVISION = re.compile(r"\d{4}-\d\d-\d\d")
# Members that `serverInfo` must have: MCP 2025-11-25, basic/lifecycle, "Initialization".
_REQUIRED = ("name", "version")


def rewrite_prose(method: str, body: dict[str, Any], change: Change) -> dict[str, Any]:
    """Return *body*, the result of *method*, with *change* applied to all prose, in fixed order.

    Prose that becomes `OMITTED` is left out, or empty where it is required.
    """

    def prose(value: Any) -> Any:
        # Numbers, booleans and null are not prose.
        return change(value) if isinstance(value, str | list | dict) else value

    rewritten: dict[str, Any] = _rewrite(body, _LIST if method == LIST else _HANDSHAKE, prose)
    return rewritten


def _rewrite(value: Any, shape: Shape, prose: Change) -> Any:
    if callable(shape):
        shape = shape(value)
    if shape is True:
        return value
    if isinstance(shape, list) and isinstance(value, list):
        items = [_rewrite(item, shape[0], prose) for item in value]
        return ["" if item is OMITTED else item for item in items]
    if isinstance(shape, dict) and isinstance(value, dict):
        return _members(value, shape, prose)
    return prose(value)


def _members(body: dict[str, Any], shape: dict[str, Shape], prose: Change) -> dict[str, Any]:
    """Return *body* with rewritten values, and with rewritten names that are not short names."""
    members: dict[str, Any] = {}
    for name, value in body.items():
        label = name if is_name(name) else prose(name)
        new = _rewrite(value, shape.get(name, shape.get(ANY)), prose)
        if new is OMITTED and name in _REQUIRED:
            new = ""
        if new is not OMITTED and isinstance(label, str):
            members[label] = new
    return members


# --- names and fixed words ------------------------------------------------------------------------


def is_name(value: Any) -> bool:
    """Return whether *value* is a short name, as of a property: too narrow for prose."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_revision(value: Any) -> bool:
    return isinstance(value, str) and _REVISION.fullmatch(value) is not None


def _one_of(*words: str) -> Callable[[Any], bool]:
    known = frozenset(words)
    return lambda value: isinstance(value, str) and value in known


def _is_capability(known: Any, value: Any) -> bool:
    """Return whether the capability *value* has only members of *known*."""
    if known is None or not isinstance(value, dict):
        return isinstance(value, bool)
    return all(name in known and _is_capability(known[name], value[name]) for name in value)


# --- schemas --------------------------------------------------------------------------------------

# The vocabularies of JSON Schema 2020-12, and keywords of older drafts still in use.
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_INNER = (
    *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "contentSchema"),
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
)
_is_type = _one_of("null", "boolean", "object", "array", "number", "string", "integer")
_is_dialect = _one_of(
    *[f"https://json-schema.org/draft/{draft}/schema{end}"
      for draft in ("2019-09", "2020-12") for end in ("", "#")],
    *[f"http{s}://json-schema.org/draft-0{draft}/schema{end}"
      for s in ("", "s") for draft in (4, 6, 7) for end in ("", "#")],
)  # fmt: skip


def _schema_shape(root: Any) -> Shape:
    """Return the shape of the schema *root*, which is also the shape of its subschemas."""
    is_property = _one_of(*_properties_of(root))
    schema: dict[str, Shape] = {
        "required": [is_property],
        "dependentRequired": {ANY: [is_property]},
        "type": lambda value: all(map(_is_type, value if isinstance(value, list) else [value])),
        "$schema": _is_dialect,
        **dict.fromkeys(("$ref", "$dynamicRef"), partial(_resolves, root)),
    }
    schema |= dict.fromkeys(_INNER, lambda value: [schema] if isinstance(value, list) else schema)
    schema |= {name: {ANY: schema} for name in (*_NAMED, "dependencies")}
    return schema


def _properties_of(schema: Any) -> Iterator[str]:
    """Yield the names of all properties in *schema*, at any depth."""
    if isinstance(schema, dict):
        properties = schema.get("properties")
        if isinstance(properties, dict):
            yield from filter(is_name, properties)
        for inner in schema.values():
            yield from _properties_of(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _properties_of(inner)


def _resolves(root: Any, reference: Any) -> bool:
    """Return whether *reference* is a JSON pointer of short names that resolves in *root*."""
    if not isinstance(reference, str) or reference.partition("/")[0] != "#":
        return False
    value = root
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict) and name in value and is_name(name):
            value = value[name]
        else:
            return False
    return True


# --- results --------------------------------------------------------------------------------------

_LISTED = {"listChanged": None}
_CAPABILITIES = {
    "logging": {},
    "completions": {},
    "prompts": _LISTED,
    "resources": {"subscribe": None, **_LISTED},
    "tools": _LISTED,
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
}
"""The capabilities of servers; None stands for true or false."""

_RESULT = {
    "resultType": _one_of("complete", "input_required", "task"),
    "cacheScope": _one_of("public", "private"),
}
_LIST = {
    "tools": [{"name": is_tool_name, "inputSchema": _schema_shape, "outputSchema": _schema_shape}],
    "nextCursor": _is_text,
    **_RESULT,
}
_HANDSHAKE = {
    "instructions": _is_text,  # Shown to handlers as text, not in the list of prose.
    "protocolVersion": _is_revision,
    "supportedVersions": [_is_revision],
    "capabilities": {name: partial(_is_capability, known) for name, known in _CAPABILITIES.items()},
    "serverInfo": {},
    **_RESULT,
}

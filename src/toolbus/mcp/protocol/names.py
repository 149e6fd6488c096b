"""What a server may say where programs read, and no handler is asked: names, and fixed words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAME = re.compile(r"[A-Za-z0-9_$@.:/\[\]-]{1,64}")
_TOOL = re.compile(r"[A-Za-z0-9_./-]{1,128}")
_REVISION = re.compile(r"\d{4}-\d\d-\d\d")

TYPES = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})
"""Of JSON Schema 2020-12, validation, 6.1.1."""

DIALECTS = frozenset(
    [f"https://json-schema.org/draft/{draft}/schema{end}"
     for draft in ("2019-09", "2020-12") for end in ("", "#")]
    + [f"http{s}://json-schema.org/draft-0{draft}/schema{end}"
       for s in ("", "s") for draft in (4, 6, 7) for end in ("", "#")]
)  # fmt: skip

WORDS = {
    "resultType": frozenset({"complete", "input_required", "task"}),
    "cacheScope": frozenset({"public", "private"}),
}
"""What may stand in members of any result."""

_LISTED: Mapping[str, Any] = {"listChanged": None}
CAPABILITIES: Mapping[str, Any] = {
    "logging": {},
    "completions": {},
    "prompts": _LISTED,
    "resources": {"subscribe": None, **_LISTED},
    "tools": _LISTED,
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
}
"""What a server can do; None stands for true or false."""


def is_name(value: Any) -> bool:
    """Tell whether *value* is a short name, as properties have: no place for prose."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def is_tool_name(value: Any) -> bool:
    """Tell whether *value* can be a tool's name: MCP, server features, tools, tool names."""
    return isinstance(value, str) and _TOOL.fullmatch(value) is not None


def is_revision(value: Any) -> bool:
    """Tell whether *value* can be a revision of MCP."""
    return isinstance(value, str) and _REVISION.fullmatch(value) is not None


def is_type(value: Any) -> bool:
    """Tell whether *value* is what a schema may say as `type`."""
    kinds = value if isinstance(value, list) else [value]
    return all(isinstance(kind, str) and kind in TYPES for kind in kinds)


def is_capability(value: Any, known: Any) -> bool:
    """Tell whether *value* says of a capability what *known* says, or less."""
    if known is None or not isinstance(value, dict):
        return isinstance(value, bool)
    return all(name in known and is_capability(inner, known[name]) for name, inner in value.items())


def properties_of(schema: Any) -> Iterator[str]:
    """Give the names of all properties in *schema*, at any depth."""
    if isinstance(schema, dict):
        properties = schema.get("properties")
        if isinstance(properties, dict):
            yield from filter(is_name, properties)
        for inner in schema.values():
            yield from properties_of(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from properties_of(inner)


def leads(reference: Any, schema: Any) -> bool:
    """Tell whether *reference* is a pointer to a place in *schema*, made of names alone."""
    if not isinstance(reference, str) or reference.partition("/")[0] != "#":
        return False
    place = schema
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and name.isdecimal() and int(name) < len(place):
            place = place[int(name)]
        elif isinstance(place, dict) and name in place and is_name(name):
            place = place[name]
        else:
            return False
    return True

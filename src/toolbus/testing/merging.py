"""Merge JSON schemas that hold at the same time into one, as far as that is simple.

What one schema cannot say of the others is left out, so whoever draws by the merged one still
checks against all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

ANNOTATIONS = frozenset(
    {
        *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
        *("$defs", "definitions", "$schema", "$id", "$comment", "$anchor"),
    }
)


def merge(*schemas: Mapping[str, Any] | bool) -> dict[str, Any]:
    """Return one schema for what fits all *schemas*; False among them lets nothing fit."""
    merged: dict[str, Any] = {}
    for schema in schemas:
        if schema is False:
            return {"enum": []}
        for word, rule in schema.items() if isinstance(schema, Mapping) else ():
            merged[word] = _both(word, merged[word], rule) if word in merged else rule
    return merged


def _both(word: str, one: Any, other: Any) -> Any:
    if one == other or word in ANNOTATIONS:
        return one
    combine = _COMBINED.get(word)
    return one if combine is None else combine(one, other)


def _all_of(one: Any, other: Any) -> Any:
    return {"allOf": [one, other]}


def _named(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = {name: _all_of(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **both}


def _types(one: str | list[str], other: str | list[str]) -> list[str]:
    first, second = _spread(one), _spread(other)
    return [kind for kind in first if kind in second]


def _spread(kinds: str | list[str]) -> list[str]:
    """Return *kinds* with integers beside numbers, which include them."""
    given = [kinds] if isinstance(kinds, str) else list(kinds)
    return ["integer", *given] if "number" in given and "integer" not in given else given


def _shared(one: list[Any], other: list[Any]) -> list[Any]:
    return [value for value in one if value in other]


_COMBINED: dict[str, Callable[[Any, Any], Any]] = {
    "type": _types,
    "enum": _shared,
    "required": lambda one, other: list(dict.fromkeys([*one, *other])),
    "properties": _named,
    "patternProperties": _named,
    "additionalProperties": _all_of,
    "propertyNames": _all_of,
    "items": _all_of,
    "allOf": lambda one, other: [*one, *other],
    "uniqueItems": lambda one, other: one or other,
    **dict.fromkeys(("minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("minimum", "exclusiveMinimum"), max),
    **dict.fromkeys(("maxLength", "maxItems", "maxProperties"), min),
    **dict.fromkeys(("maximum", "exclusiveMaximum"), min),
}

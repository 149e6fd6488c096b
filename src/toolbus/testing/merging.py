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


def _both(word: str, first: Any, second: Any) -> Any:
    if first == second or word in ANNOTATIONS:
        return first
    combine = _COMBINED.get(word)
    return first if combine is None else combine(first, second)


def _all_of(first: Any, second: Any) -> Any:
    return {"allOf": [first, second]}


def _named(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    both = {name: _all_of(first[name], second[name]) for name in first.keys() & second.keys()}
    return {**first, **second, **both}


def _types(first: str | list[str], second: str | list[str]) -> list[str]:
    first, second = _spread(first), _spread(second)
    return [kind for kind in first if kind in second]


def _spread(kinds: str | list[str]) -> list[str]:
    """Return *kinds* with integers beside numbers, which include them."""
    names = [kinds] if isinstance(kinds, str) else list(kinds)
    return ["integer", *names] if "number" in names and "integer" not in names else names


def _shared(first: list[Any], second: list[Any]) -> list[Any]:
    return [value for value in first if value in second]


_COMBINED: dict[str, Callable[[Any, Any], Any]] = {
    "type": _types,
    "enum": _shared,
    "required": lambda first, second: list(dict.fromkeys([*first, *second])),
    "properties": _named,
    "patternProperties": _named,
    "additionalProperties": _all_of,
    "propertyNames": _all_of,
    "items": _all_of,
    "allOf": lambda first, second: [*first, *second],
    "uniqueItems": lambda first, second: first or second,
    **dict.fromkeys(("minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("minimum", "exclusiveMinimum"), max),
    **dict.fromkeys(("maxLength", "maxItems", "maxProperties"), min),
    **dict.fromkeys(("maximum", "exclusiveMaximum"), min),
}

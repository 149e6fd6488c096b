"""Texts in a call's arguments that stand for another JSON value: "3" where only an integer fits.

Models write such texts. One is read as what it stands for only where the schema allows no text at
all, so that no valid value is changed, and where the value that it stands for fits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from toolbus.messages import schemas
from toolbus.messages.immutable import freeze

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from toolbus.messages.records import JsonObject

# Only one text stands for a number: no sign, space, exponent or zero that could be left out.
# One with more digits might not be that number any more as a 64-bit integer or float.
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+")
_MAX_NUMBER = 16
_TRUTHS = {"true": True, "false": False}
_BRACKETS = {"{": ("}", "object"), "[": ("]", "array")}

_KINDS = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))
_TYPES = {bool: "boolean", str: "string", type(None): "null", int: "integer"}
_PLAIN = frozenset((bool, int, float, type(None)))
_MAX_LEVELS = 100


def is_plain(arguments: JsonObject) -> bool:
    """Return whether no member of *arguments* is a text or may hold one."""
    return _PLAIN.issuperset(map(type, arguments.values()))


def converted(arguments: JsonObject, schema: JsonObject) -> JsonObject:
    """Return *arguments* with such texts as the values that they stand for.

    The same object if there are none. Beyond 100 values inside each other nothing is converted.
    """
    try:
        result: JsonObject = _Conversion(schema).value(arguments, schema, _MAX_LEVELS)
    except (RecursionError, AttributeError, LookupError, TypeError, ValueError):
        # A schema that a handler wrote may be unsound; whoever checks the arguments says so.
        return arguments
    return result


class _Conversion:
    """A conversion by the schema *root*."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        # By the identity of the schema, which *root* holds.
        self._kinds: dict[int, frozenset[str]] = {}

    def value(self, value: Any, schema: Any, levels: int) -> Any:
        """Return *value* as *schema* has it; the same object if that is no other."""
        if not levels:
            raise RecursionError
        if isinstance(value, str):
            return self._text(value, schema, levels)
        if isinstance(value, Mapping):
            rules = list(self._in_force(schema, "object"))
            changed = self._changed(value.items(), partial(_member_rule, rules), levels)
            return {**value, **changed} if changed else value
        if isinstance(value, list | tuple):
            rules = list(self._in_force(schema, "array"))
            changed = self._changed(enumerate(value), partial(_item_rule, rules), levels)
            new = [changed.get(index, item) for index, item in enumerate(value)]
            return new if changed else value
        return value

    def _changed(
        self, items: Iterable[tuple[Any, Any]], rule_of: Callable[[Any], Any], levels: int
    ) -> dict[Any, Any]:
        """Return those of *items*, by their keys, that are other values by the rules for them."""
        changed = {}
        for key, item in items:
            if type(item) not in _PLAIN:
                new = self.value(item, rule_of(key), levels - 1)
                if new is not item:
                    changed[key] = new
        return changed

    def _text(self, text: str, schema: Any, levels: int) -> Any:
        if schema is True or (isinstance(schema, Mapping) and schema.get("type") == "string"):
            return text
        kinds = self._kinds_of(schema)
        reading = None if "string" in kinds else _reading(text, kinds)
        if reading is None:
            return text
        reading = self.value(reading, schema, levels - 1)
        return text if schemas.problem(schema, reading, self._root) else reading

    def _in_force(self, schema: Any, kind: str) -> Iterator[Mapping[str, Any]]:
        """Give *schema* and what it leads to, as far as that certainly holds for a *kind*."""
        for _ in range(_MAX_LEVELS):
            if not isinstance(schema, Mapping):
                return
            yield schema
            following = [
                rule
                for keyword in ("allOf", "anyOf", "oneOf")
                for rule in schema.get(keyword, ())
                if kind in self._kinds_of(rule)
            ]
            if "$ref" in schema:
                following.append(schemas.target(self._root, schema["$ref"]))
            if len(following) != 1:
                return
            (schema,) = following

    def _kinds_of(self, schema: Any) -> frozenset[str]:
        """Return the kinds of values that *schema* may allow; too many rather than too few."""
        if not isinstance(schema, Mapping):
            return frozenset() if schema is False else _KINDS
        known = self._kinds.get(id(schema))
        if known is None:
            self._kinds[id(schema)] = _KINDS  # What leads back to itself says nothing new.
            known = self._kinds[id(schema)] = _KINDS.intersection(*self._claims(schema))
        return known

    def _claims(self, schema: Mapping[str, Any]) -> Iterator[Iterable[str]]:
        """Give the kinds that each keyword of *schema* allows."""
        if "type" in schema:
            names = schema["type"]
            names = {names} if isinstance(names, str) else set(names)
            yield names | {"integer"} if "number" in names else names
        if "enum" in schema:
            yield chain.from_iterable(map(_kinds_of_value, schema["enum"]))
        if "const" in schema:
            yield _kinds_of_value(schema["const"])
        if "$ref" in schema:
            yield self._kinds_of(schemas.target(self._root, schema["$ref"]))
        yield from map(self._kinds_of, schema.get("allOf", ()))
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                yield chain.from_iterable(map(self._kinds_of, schema[keyword]))


def _kinds_of_value(value: Any) -> tuple[str, ...]:
    if isinstance(value, Mapping):
        return ("object",)
    if isinstance(value, list | tuple):
        return ("array",)
    kind = _TYPES.get(type(value))
    return (kind,) if kind else ("number", "integer")


def _member_rule(rules: list[Mapping[str, Any]], name: str) -> Any:
    """Return a schema that holds for the member *name* by one of *rules*, True if none does."""
    for rule in rules:
        properties = rule.get("properties", {})
        if name in properties:
            return properties[name]
        if "additionalProperties" in rule and "patternProperties" not in rule:
            return rule["additionalProperties"]
    return True


def _item_rule(rules: list[Mapping[str, Any]], index: int) -> Any:
    """Return a schema that holds for the item at *index* by one of *rules*, True if none does."""
    for rule in rules:
        first = rule.get("prefixItems", ())
        if index < len(first):
            return first[index]
        if "items" in rule:
            return rule["items"]
    return True


def _reading(text: str, kinds: frozenset[str]) -> Any:
    """Return what *text* stands for among *kinds*, or None."""
    if "boolean" in kinds and text in _TRUTHS:
        return _TRUTHS[text]
    if "integer" in kinds and _INTEGER.fullmatch(text):
        return int(text)
    if "number" in kinds and len(text) <= _MAX_NUMBER and _NUMBER.fullmatch(text):
        return float(text)
    end, kind = _BRACKETS.get(text[:1], ("", ""))
    return _parsed(text) if kind in kinds and text.endswith(end) else None


def _parsed(text: str) -> Any:
    """Return the object or array that *text* writes as JSON, or None."""
    import json  # noqa: PLC0415 - few models write so

    try:
        return freeze(json.loads(text, object_pairs_hook=_members, parse_constant=_refused))
    except (ValueError, RecursionError):
        return None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of *pairs*; one that says a name twice has more than one reading."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError(pairs)
    return members


def _refused(constant: str) -> Any:
    raise ValueError(constant)

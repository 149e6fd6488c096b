"""The conversion of text arguments to other JSON values: "3" where only an integer fits.

Models write such texts. A text is converted only where the schema refuses the text and accepts the
value, so no valid value is changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolbus.messages import schemas
from toolbus.messages.immutable import freeze

if TYPE_CHECKING:
    from toolbus.messages.records import JsonObject

# A number has one spelling: no plus, space, exponent, or zero that could be left out. With more
# digits the value might not be the same number as a 64-bit integer or float.
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_NUMBER = re.compile(r"(?=.{3,16}\Z)-?(?:0|[1-9][0-9]*)\.[0-9]+")
_TRUTHS = {"true": True, "false": False}
_BRACKETS = {"{": "}", "[": "]"}

PLAIN = frozenset((bool, int, float, type(None)))
"""The types of values that are not text and contain none."""


def converted(arguments: JsonObject, schema: JsonObject) -> JsonObject:
    """Return *arguments* with such texts replaced by their values.

    The result is the same object if there are no such texts, if *arguments* fit the schema, or if
    they are nested too deeply.
    """
    try:
        read = _read(arguments, schema, schema)
        if read is arguments or not schemas.problem(schema, arguments):
            return arguments
        frozen: JsonObject = freeze(read)
    except (RecursionError, AttributeError, LookupError, TypeError, ValueError):
        # A handler's schema may be malformed, and texts may nest too deeply to be read.
        return arguments
    return frozen


def _read(value: Any, rule: Any, root: JsonObject) -> Any:
    """Return *value* as the schema *rule* in *root* has it; the same object if unchanged."""
    if not isinstance(rule, Mapping):
        return value
    if isinstance(value, str):
        return _read_text(value, rule, root)
    rules, changed = _alternatives(rule, root), {}
    for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
        new = item if type(item) in PLAIN else _read(item, _rule_of(key, rules), root)
        if new is not item:
            changed[key] = new
    if not changed:
        return value
    if isinstance(value, Mapping):
        return {**value, **changed}
    return [changed.get(index, item) for index, item in enumerate(value)]


def _read_text(text: str, rule: JsonObject, root: JsonObject) -> Any:
    if rule.get("type") == "string":
        return text
    value, rules = _value_of(text), _alternatives(rule, root)
    if value is None or _names_type("string", rules):
        return text
    # JSON schema accepts 3.0 as an integer, but "3.0" is not the spelling of one.
    if isinstance(value, float) and not _names_type("number", rules):
        return text
    if isinstance(value, Mapping | tuple):
        value = _read(value, rule, root)
    is_refused = schemas.problem(rule, text, root) is not None
    return value if is_refused and schemas.problem(rule, value, root) is None else text


def _value_of(text: str) -> Any:
    """Return the JSON value of *text*, or None."""
    if text in _TRUTHS:
        return _TRUTHS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    if not text or _BRACKETS.get(text[0]) != text[-1]:
        return None
    import json  # noqa: PLC0415 - few models write so

    try:
        return freeze(json.loads(text, object_pairs_hook=_object, parse_constant=float))
    except (ValueError, RecursionError):
        return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of *pairs*; a repeated name is ambiguous."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError(pairs)
    return members


def _alternatives(rule: Any, root: JsonObject) -> list[JsonObject]:
    """Return *rule* and the schemas that it applies to the same value, each once."""
    by_identity: dict[int, JsonObject] = {}
    waiting = [rule]
    for each in waiting:
        if isinstance(each, Mapping) and id(each) not in by_identity:
            by_identity[id(each)] = each
            for keyword in ("allOf", "anyOf", "oneOf"):
                waiting += each.get(keyword, ())
            if "$ref" in each:
                waiting.append(schemas.target(root, each["$ref"]))
    return list(by_identity.values())


def _names_type(name: str, rules: list[JsonObject]) -> bool:
    """Return whether any of *rules* has the type *name*, alone or among several."""
    return any(name in rule.get("type", ()) for rule in rules)


def _rule_of(key: str | int, rules: list[JsonObject]) -> Any:
    """Return the only schema of *rules* for the member or item *key*, or None."""
    values = []
    for rule in rules:
        if isinstance(key, int):
            named, others = dict(enumerate(rule.get("prefixItems", ()))), "items"
        else:
            named, others = rule.get("properties", {}), "additionalProperties"
        if key in named:
            values.append(named[key])
        elif others in rule and "patternProperties" not in rule:
            values.append(rule[others])
    # With several schemas it is uncertain which applies.
    return values[0] if len(values) == 1 else None

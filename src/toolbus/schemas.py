"""Check a JSON value against a JSON schema, as far as tools use them.

The dialect is a part of JSON Schema 2020-12: the keywords of the table at the end of this file.
Others (`format`, `contains`, `unevaluatedProperties` …) are ignored, a `pattern` is one of
Python's `re`, and a `$ref` leads to a schema in the same document.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from math import inf, isfinite
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

# A level takes up to five frames of Python's stack, which has room for a thousand.
_LEVELS = 100


def problem(schema: Mapping[str, Any], value: Any) -> str | None:
    """Return the first problem of *value* in one line, with its JSON path, or None if it fits.

    The line names properties and types but tells no value, which may be a secret. *schema* must
    be one that `check_schema` finds sound. What needs more than 100 schemas inside each other,
    such as a chain of references without end, does not fit.
    """
    try:
        misfit = _check(schema, value, _Spot(schema, schema, (), _LEVELS))
    except _TooDeepError:
        misfit = _Misfit("nested too deeply", ())
    return misfit and f"{misfit.text} - at `${''.join(map(_render, misfit.path))}`"


def check_schema(schema: object) -> str | None:
    """Return the first flaw of *schema* in one line, with its JSON path, or None if it is sound.

    A `$ref` to another document is a flaw, and so is one to a place that holds no schema: what
    it means is undefined (JSON Schema 2020-12, Core, 9.4.2).
    """
    return problem({**_META, "document": schema}, schema)


class _TooDeepError(Exception):
    """No level is left; an exception, lest `not` or `anyOf` take it for an answer."""


class _Misfit(NamedTuple):
    text: str
    path: tuple[str | int, ...]


class _Spot(NamedTuple):
    """Where a check stands: what `#` means, the schema in force, the value's path, levels left."""

    root: Mapping[str, Any]
    schema: Mapping[str, Any]
    path: tuple[str | int, ...]
    levels: int

    def wrong(self, text: str) -> _Misfit:
        return _Misfit(text, self.path)


_Schema: TypeAlias = Mapping[str, Any] | bool
_Keyword: TypeAlias = Callable[[Any, Any, _Spot], _Misfit | None]


def _check(schema: _Schema, value: Any, spot: _Spot, *step: str | int) -> _Misfit | None:
    if isinstance(schema, bool):
        return None if schema else _Misfit("no value is allowed", spot.path + step)
    if not spot.levels:
        raise _TooDeepError
    here = _Spot(spot.root, schema, spot.path + step, spot.levels - 1)
    kinds = ("", "number" if (kind := _kind(value)) == "integer" else kind)
    rows = ((word, row) for word, row in _KEYWORDS.items() if word in schema and row[0] in kinds)
    return _first(check(schema[word], value, here) for word, (_, _, check) in rows)


def _first(misfits: Iterable[_Misfit | None]) -> _Misfit | None:
    return next(filter(None, misfits), None)


def _kind(value: Any) -> str:
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    kinds = (kind for types, kind in _KINDS if isinstance(value, types))
    return next(kinds, f"`{type(value).__name__}`")


def _frozen(value: Any, levels: int = _LEVELS) -> Any:
    """Return what equals another's exactly if both are equal in JSON: 1 is 1.0, but not true."""
    if not levels:
        raise _TooDeepError
    match value:
        case bool():
            return "boolean", value
        case Mapping():
            return frozenset((name, _frozen(value[name], levels - 1)) for name in value)
        case list() | tuple():
            return tuple(_frozen(item, levels - 1) for item in value)
    return value


def _line(text: str, room: int = 120) -> str:
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:room])
    return shown if len(text) <= room else f"{shown}…"


def _render(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if re.fullmatch(r"[\w$-]{1,120}", step) else f"['{_line(step)}']"


def _target(document: Any, reference: str) -> Any:
    """Follow *reference*, a JSON pointer in a fragment (RFC 6901), from schema to schema."""
    start, *steps = unquote(reference).split("/")
    target, path = {"#": document}[start], iter(steps)
    for keyword in path:
        target = target[keyword]
        if _RULES[keyword] in _HOLDERS:
            step = next(path, "").replace("~1", "/").replace("~0", "~")
            target = target[step if isinstance(target, Mapping) else int(step)]
        elif _RULES[keyword] is not _PART:
            raise LookupError(reference)
    return target


def _sound(what: str, text: str, spot: _Spot) -> _Misfit | None:
    try:
        re.compile(text) if what == "pattern" else _target(spot.root["document"], text)
    except (re.error, LookupError, OverflowError, RecursionError, TypeError, ValueError):
        return spot.wrong(f"unusable {what} `{_line(text)}`")
    return None


def _leaf(text: str, holds: Callable[[Any, Any], object]) -> _Keyword:
    def check(rule: Any, value: Any, spot: _Spot) -> _Misfit | None:
        if holds(value, rule):
            return None
        shown = rule if isinstance(rule, str) else json.dumps(rule, ensure_ascii=False)
        return spot.wrong(f"expected {text.format(_line(shown))}")

    return check


def _choice(most: float) -> _Keyword:
    """Make a keyword for which up to *most* schemas may fit; if none does, the closest ones tell."""

    def check(schemas: list[_Schema], value: Any, spot: _Spot) -> _Misfit | None:
        misfits = [misfit for schema in schemas if (misfit := _check(schema, value, spot))]
        if fitting := len(schemas) - len(misfits):
            return spot.wrong(f"fits {fitting} alternatives, not one") if fitting > most else None
        path = max((misfit.path for misfit in misfits), key=len)
        return _Misfit(" or ".join({m.text: 0 for m in misfits if m.path == path}), path)

    return check


def _is_multiple(value: float, unit: float) -> bool:
    # By their digits, as JSON writes them: 0.3 is three times 0.1. Infinities have none.
    return isfinite(value) and Fraction(str(value)) % Fraction(str(unit)) == 0


def _type(names: str | list[str], value: Any, spot: _Spot) -> _Misfit | None:
    allowed, kind = [names] if isinstance(names, str) else names, _kind(value)
    fits = kind in allowed or (kind == "integer" and "number" in allowed)
    return None if fits else spot.wrong(f"expected {' or '.join(allowed)}, got {kind}")


def _ref(reference: str, value: Any, spot: _Spot) -> _Misfit | None:
    return _check(_target(spot.root, reference), value, spot)


def _all_of(schemas: list[_Schema], value: Any, spot: _Spot) -> _Misfit | None:
    return _first(_check(schema, value, spot) for schema in schemas)


def _not(schema: _Schema, value: Any, spot: _Spot) -> _Misfit | None:
    return None if _check(schema, value, spot) else spot.wrong("excluded by `not`")


def _if(schema: _Schema, value: Any, spot: _Spot) -> _Misfit | None:
    branch = "else" if _check(schema, value, spot) else "then"
    return _check(spot.schema.get(branch, True), value, spot)


def _required(names: list[str], value: Any, spot: _Spot) -> _Misfit | None:
    missing = (f"missing required property `{_line(n)}`" for n in names if n not in value)
    return _first(map(spot.wrong, missing))


def _properties(schemas: Any, value: Any, spot: _Spot) -> _Misfit | None:
    return _first(_check(schemas[n], value[n], spot, n) for n in schemas if n in value)


def _patterns(schemas: Any, value: Any, spot: _Spot) -> _Misfit | None:
    pairs = ((p, name) for p in schemas for name in value if re.search(p, name))
    return _first(_check(schemas[p], value[name], spot, name) for p, name in pairs)


def _additional(schema: _Schema, value: Any, spot: _Spot) -> _Misfit | None:
    known, patterns = (spot.schema.get(k, ()) for k in ("properties", "patternProperties"))
    extra = [n for n in value if n not in known and not any(re.search(p, n) for p in patterns)]
    if extra and schema is False:
        return spot.wrong(f"unknown property `{_line(extra[0])}`")
    return _first(_check(schema, value[name], spot, name) for name in extra)


def _names(schema: _Schema, value: Any, spot: _Spot) -> _Misfit | None:
    found = ((name, _check(schema, name, spot)) for name in value)
    texts = (f"bad property name `{_line(n)}`: {misfit.text}" for n, misfit in found if misfit)
    return _first(map(spot.wrong, texts))


def _items(schema: _Schema, value: Any, spot: _Spot) -> _Misfit | None:
    start = len(spot.schema.get("prefixItems", ()))
    return _first(_check(schema, value[i], spot, i) for i in range(start, len(value)))


def _prefix(schemas: list[_Schema], value: Any, spot: _Spot) -> _Misfit | None:
    pairs = enumerate(zip(schemas, value, strict=False))
    return _first(_check(schema, item, spot, index) for index, (schema, item) in pairs)


_KINDS = (
    (bool, "boolean"),
    (int, "integer"),
    (str, "string"),
    (list | tuple, "array"),
    (Mapping, "object"),
    (type(None), "null"),
)

# What the keywords' own rules must be.
_PART = {"$ref": "#/$defs/schema"}
_MANY = {"type": "array", "items": _PART, "minItems": 1}
_NAMED = {"type": "object", "additionalProperties": _PART, "propertyNames": {"type": "string"}}
_BY_PATTERN = {**_NAMED, "propertyNames": {"type": "string", "sound": "pattern"}}
_NAMES = {"type": "array", "items": {"type": "string"}}
_SIZE = {"type": "integer", "minimum": 0}
_REAL = {"type": "number"}
_KIND = {"enum": ["array", "boolean", "integer", "null", "number", "object", "string"]}

# A keyword's row: the type of values it is for, what its rule must be, and the function.
_KEYWORDS: dict[str, tuple[str, Any, _Keyword]] = {
    "sound": ("string", {}, _sound),
    "type": ("", {"if": {"type": "array"}, "then": {"items": _KIND}, "else": _KIND}, _type),
    "enum": ("", {"type": "array"}, _leaf("one of {}", lambda v, each: _frozen(v) in map(_frozen, each))),
    "const": ("", {}, _leaf("{}", lambda v, rule: _frozen(v) == _frozen(rule))),
    "required": ("object", _NAMES, _required),
    "minProperties": ("object", _SIZE, _leaf("an object of length >= {}", lambda v, n: len(v) >= n)),
    "maxProperties": ("object", _SIZE, _leaf("an object of length <= {}", lambda v, n: len(v) <= n)),
    "minItems": ("array", _SIZE, _leaf("an array of length >= {}", lambda v, n: len(v) >= n)),
    "maxItems": ("array", _SIZE, _leaf("an array of length <= {}", lambda v, n: len(v) <= n)),
    "minLength": ("string", _SIZE, _leaf("a string of length >= {}", lambda v, n: len(v) >= n)),
    "maxLength": ("string", _SIZE, _leaf("a string of length <= {}", lambda v, n: len(v) <= n)),
}

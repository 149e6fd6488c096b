"""The check of a JSON value against a JSON schema, as far as tools use schemas.

The dialect is a part of JSON Schema 2020-12: the keywords of the table at the end of this file.
Other keywords (`format`, `contains`, `unevaluatedProperties` …) are ignored, a `pattern` is a
regular expression of Python, and a `$ref` points to a schema in the same document.

A hostile server may write a schema, so the work of a check is bounded, and a pattern whose search
might take long is not checked.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import inf
from typing import Any

from msgspec import Struct


def problem(
    schema: Mapping[str, Any], value: Any, root: Mapping[str, Any] | None = None
) -> str | None:
    """Return the first problem of *value* in one line, with its JSON path, or None if it fits.

    The line has names and types but no value, which may be a secret. *schema* must have passed
    `check_schema`, or be a part of such a *root*. A value that needs more than 100 nested schemas,
    or too many comparisons, is "nested too deeply".
    """
    try:
        spot = _Spot(schema if root is None else root, schema, [_MOST_WORK])
        misfit = _check(schema, value, spot)
    except RecursionError:
        misfit = _Misfit("nested too deeply", ())
    return str(misfit) if misfit else None


def check_schema(schema: object) -> str | None:
    """Return the first flaw of *schema* in one line, with its JSON path, or None if it is valid.

    A `$ref` must point to a schema of the same document (JSON Schema 2020-12, Core, 9.4.2).
    """
    return problem({**_META, "document": schema}, schema)


# Comparisons in one check, about a second in all; those of each schema; steps of one search.
_MOST_WORK, _PER_CHECK, _MOST_STEPS = 4_000_000, 10, 10_000_000

# Parts of a pattern: an escape or class, a repeat of a group, all repeats, those that may vary.
_ATOM, _REPEATED = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL), re.compile(r"\)[*+{]")
_REPEAT, _VARYING = re.compile(r"[*+{]|(?<!\()\?"), re.compile(r"[*+]|\{\d*,")
# References back, and the flag for spaces and comments, which would hide the parts above.
_OPAQUE = re.compile(r"\\[1-9]|\(\?P=|\(\?[a-z]*x|.{1001}", re.DOTALL)


class _Misfit(Struct, frozen=True):
    text: str
    path: tuple[str | int, ...]

    def __str__(self) -> str:
        steps = (f"[{step}]" if isinstance(step, int) else f".{_line(step)}" for step in self.path)
        return f"{self.text} - at `${''.join(steps)}`"


class _Spot(Struct, frozen=True):
    """The state of a check: the document of `#`, schema, work left in all, path, levels, kind."""

    root: Mapping[str, Any]
    schema: Mapping[str, Any]
    work: list[int]
    path: tuple[str | int, ...] = ()
    levels: int = 100  # A level takes up to four frames of Python's stack, which holds 1000.
    kind: str = ""

    def spend(self, work: int) -> None:
        """Take *work* from the work left; the check ends without any."""
        self.work[0] -= work
        if self.work[0] < 0 or not self.levels:
            raise RecursionError  # not a misfit, which `not` or `anyOf` would take for an answer

    def matches(self, text: str, pattern: str) -> bool:
        """Return whether *text* has a match of *pattern*, or True if the search might take long.

        That may be with an opaque part, a repeated group in which there is a choice, or too many
        repeats for the length of *text*.
        """
        if _OPAQUE.search(pattern):
            return True
        plain = _ATOM.sub("a", pattern)
        repeats, varying = len(_REPEAT.findall(plain)), len(_VARYING.findall(plain))
        choices = repeats - varying + plain.count("|")
        places = (len(text) + 1) ** min(varying + (not plain.startswith("^")), 24)
        steps = places * 2 ** min(choices, 24)
        if steps > _MOST_STEPS or (_REPEATED.search(plain) and varying + choices > 1):
            return True
        self.spend(steps >> 8)  # Few texts take as many steps as they might.
        return re.search(pattern, text) is not None

    def wrong(self, text: str) -> _Misfit:
        return _Misfit(text, self.path)


def _check(schema: Any, value: Any, spot: _Spot, *step: str | int) -> _Misfit | None:
    if isinstance(schema, bool):
        return None if schema else _Misfit("no value is allowed", spot.path + step)
    spot.spend(_PER_CHECK)
    path, levels, own_kind = spot.path + step, spot.levels - 1, _kind(value)
    here = _Spot(spot.root, schema, spot.work, path, levels, own_kind)
    for word, (kind, _, check) in _KEYWORDS.items():
        if word in schema and kind in ("", own_kind):
            rule = schema[word]
            spot.work[0] -= len(rule) if isinstance(rule, dict | list | tuple | str) else 1
            if misfit := check(rule, value, here):
                return misfit
    return None


def _first(misfits: Iterable[_Misfit | None]) -> _Misfit | None:
    return next(filter(None, misfits), None)


def _kind(value: Any) -> str:
    for kind, types in _TYPES.items():
        if isinstance(value, types):
            return kind
    return f"`{type(value).__name__}`"


def _frozen(value: Any) -> Any:
    """Return a hashable value, equal for values equal in JSON: 1 equals 1.0, but not true."""
    if isinstance(value, Mapping):
        return frozenset((name, _frozen(value[name])) for name in value)
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return (bool, value) if isinstance(value, bool) else value


def _line(text: object, length: int = 120) -> str:
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(text)[: length + 1])
    return line if len(line) <= length else f"{line[:length]}…"


def target(document: Any, reference: str) -> Any:
    """Follow *reference*, a JSON pointer in a fragment (RFC 6901), from schema to schema."""
    from urllib.parse import unquote  # noqa: PLC0415 - slow to import, rarely needed

    start, *steps = unquote(reference).split("/")
    target, path = {"#": document}[start], iter(steps)
    for keyword in path:
        target = target[keyword]
        if _HOLDERS[keyword] is not _PART:
            step = next(path, "").replace("~1", "/").replace("~0", "~")
            target = target[step] if isinstance(target, Mapping) else target[int(step)]
    return target


def _sound(what: str, text: str, spot: _Spot) -> _Misfit | None:
    try:
        re.compile(text) if what == "pattern" else target(spot.root["document"], text)
    except (re.error, LookupError, OverflowError, RecursionError, TypeError, ValueError):
        return spot.wrong(f"unusable {what} `{_line(text)}`")
    return None


def _test(
    text: str, fits: Callable[..., Any], rule: Any, value: Any, spot: _Spot
) -> _Misfit | None:
    if fits(value, rule):
        return None
    import json  # noqa: PLC0415 - as above

    return spot.wrong(f"expected {text} {_line(json.dumps(rule, ensure_ascii=False, default=str))}")


def _is_among(value: Any, allowed: list[Any]) -> bool:
    return any(_is_equal(value, each) for each in allowed)


def _is_equal(value: Any, other: Any) -> bool:
    """Return whether both are equal in JSON, at the cost of the smaller one."""
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        names = value.keys()
        return names == other.keys() and all(_is_equal(value[n], other[n]) for n in names)
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(_is_equal, value, other))
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _is_multiple(value: float, unit: float) -> bool:
    # By their digits, as JSON writes them: 0.3 is three times 0.1. Infinities have none.
    from fractions import Fraction  # noqa: PLC0415 - slow to import, rarely needed

    return abs(value) < inf and Fraction(str(value)) % Fraction(str(unit)) == 0


def _type(names: str | list[str], value: Any, spot: _Spot) -> _Misfit | None:
    allowed, kind = [names] if isinstance(names, str) else names, spot.kind
    fits = kind in allowed or (kind == "number" and "integer" in allowed and value % 1 == 0)
    return None if fits else spot.wrong(f"expected {' or '.join(allowed)}, got {kind}")


def _unique(wanted: bool, value: Any, spot: _Spot) -> _Misfit | None:  # noqa: FBT001 - as in JSON
    spot.spend(len(repr(value)) >> 2 if wanted else 0)
    repeats = wanted and len(set(map(_frozen, value))) < len(value)
    return spot.wrong("expected unique items") if repeats else None


def _prefix(rules: list[Any], value: Any, spot: _Spot) -> _Misfit | None:
    return _first(_check(rules[i], item, spot, i) for i, item in enumerate(value[: len(rules)]))


def _items(rule: Any, value: Any, spot: _Spot) -> _Misfit | None:
    start = len(spot.schema.get("prefixItems", ()))
    return _first(_check(rule, value[i], spot, i) for i in range(start, len(value)))


def _required(names: list[str], value: Any, spot: _Spot) -> _Misfit | None:
    missing = (_line(name) for name in names if name not in value)
    return _first(spot.wrong(f"missing required property `{name}`") for name in missing)


def _names(rule: Any, value: Any, spot: _Spot) -> _Misfit | None:
    checked = ((_line(name), _check(rule, name, spot)) for name in value)
    return _first(spot.wrong(f"bad property name `{name}`: {m.text}") for name, m in checked if m)


def _properties(rules: Any, value: Any, spot: _Spot) -> _Misfit | None:
    return _first(_check(rules[n], value[n], spot, n) for n in rules if n in value)


def _patterns(rules: Any, value: Any, spot: _Spot) -> _Misfit | None:
    spot.spend(len(rules) * len(value) * _PER_CHECK)
    pairs = ((p, name) for p in rules for name in value if spot.matches(name, p))
    return _first(_check(rules[p], value[name], spot, name) for p, name in pairs)


def _additional(rule: Any, value: Any, spot: _Spot) -> _Misfit | None:
    known, patterns = (spot.schema.get(k, ()) for k in ("properties", "patternProperties"))
    named = (n for n in value if n not in known)
    extra = [n for n in named if not any(spot.matches(n, p) for p in patterns)]
    if extra and rule is False:
        return spot.wrong(f"unknown property `{_line(extra[0])}`")
    return _first(_check(rule, value[name], spot, name) for name in extra)


def _some_of(limit: float, rules: list[Any], value: Any, spot: _Spot) -> _Misfit | None:
    """Let 1 to *limit* schemas fit; if none does, report the schemas with the deepest misfit."""
    misfits = [misfit for rule in rules if (misfit := _check(rule, value, spot))]
    if fitting := len(rules) - len(misfits):
        return spot.wrong(f"fits {fitting} alternatives, not one") if fitting > limit else None
    path = max((misfit.path for misfit in misfits), key=len)
    return _Misfit("; or ".join({m.text: 0 for m in misfits if m.path == path}), path)


def _if(rule: Any, value: Any, spot: _Spot) -> _Misfit | None:
    branch = "else" if _check(rule, value, spot) else "then"
    return _check(spot.schema.get(branch, True), value, spot)


_TYPES: dict[str, Any] = {"boolean": bool, "number": (int, float), "string": str}
_TYPES |= {"null": type(None), "array": (list, tuple), "object": Mapping}
_at_least = partial(_test, "length >=", lambda value, size: len(value) >= size)
_at_most = partial(_test, "length <=", lambda value, size: len(value) <= size)

# The schemas of the keywords' own rules.
_PART = {"$ref": "#/$defs/schema"}
_MANY = {"type": "array", "items": _PART, "minItems": 1}
_NAMED = {"type": "object", "additionalProperties": _PART, "propertyNames": {"type": "string"}}
_PATTERN = {"type": "string", "toolbus:sound": "pattern"}
_PATTERNS = {**_NAMED, "propertyNames": _PATTERN}
_REFERENCE = {"type": "string", "toolbus:sound": "reference"}
_SIZE = {"type": "integer", "minimum": 0}
_REAL = {"type": "number"}
_UNIT = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": inf}
_KIND = {"enum": [*_TYPES, "integer"]}
_KINDS = {"if": {"type": "array"}, "then": {"items": _KIND, "minItems": 1}, "else": _KIND}

# In the order of the checks: the value type it applies to ("": all), its rule's schema, its check.
_KEYWORDS: dict[str, tuple[str, Any, Callable[[Any, Any, _Spot], _Misfit | None]]] = {
    "toolbus:sound": ("string", True, _sound),
    "type": ("", _KINDS, _type),
    "enum": ("", {"type": "array"}, partial(_test, "one of", _is_among)),
    "const": ("", True, partial(_test, "the constant", lambda v, only: _is_among(v, [only]))),
    "minLength": ("string", _SIZE, _at_least),
    "maxLength": ("string", _SIZE, _at_most),
    "pattern": ("string", _PATTERN, lambda p, v, spot: _test("match of", spot.matches, p, v, spot)),
    "minimum": ("number", _REAL, partial(_test, "number >=", operator.ge)),
    "maximum": ("number", _REAL, partial(_test, "number <=", operator.le)),
    "exclusiveMinimum": ("number", _REAL, partial(_test, "number >", operator.gt)),
    "exclusiveMaximum": ("number", _REAL, partial(_test, "number <", operator.lt)),
    "multipleOf": ("number", _UNIT, partial(_test, "multiple of", _is_multiple)),
    "minItems": ("array", _SIZE, _at_least),
    "maxItems": ("array", _SIZE, _at_most),
    "uniqueItems": ("array", {"type": "boolean"}, _unique),
    "prefixItems": ("array", _MANY, _prefix),
    "items": ("array", _PART, _items),
    "required": ("object", {"type": "array", "items": {"type": "string"}}, _required),
    "minProperties": ("object", _SIZE, _at_least),
    "maxProperties": ("object", _SIZE, _at_most),
    "propertyNames": ("object", _PART, _names),
    "properties": ("object", _NAMED, _properties),
    "patternProperties": ("object", _PATTERNS, _patterns),
    "additionalProperties": ("object", _PART, _additional),
    "$ref": ("", _REFERENCE, lambda ref, v, spot: _check(target(spot.root, ref), v, spot)),
    "allOf": ("", _MANY, lambda rules, v, spot: _first(_check(rule, v, spot) for rule in rules)),
    "anyOf": ("", _MANY, partial(_some_of, inf)),
    "oneOf": ("", _MANY, partial(_some_of, 1)),
    "not": (
        "",
        _PART,
        lambda no, v, spot: None if _check(no, v, spot) else spot.wrong("excluded value"),
    ),
    "if": ("", _PART, _if),
}
_RULES = {keyword: rule for keyword, (_, rule, _) in _KEYWORDS.items()}
_RULES |= {"then": _PART, "else": _PART, "$defs": _NAMED, "definitions": _NAMED}
_HOLDERS = {k: v for k, v in _RULES.items() if v in (_PART, _MANY, _NAMED, _PATTERNS)}
_SCHEMA = {"type": ["object", "boolean"], "properties": _RULES}
_META = {"type": "object", **_PART, "$defs": {"schema": _SCHEMA}}

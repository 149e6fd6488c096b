"""Strategies for JSON values that match a schema, for the keywords of `toolbus.messages.schemas`.

The library hypothesis-jsonschema 0.23 supports the drafts 4 to 7; tools use 2020-12, with
`prefixItems` and references beside other keywords. The strategies use the keywords that tools use;
all other keywords only filter, so that few values match a schema made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC
from math import inf
from typing import TYPE_CHECKING, Any

from toolbus.messages import schemas
from toolbus.messages.immutable import INT_MAX, INT_MIN, thaw
from toolbus.testing.text_strategies import st

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

ANNOTATIONS = frozenset(
    {
        *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
        *("$defs", "definitions", "$schema", "$id", "$comment", "$anchor"),
    }
)
_KINDS = ("null", "boolean", "integer", "number", "string", "array", "object")
# Values of a schema with only these keywords need no filter.
_SURE = ANNOTATIONS | {"type", "properties", "required", "items", "$ref"}
_FORMATS: dict[str, Callable[[], SearchStrategy[str]]] = {
    "date-time": lambda: st.datetimes(timezones=st.just(UTC)).map(lambda time: time.isoformat()),
    "date": lambda: st.dates().map(str),
    "time": lambda: st.times().map(lambda time: time.isoformat() + "Z"),
    "duration": lambda: st.integers(0, 10**6).map(lambda seconds: f"PT{seconds}S"),
    "uuid": lambda: st.uuids().map(str),
    "decimal": lambda: st.decimals(-(10**6), 10**6, places=2).map(str),
    "email": lambda: st.from_regex(r"[a-z]{1,8}@[a-z]{1,8}\.org", fullmatch=True),
    "uri": lambda: st.from_regex(r"https://[a-z]{1,8}\.org/[a-z]{0,8}", fullmatch=True),
}


def json_values(
    *, max_leaves: int = 12, texts: SearchStrategy[str] | None = None
) -> SearchStrategy[Any]:
    """Draw JSON values, of dicts and lists, that survive a round trip."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(INT_MIN, INT_MAX)
        | st.floats(allow_nan=False, allow_infinity=False)
        | (st.text() if texts is None else texts)
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=max_leaves,
    )


def values_for(
    schema: Mapping[str, Any], texts: SearchStrategy[str] | None = None
) -> SearchStrategy[Any]:
    """Draw JSON values that match *schema*, with *texts* for strings without other keywords.

    Raises `ValueError` for an invalid schema. `format` is supported for the formats of Python
    types, such as dates, times and UUIDs.
    """
    if flaw := schemas.check_schema(schema):
        msg = f"the schema is not valid: {flaw}"
        raise ValueError(msg)
    root = thaw(schema)
    return _SchemaStrategies(root, st.text() if texts is None else texts).of(root)


def merge(*schemas: Mapping[str, Any] | bool) -> dict[str, Any]:
    """Return a schema that accepts all values that match every one of *schemas*, and maybe more.

    Of two rules for a keyword the later one is used. The filter makes the result exact.
    """
    merged: dict[str, Any] = {}
    for schema in schemas:
        if schema is False:
            return {"enum": []}
        for word, rule in schema.items() if isinstance(schema, Mapping) else ():
            merged[word] = _both(word, merged[word], rule) if word in merged else rule
    return merged


def _both(word: str, first: Any, second: Any) -> Any:
    if isinstance(first, dict) and isinstance(second, dict) and word in {"properties", "items"}:
        return {**first, **second}
    if word in {"required", "allOf"}:
        return [*first, *[each for each in second if each not in first]]
    return second


class _SchemaStrategies:
    """The strategies for the parts of one document, *root*; each reference is resolved once."""

    def __init__(self, root: dict[str, Any], texts: SearchStrategy[str]) -> None:
        self._root, self._texts = root, texts
        self._referred: dict[str, SearchStrategy[Any]] = {}

    def of(self, schema: Any) -> SearchStrategy[Any]:
        """Return the strategy of values that match *schema*, an object, True or False."""
        if isinstance(schema, bool):
            return json_values(texts=self._texts) if schema else st.nothing()
        drawn = self._drawn(schema)
        if schema.keys() <= _SURE:
            return drawn
        return drawn.filter(lambda value: schemas.problem(schema, value, self._root) is None)

    def _drawn(self, schema: dict[str, Any]) -> SearchStrategy[Any]:
        rest = schema.copy()
        if (reference := rest.pop("$ref", None)) is not None:
            return self._follow(reference, rest)
        if parts := rest.pop("allOf", ()):
            return self._drawn(merge(rest, *parts))
        for word in ("anyOf", "oneOf"):
            if parts := rest.pop(word, ()):
                return st.one_of([self.of(merge(rest, part)) for part in parts])
        if (condition := rest.pop("if", None)) is not None:
            met, unmet = rest.pop("then", True), rest.pop("else", True)
            return self.of(merge(rest, condition, met)) | self.of(merge(rest, unmet))
        return self._simple(rest)

    def _simple(self, schema: dict[str, Any]) -> SearchStrategy[Any]:
        """Return the strategy of a *schema* without subschemas to combine."""
        if "const" in schema:
            return st.just(schema["const"])
        if "enum" in schema:
            return st.sampled_from(schema["enum"]) if schema["enum"] else st.nothing()
        kinds = schema.get("type", _KINDS)
        kinds = [kinds] if isinstance(kinds, str) else kinds
        return st.one_of([self._of_kind(kind, schema) for kind in kinds])

    def _follow(self, reference: str, rest: dict[str, Any]) -> SearchStrategy[Any]:
        if rest.keys() - ANNOTATIONS:
            return self._drawn(merge(schemas.target(self._root, reference), rest))
        if reference not in self._referred:
            resolved = st.deferred(lambda: self.of(schemas.target(self._root, reference)))
            self._referred[reference] = resolved
        return self._referred[reference]

    def _of_kind(self, kind: str, schema: dict[str, Any]) -> SearchStrategy[Any]:
        match kind:
            case "null":
                return st.none()
            case "boolean":
                return st.booleans()
            case "integer":
                return _integers(schema)
            case "number":
                return _integers(schema) | _reals(schema)
            case "string":
                return _strings(schema, self._texts)
            case "array":
                return self._arrays(schema)
        return self._objects(schema)

    def _arrays(self, schema: dict[str, Any]) -> SearchStrategy[Any]:
        minimum, maximum = schema.get("minItems", 0), schema.get("maxItems", inf)
        first = [self.of(rule) for rule in schema.get("prefixItems", ())]
        first = first[: int(maximum)] if maximum < len(first) else first
        items, few = schema.get("items", True), max(minimum - len(first), 0)
        many = few if items is False else min(maximum - len(first), few + 4)
        unique = repr if schema.get("uniqueItems") else None
        rest = st.lists(self.of(items), min_size=few, max_size=int(many), unique_by=unique)
        return st.builds(lambda head, tail: [*head, *tail], st.tuples(*first), rest)

    def _objects(self, schema: dict[str, Any]) -> SearchStrategy[Any]:
        known = {name: self.of(rule) for name, rule in schema.get("properties", {}).items()}
        extra = schema.get("additionalProperties", True)
        needed = {
            name: known.pop(name) if name in known else self.of(extra)
            for name in schema.get("required", ())
        }
        fixed = st.fixed_dictionaries(needed, optional=known)
        # Unknown names are drawn if they are required, or if there are no known ones.
        fewest = max(schema.get("minProperties", 0) - len(needed) - len(known), 0)
        if extra is False or not (fewest or isinstance(extra, dict) or "properties" not in schema):
            return fixed
        others = st.dictionaries(st.text(), self.of(extra), min_size=fewest, max_size=fewest + 3)
        return st.builds(lambda unknown, known: {**unknown, **known}, others, fixed)


def _bounds(schema: dict[str, Any]) -> tuple[float, float]:
    """Return the smallest and the greatest number; excluded bounds are left to the filter."""
    minimum = max(schema.get("minimum", -inf), schema.get("exclusiveMinimum", -inf))
    return minimum, min(schema.get("maximum", inf), schema.get("exclusiveMaximum", inf))


def _integers(schema: dict[str, Any]) -> SearchStrategy[Any]:
    minimum, maximum = _bounds(schema)
    unit = schema.get("multipleOf", 1)
    step = unit if isinstance(unit, int) else 1
    first = int(-(-max(minimum, INT_MIN) // step))
    highest = int(min(maximum, INT_MAX) // step)
    return st.nothing() if first > highest else st.integers(first, highest).map(lambda n: n * step)


def _reals(schema: dict[str, Any]) -> SearchStrategy[Any]:
    minimum, maximum = _bounds(schema)
    low, high = float(max(minimum, -1.7e308)), float(min(maximum, 1.7e308))
    if low > high:
        return st.nothing()
    return st.floats(low, high, allow_nan=False, allow_infinity=False)


def _strings(schema: dict[str, Any], texts: SearchStrategy[str]) -> SearchStrategy[str]:
    minimum, maximum = schema.get("minLength", 0), schema.get("maxLength")
    if pattern := schema.get("pattern"):
        return st.from_regex(pattern)
    if (made := _FORMATS.get(schema.get("format", ""))) is not None:
        return made()
    if schema.get("contentEncoding") == "base64":
        return st.sampled_from(("", "aGk=", "AAECAw=="))
    if not minimum and maximum is None:
        return texts
    return st.text(min_size=minimum, max_size=maximum)

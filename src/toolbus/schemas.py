"""Check a JSON value against a JSON schema, as far as tools use them.

The dialect is a part of JSON Schema 2020-12: the keywords in the tables at the end of this file, `$ref` to places in the
same schema, and `$defs` and `definitions` to hold them. Other keywords (`format`, `contains`, `unevaluatedProperties`, …)
are ignored. A `pattern` is read by Python's `re`, and schemas are trusted: a slow pattern makes a slow check.
"""

import json
import operator
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

Schema: TypeAlias = Mapping[str, Any] | bool
_Path: TypeAlias = tuple[str | int, ...]

# Each level takes up to four frames of the interpreter's stack, which by default holds a thousand.
_LEVELS = 100


def problem(schema: Mapping[str, Any], value: Any) -> str | None:
    """Return the first problem of *value* under *schema* in one line, with its path, or None if it fits.

    The line never holds the value, which may be a secret, only its type and the names of its properties. A value, or a
    chain of references, nested more than 100 schemas deep does not fit. *schema* must have passed `check_schema`.
    """
    try:
        _check(schema, value, _Spot(schema, schema, (), _LEVELS))
    except _MisfitError as misfit:
        return str(misfit)
    except _TooDeepError:
        return "nested too deeply - at `$`"
    return None


def check_schema(schema: object) -> str | None:
    """Return the first flaw of *schema* in one line, with its path, or None if `problem` can work with it.

    A reference must point to a schema in the same document: what lies elsewhere is never fetched, and what a pointer into
    an unknown keyword means is undefined (JSON Schema 2020-12, core, 9.4.2).
    """
    flaw = problem(_META, schema)
    if flaw is None and isinstance(schema, Mapping):
        parts = dict(_parts(schema, ()))
        known = {tuple(map(str, path)) for path in parts}
        flaw = next((str(misfit) for path, part in parts.items() for misfit in _flaws(part, path, known)), None)
    return flaw


class _MisfitError(Exception):
    def __init__(self, text: str, path: _Path) -> None:
        self.text, self.path = text, path
        super().__init__(text, path)

    def __str__(self) -> str:
        return f"{self.text} - at `${''.join(map(_step, self.path))}`"


class _TooDeepError(Exception):
    """No levels are left; not a misfit, so that neither `not` nor `anyOf` can take it for an answer."""


class _Spot(NamedTuple):
    """Where a check stands: what `#` means, the schema in force, the value's path, the levels left."""

    root: Mapping[str, Any]
    schema: Mapping[str, Any]
    path: _Path
    levels: int

    def step(self, key: str | int) -> "_Spot":
        return self._replace(path=(*self.path, key))

    def enter(self, schema: Mapping[str, Any]) -> "_Spot":
        if not self.levels:
            raise _TooDeepError
        return self._replace(schema=schema, levels=self.levels - 1)

    def wrong(self, text: str) -> _MisfitError:
        return _MisfitError(text, self.path)


def _check(schema: Schema, value: Any, spot: _Spot) -> None:
    if isinstance(schema, bool):
        if not schema:
            raise spot.wrong("no value is allowed")
        return
    inner = spot.enter(schema)
    for keyword, check in _CHECKS.get(_kind(value), _ANY).items():
        if keyword in schema:
            check(schema[keyword], value, inner)


def _misfit(schema: Schema, value: Any, spot: _Spot) -> _MisfitError | None:
    try:
        _check(schema, value, spot)
    except _MisfitError as misfit:
        return misfit
    return None


def _closest(misfits: Iterable[_MisfitError]) -> _MisfitError:
    """Word the alternatives that came furthest into the value: most likely they are the ones that were meant."""
    path = max((misfit.path for misfit in misfits), key=len)
    return _MisfitError(" or ".join(dict.fromkeys(misfit.text for misfit in misfits if misfit.path == path)), path)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case Mapping():
            return "object"
    return type(value).__name__


def _frozen(value: Any, levels: int) -> Hashable:
    """Return what equals another value's exactly if the two are equal in JSON, where 1 is 1.0 but not true."""
    if not levels:
        raise _TooDeepError
    match _kind(value):
        case "object":
            return "object", frozenset((name, _frozen(value[name], levels - 1)) for name in value)
        case "array":
            return "array", tuple(_frozen(item, levels - 1) for item in value)
        case "null" | "integer" | "number" | "string":
            return value  # type: ignore[no-any-return]  # these four are hashable
        case kind:
            return kind, value if kind == "boolean" else id(value)

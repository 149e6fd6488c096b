r"""Values of a call: the paths of values in arguments, and the tests of a rule.

In a path such as `path`, `options.mode` or `files.*.path`, dots separate the keys, a number is an
index in a list, and `*` is every item or member. A backslash quotes a dot, or a star that is a key.

| in the file | matches |
|---|---|
| `mode = "force"` | an equal value |
| `mode = ["force", "hard"]` | a value in the list |
| `mode = { equals = "force" }`, `{ one_of = [...] }` | the same |
| `name = { glob = "prod-*" }` | a text; `*` is any characters, case counts |
| `name = { pattern = "^prod-[0-9]+$" }` | a text that RE2 finds a match in (extra `patterns`) |
| `count = { min = 1, max = 10 }` | a number, bounds included |

All tests of one table must pass. A value of the wrong type is an error and not a "no": a rule must
not disappear because a model wrote `"10"` instead of 10.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from toolbus.messages.immutable import FrozenDict, thaw
from toolbus.policy.rules.tables import ValueTable
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_MOST_SHOWN = 60
_PART = re.compile(r"((?:\\.|[^.\\])+)(?:\.|$)")
EVERY = "*"
_MOST_DIGITS = 9


class ConditionError(Exception):
    """A condition of a rule cannot be judged for a call: *reason* says why."""

    def __init__(self, key: str, reason: str) -> None:
        self.key, self.reason = key, reason
        super().__init__(key, reason)

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}"


class WrongTypeError(Exception):
    """A value does not have the type that a test expects."""


class ValueTest(NamedTuple):
    """A test for values of some *kinds*: its *words* for people, and its predicate *fits*."""

    kinds: tuple[str, ...]
    words: str
    fits: Callable[[Any], bool]


def build_tests(value: Any) -> tuple[ValueTest, ...]:
    """Return the tests of *value*, a `tables.Value`; raises `MisfitError`."""
    if isinstance(value, tuple):
        return (_equality(value),)
    if not isinstance(value, ValueTable):
        return (_equality((value,)),)
    tests = tuple(_tests(value))
    if not tests:
        raise MisfitError("expected a test such as { equals = … }, got an empty table")
    return tests


def _tests(table: ValueTable) -> Iterator[ValueTest]:
    if table.equals is not UNSET:
        yield _equality((table.equals,))
    if table.one_of is not UNSET:
        yield _equality(table.one_of)
    if (glob := table.glob) is not UNSET:
        yield ValueTest(("text",), f"like {glob!r}", lambda value: fnmatchcase(value, glob))
    if table.pattern is not UNSET:
        from toolbus.policy.rules.patterns import read_pattern  # noqa: PLC0415 - loads RE2, for few

        search = read_pattern(table.pattern)
        yield ValueTest(("text",), f"with {table.pattern!r} in it", search)
    if table.min is not UNSET or table.max is not UNSET:
        least = -inf if table.min is UNSET else table.min
        yield _bounds(least, inf if table.max is UNSET else table.max)


def _equality(wanted: tuple[Any, ...]) -> ValueTest:
    """Return the test for a value in *wanted*; types count: 1 is neither true nor "1"."""
    typed = [(type_name(each), each) for each in wanted]
    kinds = tuple(sorted({kind for kind, _ in typed}))
    return ValueTest(
        kinds, " or ".join(map(excerpt, wanted)), lambda value: (type_name(value), value) in typed
    )


def _bounds(least: float, greatest: float) -> ValueTest:
    """Return the test for a number between *least* and *greatest*, both included."""
    # NaN is neither below nor above any number.
    if not least <= greatest:
        raise MisfitError(f"no number is at least {least} and at most {greatest}", "min")
    words = f"{least} to {greatest}"
    if greatest == inf:
        words = f"at least {least}"
    elif least == -inf:
        words = f"at most {greatest}"
    return ValueTest(("number",), words, lambda value: bool(least <= value <= greatest))


def passes(tests: Sequence[ValueTest], value: Any) -> bool:
    """Return whether all *tests* hold for *value*; raises `WrongTypeError`."""
    # A value of the wrong type is an error even if another test says no.
    for test in tests:
        check_type(value, *test.kinds)
    return all(test.fits(value) for test in tests)


def check_type(value: Any, *kinds: str) -> None:
    """Raise `WrongTypeError` unless *value* is of one of *kinds*."""
    if type_name(value) not in kinds:
        raise WrongTypeError(f"expected a {' or a '.join(kinds)}, got {excerpt(value)}")


def type_name(value: Any) -> str:
    """Return the name of *value*'s JSON type."""
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case dict() | FrozenDict():
            return "table"
        case list() | tuple():
            return "list"
    return "null" if value is None else type(value).__name__


def excerpt(value: Any) -> str:
    """Return *value* as text, truncated."""
    return first_words(repr(thaw(value)), _MOST_SHOWN)


def first_words(text: str, length: int) -> str:
    """Return *text*, or its first words with "…", at most *length* characters.

    The cut is between words, because redaction does not find part of a secret.
    """
    return text if len(text) <= length else f"{text[:length].rpartition(' ')[0]}…"


def read_path(text: str) -> tuple[str, ...]:
    r"""Return the keys of the path *text*, a quoted star as `\*`; raises `MisfitError`."""
    keys, position = [], 0
    while match := _PART.match(text, position):
        keys.append(match[1] if match[1] == r"\*" else re.sub(r"\\(.)", r"\1", match[1]))
        position = match.end()
    if position < len(text) or not keys or (text.endswith(".") and not text.endswith(r"\.")):
        raise MisfitError(f"expected a path of an argument, got {text!r}; separate keys with dots")
    return tuple(keys)


def values_at(arguments: Mapping[str, Any], path: Sequence[str]) -> list[Any]:
    """Return the values at *path*, without absent and null values.

    Raises `WrongTypeError` if the path goes into a value without members.
    """
    return [value for value in places_at(arguments, path) if value is not None]


def places_at(arguments: Mapping[str, Any], path: Sequence[str]) -> list[Any]:
    """Return the values at *path*, None for each absent or null value.

    Raises `WrongTypeError` if the path goes into a value without members.
    """
    values: list[Any] = [arguments]
    for number, key in enumerate(path):
        below: list[Any] = []
        for value in values:
            kind = type_name(value)
            if kind not in {"table", "list", "null"}:
                place = ".".join(path[:number]) or "it"
                raise WrongTypeError(f"{place} has no {key!r} because it is {excerpt(value)}")
            below += _MEMBERS[kind](value, key)
        values = below
    return values


def _of_table(value: Mapping[str, Any], key: str) -> list[Any]:
    if key == EVERY:
        return list(value.values())
    return [value.get(EVERY if key == r"\*" else key)]


def _of_list(value: Sequence[Any], key: str) -> list[Any]:
    if key == EVERY:
        return list(value)
    if key.isascii() and key.isdigit() and len(key) <= _MOST_DIGITS:
        return list(value[int(key) : int(key) + 1]) or [None]
    return [None]


_MEMBERS: dict[str, Callable[[Any, str], list[Any]]] = {
    "table": _of_table,
    "list": _of_list,
    "null": lambda _value, _key: [None],
}
"""By type of a value, the members that a path's key names."""

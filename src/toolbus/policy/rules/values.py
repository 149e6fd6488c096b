r"""Values of a call: where they stand in its arguments, and what a rule asks of one.

A path such as `path`, `options.mode`, `files.*.path`: dots part the keys, a number is the place of
an item in a list, `*` stands for every item or member; a backslash before a dot, or before a star
that is a key, takes it as it is.

| in the file | holds for |
|---|---|
| `mode = "force"` | what equals it |
| `mode = ["force", "hard"]` | each of them |
| `mode = { equals = "force" }`, `{ one_of = [...] }` | the same |
| `name = { glob = "prod-*" }` | texts; `*` is any characters, capitals count |
| `name = { pattern = "^prod-[0-9]+$" }` | texts in which RE2 finds it (extra `patterns`) |
| `count = { min = 1, max = 10 }` | numbers, bounds included |

Several tests in one table must all hold. A value of another type than the test is for is no "no":
it is an error, for a rule must not disappear because somebody wrote `"10"` for 10.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import UNSET

from toolbus.messages.immutable import FrozenDict, thaw
from toolbus.policy.rules.schemas import located
from toolbus.policy.rules.tables import ValueTable
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolbus.policy.rules.patterns import Pattern

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
    """A value is of another type than a test is for."""


class Equals(NamedTuple):
    """Equality with one of *wanted*, in which types count: 1 is not true, and "1" is not 1."""

    wanted: tuple[Any, ...]

    @property
    def kinds(self) -> list[str]:
        """The types of values that it is for."""
        return sorted({type_name(each) for each in self.wanted})

    def __call__(self, value: Any) -> bool:
        """Return whether *value* fits."""
        return any(type_name(each) == type_name(value) and each == value for each in self.wanted)

    def __str__(self) -> str:
        return " or ".join([shown(each) for each in self.wanted])


class MatchesGlob(NamedTuple):
    """A match of a text with a glob pattern."""

    glob: str

    @property
    def kinds(self) -> list[str]:
        """The types of values that it is for."""
        return ["text"]

    def __call__(self, value: Any) -> bool:
        """Return whether *value* fits."""
        return fnmatchcase(value, self.glob)

    def __str__(self) -> str:
        return f"like {self.glob!r}"


class MatchesPattern(NamedTuple):
    """A match of a pattern of RE2, anywhere in a text."""

    pattern: Pattern

    @property
    def kinds(self) -> list[str]:
        """The types of values that it is for."""
        return ["text"]

    def __call__(self, value: Any) -> bool:
        """Return whether *value* fits."""
        return self.pattern.is_in(value)

    def __str__(self) -> str:
        return f"with {self.pattern.text!r} in it"


class WithinBounds(NamedTuple):
    """A number between *least* and *greatest*, both included."""

    least: float
    greatest: float

    @property
    def kinds(self) -> list[str]:
        """The types of values that it is for."""
        return ["number"]

    def __call__(self, value: Any) -> bool:
        """Return whether *value* fits."""
        return bool(self.least <= value <= self.greatest)

    def __str__(self) -> str:
        if self.greatest == inf:
            return f"at least {self.least}"
        return (
            f"at most {self.greatest}" if self.least == -inf else f"{self.least} to {self.greatest}"
        )


ValueTest: TypeAlias = "Equals | MatchesGlob | MatchesPattern | WithinBounds"


def build_tests(value: Any) -> tuple[ValueTest, ...]:
    """Return the tests that *value*, of `tables.Value`, stands for; raises `MisfitError`."""
    if isinstance(value, tuple):
        return (Equals(value),)
    if not isinstance(value, ValueTable):
        return (Equals((value,)),)
    tests: list[ValueTest] = []
    if value.equals is not UNSET:
        tests.append(Equals((value.equals,)))
    if value.one_of is not UNSET:
        tests.append(Equals(value.one_of))
    if value.glob is not UNSET:
        tests.append(MatchesGlob(value.glob))
    if value.pattern is not UNSET:
        from toolbus.policy.rules.patterns import Pattern  # noqa: PLC0415 - loads RE2, for few

        with located("pattern"):
            tests.append(MatchesPattern(Pattern(value.pattern)))
    if value.min is not UNSET or value.max is not UNSET:
        tests.append(_bounds(value))
    if not tests:
        raise MisfitError("expected a test such as { equals = … }, got an empty table")
    return tuple(tests)


def _bounds(table: ValueTable) -> WithinBounds:
    least = -inf if table.min is UNSET else table.min
    greatest = inf if table.max is UNSET else table.max
    # NaN is neither below nor above any number.
    if not least <= greatest:
        raise MisfitError(f"no number is at least {least} and at most {greatest}", "min")
    return WithinBounds(least, greatest)


def holds(tests: Sequence[ValueTest], value: Any) -> bool:
    """Return whether all *tests* hold for *value*; raises `WrongTypeError`."""
    # A value of the wrong type is told even where another test says no.
    for test in tests:
        check_type(value, *test.kinds)
    return all(test(value) for test in tests)


def check_type(value: Any, *kinds: str) -> None:
    """Raise `WrongTypeError` unless *value* is of one of *kinds*."""
    if type_name(value) not in kinds:
        raise WrongTypeError(f"expected a {' or a '.join(kinds)}, got {shown(value)}")


def type_name(value: Any) -> str:
    """Return what JSON calls the type of *value*, in words."""
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


def shown(value: Any) -> str:
    """Return *value* in words that are not too many."""
    return first_words(repr(thaw(value)), _MOST_SHOWN)


def first_words(text: str, length: int) -> str:
    """Return *text*, or its first words with "…", at most *length* letters.

    Nobody would find a secret of which a part is there, so it is cut between words.
    """
    return text if len(text) <= length else f"{text[:length].rpartition(' ')[0]}…"


def read_path(text: str) -> tuple[str, ...]:
    r"""Return the keys of the path *text*, a quoted star as `\*`; raises `MisfitError`."""
    keys, position = [], 0
    while match := _PART.match(text, position):
        keys.append(match[1] if match[1] == r"\*" else re.sub(r"\\(.)", r"\1", match[1]))
        position = match.end()
    if position < len(text) or not keys or (text.endswith(".") and not text.endswith(r"\.")):
        raise MisfitError(f"no path of an argument: {text!r}; write keys with dots between them")
    return tuple(keys)


def values_at(arguments: Mapping[str, Any], path: Sequence[str]) -> list[Any]:
    """Return the values that *path* leads to, none if it is absent; null counts as absent.

    Raises `WrongTypeError` where the path goes into a value that has no members.
    """
    return [value for value in places_at(arguments, path) if value is not None]


def places_at(arguments: Mapping[str, Any], path: Sequence[str]) -> list[Any]:
    """Return the values that *path* leads to, None for each place where it is absent or null.

    Raises `WrongTypeError` where the path goes into a value that has no members.
    """
    values: list[Any] = [arguments]
    for number, key in enumerate(path):
        below: list[Any] = []
        for value in values:
            below += _members(value, key, ".".join(path[:number]))
        values = below
    return values


def _members(value: Any, key: str, place: str) -> list[Any]:
    """Return the members of *value* that *key* names."""
    match type_name(value):
        case "table":
            if key == EVERY:
                return list(value.values())
            key = "*" if key == r"\*" else key
            return [value.get(key)]
        case "list":
            if key == EVERY:
                return list(value)
            if key.isascii() and key.isdigit() and len(key) <= _MOST_DIGITS:
                return list(value[int(key) : int(key) + 1]) or [None]
            return [None]
        case "null":
            return [None]
    raise WrongTypeError(f"{place or 'it'} has no {key!r}, for it is {shown(value)}")

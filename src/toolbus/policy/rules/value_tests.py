"""What a rule asks of one value: equals, one of, glob, pattern, bounds of a number.

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

from fnmatch import fnmatchcase
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from toolbus.messages.immutable import FrozenDict, thaw
from toolbus.settings.hints import hint
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from toolbus.policy.rules.patterns import Pattern

_MOST_SHOWN = 60


class WrongTypeError(Exception):
    """A value is of another type than a test is for."""


class Equals(NamedTuple):
    """Equality with one of *wanted*, in which types count: 1 is not true, and "1" is not 1."""

    wanted: tuple[Any, ...]

    def __call__(self, value: Any) -> bool:
        """Tell whether *value* fits; raises `WrongTypeError`."""
        kinds = {type_name(each) for each in self.wanted}
        check_type(value, *sorted(kinds))
        return any(type_name(each) == type_name(value) and each == value for each in self.wanted)

    def __str__(self) -> str:
        return " or ".join([shown(each) for each in self.wanted])


class MatchesGlob(NamedTuple):
    """A match of a text with a glob pattern."""

    glob: str

    def __call__(self, value: Any) -> bool:
        """Tell whether *value* fits; raises `WrongTypeError`."""
        check_type(value, "text")
        return fnmatchcase(value, self.glob)

    def __str__(self) -> str:
        return f"like {self.glob!r}"


class MatchesPattern(NamedTuple):
    """A match of a pattern of RE2, anywhere in a text."""

    pattern: Pattern

    def __call__(self, value: Any) -> bool:
        """Tell whether *value* fits; raises `WrongTypeError`."""
        check_type(value, "text")
        return self.pattern.is_in(value)

    def __str__(self) -> str:
        return f"with {self.pattern.text!r} in it"


class WithinBounds(NamedTuple):
    """A number between *least* and *greatest*, both included."""

    least: float
    greatest: float

    def __call__(self, value: Any) -> bool:
        """Tell whether *value* fits; raises `WrongTypeError`."""
        check_type(value, "number")
        return bool(self.least <= value <= self.greatest)

    def __str__(self) -> str:
        if self.greatest == inf:
            return f"at least {self.least}"
        return (
            f"at most {self.greatest}" if self.least == -inf else f"{self.least} to {self.greatest}"
        )


ValueTest: TypeAlias = "Equals | MatchesGlob | MatchesPattern | WithinBounds"


def read_tests(raw: Any) -> tuple[ValueTest, ...]:
    """Return the tests that *raw* stands for; raises `MisfitError`."""
    if isinstance(raw, dict):
        if not raw:
            raise MisfitError("expected a test such as { equals = … }, got an empty table")
        for key in raw:
            if key not in _READERS:
                raise MisfitError(f"unknown test {key!r}{hint(key, _READERS)}", key)
        return tuple(_read_table(raw))
    if isinstance(raw, list | tuple):
        return (_one_of(raw),)
    return (Equals((raw,)),)


def _read_table(raw: dict[str, Any]) -> Iterator[ValueTest]:
    bounds: dict[str, float] = {}
    for key, value in raw.items():
        try:
            if key in {"min", "max"}:
                bounds[key] = _number(value)
            else:
                yield _READERS[key](value)
        except MisfitError as error:
            raise MisfitError(f"test {key!r}: {error.reason}", key, *error.path) from None
    if bounds:
        least, greatest = bounds.get("min", -inf), bounds.get("max", inf)
        if least > greatest:
            raise MisfitError(f"no number is at least {least} and at most {greatest}", "min")
        yield WithinBounds(least, greatest)


def _one_of(value: Any) -> Equals:
    if not isinstance(value, list | tuple) or not value:
        raise MisfitError(f"expected a list of values, got {shown(value)}")
    return Equals(tuple(value))


def _glob(value: Any) -> MatchesGlob:
    if not isinstance(value, str):
        raise MisfitError(f"expected a glob pattern, got {shown(value)}")
    return MatchesGlob(value)


def _pattern(value: Any) -> MatchesPattern:
    if not isinstance(value, str):
        raise MisfitError(f"expected a pattern of RE2, got {shown(value)}")
    from toolbus.policy.rules.patterns import Pattern  # noqa: PLC0415 - loads RE2, which few rules need

    return MatchesPattern(Pattern(value))


def _number(value: Any) -> float:
    if type_name(value) != "number" or value != value:  # noqa: PLR0124 - that is how NaN is told
        raise MisfitError(f"expected a number, got {shown(value)}")
    return value  # type: ignore[no-any-return]  # the line above says what it is


_READERS: dict[str, Callable[[Any], ValueTest]] = {
    "equals": lambda value: Equals((value,)),
    "one_of": _one_of,
    "glob": _glob,
    "pattern": _pattern,
    "min": lambda value: WithinBounds(_number(value), inf),
    "max": lambda value: WithinBounds(-inf, _number(value)),
}


def holds(tests: Sequence[ValueTest], value: Any) -> bool:
    """Tell whether all *tests* hold for *value*; raises `WrongTypeError`."""
    # All are asked: a value of the wrong type is told even where another test says no.
    results = [test(value) for test in tests]
    return all(results)


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

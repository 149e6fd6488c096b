"""The keys of a rule, and of a `[[call]]`, that speak of the calls before.

| key of a rule | broken by |
|---|---|
| `at_most = { calls = 20, seconds = 300 }` | the 21st call in five minutes that the rule fits |
| `at_most = { calls = 50, per = "run" }` | the 51st of a run; without `per` of the session |
| `at_most = { bytes = 1000000 }` | calls once the results have had so many bytes |
| `at_most = { tool_seconds = 600 }` | calls once the tools have worked so long |
| `at_most = { total = 500, of = "amount" }` | a call whose argument brings the sum above it |
| `only_after = "tests-passed"` | calls before that `[[call]]` has happened |
| `never_after = "secret-read"` | calls once it happened, may have, or runs |
| `repeats = 3` | the third time that the same call, or up to four in turn, comes again |

A rule that denies, asks or audits speaks of a call that breaks one of them; a rule that allows
speaks of a call that breaks none. Counted is what was asked about or begun, not what was denied.

```toml
[[call]]                        # a call that rules can name
name = "tests-passed"
command = "pytest"              # conditions as those of a rule
outcome = "success"             # or "error"; { status = "success", text = { pattern = "passed" } }
```

A line of a shell is such a call surely only if it is that command alone, `cd` before it apart: of
`pytest || true` nobody knows how the tests ended. Without `outcome`, `only_after` waits for a
success, and `never_after` is about any end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.policy.history.limits import NeverAfter, OnlyAfter, Quota, Repeats
from toolbus.policy.rules.argument_paths import read_path
from toolbus.settings.hints import hint, unknown_key
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from toolbus.policy.history.limits import Measure
    from toolbus.policy.rules.records import Limit

LIMIT_KEYS = ("at_most", "only_after", "never_after", "repeats")
_MEASURES: tuple[Measure, ...] = ("calls", "bytes", "tool_seconds", "total")
_AT_MOST = (*_MEASURES, "seconds", "per", "of")
_MOST_REPEATS = 16


def read_limits(table: Mapping[str, Any], calls: Collection[str]) -> tuple[Limit, ...]:
    """Return the limits in the *table* of a rule; *calls* are the names of the file's calls.

    Raises `MisfitError`, with the path of what is wrong.
    """
    readers: dict[str, Callable[[Any], list[Limit]]] = {
        "at_most": lambda value: list(_quotas(value)),
        "only_after": lambda value: [OnlyAfter(_call_names(value, calls))],
        "never_after": lambda value: [NeverAfter(_call_names(value, calls))],
        "repeats": lambda value: [Repeats(_times(value))],
    }
    limits: list[Limit] = []
    for key, read in readers.items():
        if key in table:
            try:
                limits += read(table[key])
            except MisfitError as error:
                raise MisfitError(f"key {key!r}: {error.reason}", key, *error.path) from None
    return tuple(limits)


def _quotas(value: Any) -> Iterator[Quota]:
    if not isinstance(value, dict):
        raise MisfitError(
            f"expected a table such as {{ calls = 20, seconds = 300 }}, got {value!r}"
        )
    for key in value:
        if key not in _AT_MOST:
            raise MisfitError(unknown_key(key, _AT_MOST), key)
    measures = [each for each in _MEASURES if each in value]
    if not measures:
        raise MisfitError(f"it says nothing to count; there is {', '.join(_MEASURES)}")
    if ("of" in value) != ("total" in value):
        raise MisfitError("`total` and `of`, the argument that is added up, need each other")
    per = value.get("per", "session")
    if per not in {"session", "run"}:
        raise MisfitError(f'expected "session" or "run", got {per!r}', "per")
    seconds = _number(value, "seconds") if "seconds" in value else None
    for measure in measures:
        path = _argument(value["of"]) if measure == "total" else ()
        yield Quota(measure, _number(value, measure), seconds, per == "run", path)


def _argument(value: Any) -> tuple[str, ...]:
    if not isinstance(value, str):
        raise MisfitError(f"expected the path of an argument, got {value!r}", "of")
    return read_path(value)


def _number(table: Mapping[str, Any], key: str) -> float:
    value = table[key]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < float("inf") or (key == "seconds" and not value):
        raise MisfitError(f"expected a number above 0, got {value!r}", key)
    number: float = value
    return number


def _call_names(value: Any, calls: Collection[str]) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names:
        raise MisfitError(f"expected the name of a [[call]], or a list of them, got {value!r}")
    for name in names:
        if name not in calls:
            raise MisfitError(f"there is no [[call]] {name!r}{hint(str(name), calls)}")
    return tuple(names)


def _times(value: Any) -> int:
    if type(value) is not int or not 1 < value <= _MOST_REPEATS:
        raise MisfitError(f"expected a number from 2 to {_MOST_REPEATS}, got {value!r}")
    return value

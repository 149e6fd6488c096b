r"""Where in a call's arguments a value stands: `path`, `options.mode`, `files.*.path`.

Dots part the keys, a number is the place of an item in a list, `*` stands for every item or
member; a backslash before a dot, or before a star that is a key, takes it as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from toolbus.policy.rules.value_tests import WrongTypeError, shown, type_name
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PART = re.compile(r"((?:\\.|[^.\\])+)(?:\.|$)")
EVERY = "*"
_MOST_DIGITS = 9


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

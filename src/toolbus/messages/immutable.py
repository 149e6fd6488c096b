"""Immutable JSON values, `FrozenDict` and tuples, and their conversion from and to plain ones.

`dict.__setitem__(frozen, key, value)` and similar calls bypass any Python class and cannot be
prevented; every mutation through the object itself raises.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from operator import is_ as _is
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias

from toolbus.errors import FreezeError

if TYPE_CHECKING:
    from collections.abc import Iterable

# msgspec writes integers of any size, but other readers round beyond 64 bits.
INT_MIN, INT_MAX = -(2**63), 2**64 - 1
MAX_DEPTH = 200

JsonObject: TypeAlias = Mapping[str, Any]
"""A JSON object; inside a record it is a `FrozenDict`, so assigning to its items raises."""


class FrozenDict(dict[str, Any]):
    """A dict of frozen JSON values whose mutators raise; hashable, and equal to an equal dict."""

    __slots__ = ("_height",)

    _height: int

    def __new__(cls, items: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), /) -> Self:
        """Freeze *items*."""
        self = super().__new__(cls)
        dict.update(self, freeze(dict(items)))
        return self

    def __init__(self, *_: object) -> None:
        """Do nothing: `__new__` has made the value, and a second call must not change it."""

    def __hash__(self) -> int:  # type: ignore[override]  # dict says None: unhashable
        return hash(frozenset(self.items()))

    def __repr__(self) -> str:
        return f"FrozenDict({dict.__repr__(self)})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        msg = "a FrozenDict cannot be changed; take a private copy with `thaw()`"
        raise TypeError(msg)

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = pop = popitem = clear = setdefault = _refuse
    __setattr__ = __delattr__ = _refuse


def freeze(value: Any, path: str = "$") -> Any:
    """Return *value*, any JSON value, immutable all the way down.

    Raises `FreezeError`, with the JSON path, for a value that would not survive a round trip: NaN,
    infinities, integers beyond 64 bits, lone surrogates, keys other than text, other types, and
    nesting deeper than 200.
    """
    try:
        return _freeze(value, 0)
    except FreezeError as error:
        raise FreezeError(error.reason, path + error.path) from None


def freeze_object(value: Any, path: str) -> FrozenDict:
    """Return the JSON object *value* frozen; the same object if it is so already."""
    if type(value) is FrozenDict:
        return value
    if type(value) is not dict and not isinstance(value, Mapping):
        raise FreezeError(f"expected object, got {_kind(value)}", path)
    frozen: FrozenDict = freeze(value, path)
    return frozen


def check_text(value: Any, path: str) -> None:
    """Raise `FreezeError` unless *value* is text that UTF-8 can carry."""
    if not isinstance(value, str):
        raise FreezeError(f"expected text, got {_kind(value)}", path)
    # isascii reads one flag of the string; only other text is walked.
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            reason = f"lone surrogate U+{ord(value[error.start]):04X} at character {error.start}"
            raise FreezeError(reason, path) from None


def escape_surrogates(text: str) -> str:
    """Return *text* with its lone surrogates as escapes, so that UTF-8 can carry it."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def replace_surrogates(text: str) -> str:
    """Return *text* with split surrogate pairs joined and U+FFFD for each lone surrogate."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:  # Programs in JavaScript cut text inside a character.
        units = text.encode("utf-16-le", errors="surrogatepass")
        return units.decode("utf-16-le", errors="replace")
    return text


def replace_surrogates_in(value: Any) -> Any:
    """Return *value*, plain JSON, with `replace_surrogates` applied to all of its texts."""
    match value:
        case str():
            return replace_surrogates(value)
        case dict():
            return {replace_surrogates(k): replace_surrogates_in(v) for k, v in value.items()}
        case list() | tuple():
            return [replace_surrogates_in(item) for item in value]
    return value


def thaw(value: Any) -> Any:
    """Return a plain private copy of a frozen JSON value: dicts and lists, free to change."""
    if type(value) in _SCALARS:
        return value
    # Not `isinstance` at once: a check against an abstract class is slow.
    if type(value) is FrozenDict or isinstance(value, Mapping):
        # Most members are scalars, and need no call.
        return {key: item if type(item) in _SCALARS else thaw(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [thaw(item) for item in value]
    return value


def _kind(value: Any) -> str:
    return f"`{type(value).__name__}`"


def _freeze(value: Any, depth: int) -> Any:
    """Freeze *value*; an error's path is built while it is raised, so that success is free."""
    # The frequent types first: a match against an abstract class is slow.
    kind = type(value)
    if kind in _CONSTANTS or (kind is str and value.isascii()):
        return value
    if kind is dict:
        return _freeze_object(value, depth + 1)
    if kind is int and INT_MIN <= value <= INT_MAX:
        return value
    if kind is FrozenDict:
        _check_depth(depth + _height(value) if depth else 0)
        return value
    return _freeze_other(value, depth)


def _freeze_other(value: Any, depth: int) -> Any:
    match value:
        case str():
            check_text(value, "")
            return plain(value)
        # A subclass of FrozenDict too: it may have mutators again.
        case Mapping():
            return _freeze_object(value, depth + 1)
        case list() | tuple():
            return _freeze_array(value, depth + 1)
        case int() | float():
            return _freeze_number(value)
    raise FreezeError(f"expected a JSON value, got {_kind(value)}", "")


_set = dict.__setitem__
_CONSTANTS = frozenset({type(None), bool})
_SCALARS = _CONSTANTS | {str, int, float}

# Not `str(value)`: of a member of an enumeration that is "Colour.RED" and not "red".
plain = str.__str__


def _freeze_number(value: Any) -> float:
    if isinstance(value, float):
        if not isfinite(value):
            raise FreezeError(f"{value!r} is not a JSON number", "")
        return float(value)
    if not INT_MIN <= value <= INT_MAX:
        raise FreezeError(f"an integer of {value.bit_length()} bits does not fit into 64", "")
    return int(value)


def _freeze_object(value: Mapping[str, Any], depth: int) -> FrozenDict:
    _check_depth(depth)
    frozen, key = dict.__new__(FrozenDict), ""
    try:
        for key, item in value.items():
            name = key
            if type(key) is not str or not key.isascii():
                check_text(key, " (key)")
                name = plain(key)
            _set(frozen, name, _freeze(item, depth))
    except FreezeError as error:
        error.path = _step(key) + error.path
        raise
    return frozen


def _freeze_array(value: list[Any] | tuple[Any, ...], depth: int) -> tuple[Any, ...]:
    _check_depth(depth)
    frozen: list[Any] = []
    try:
        for item in value:
            frozen.append(_freeze(item, depth))  # noqa: PERF401 - the handler needs the index
    except FreezeError as error:
        error.path = f"[{len(frozen)}]{error.path}"
        raise
    return value if type(value) is tuple and all(map(_is, frozen, value)) else tuple(frozen)


def _step(key: object) -> str:
    """Return the step of a path to *key*, which may be anything and of any length."""
    if isinstance(key, str) and re.fullmatch(r"[\w$-]{1,120}", key):
        return f".{key}"
    return f"[{key!r:.120}]"


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise FreezeError(f"nested deeper than {MAX_DEPTH}", "")


def _height(value: Any) -> int:
    """Count the levels of the frozen *value*, once in the life of each `FrozenDict`."""
    match value:
        case FrozenDict():
            try:
                return value._height  # noqa: SLF001 - the class is this file's own
            except AttributeError:
                height = 1 + max(map(_height, value.values()), default=0)
                object.__setattr__(value, "_height", height)
                return height
        case tuple():
            return 1 + max(map(_height, value), default=0)
    return 0


EMPTY = FrozenDict()

"""JSON values that never change: `FrozenDict`, tuples, and the way there and back.

`dict.__setitem__(frozen, key, value)` and its like reach below any Python class and cannot be
stopped; everything that goes through the object itself is.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, NoReturn, Self

from toolbus.errors import FreezeError

if TYPE_CHECKING:
    from collections.abc import Iterable

# msgspec writes integers of any size, but other readers round beyond 64 bits.
INT_MIN, INT_MAX = -(2**63), 2**64 - 1
MAX_DEPTH = 200


class FrozenDict(dict[str, Any]):
    """A dict of frozen JSON values whose mutators raise; hashable, and equal to a like dict."""

    __slots__ = ()

    def __new__(cls, items: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), /) -> Self:
        self = super().__new__(cls)
        dict.update(self, freeze(dict(items)))
        return self

    def __init__(self, *_: object) -> None:
        """Leave what `__new__` made as it is: a second call must not change it."""

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

    __setitem__ = __delitem__ = __ior__ = _refuse  # type: ignore[assignment]  # all refuse alike
    update = pop = popitem = clear = setdefault = _refuse  # type: ignore[assignment]  # as above


def freeze(value: Any, path: str = "$") -> Any:
    """Return *value*, any JSON value, immutable all the way down.

    Raises `FreezeError`, with the JSON path, for what would not survive a round trip: NaN and
    infinities, integers beyond 64 bits, lone surrogates, keys that are no text, other types,
    and nesting deeper than 200.
    """
    try:
        return _freeze(value, 0)
    except FreezeError as error:
        raise FreezeError(error.reason, path + error.path) from None


def freeze_object(value: Any, path: str) -> FrozenDict:
    """Return the JSON object *value* frozen; the same object if it is so already."""
    if type(value) is FrozenDict:
        return value
    if not isinstance(value, Mapping):
        raise FreezeError(f"expected object, got {_kind(value)}", path)
    return freeze(value, path)  # type: ignore[no-any-return]  # a mapping freezes to a FrozenDict


def check_text(value: Any, path: str) -> None:
    """Raise `FreezeError` unless *value* is text that UTF-8 can carry."""
    if not isinstance(value, str):
        raise FreezeError(f"expected text, got {_kind(value)}", path)
    # isascii reads one flag of the string; only other text is walked.
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            code, at = ord(value[error.start]), error.start
            raise FreezeError(f"lone surrogate U+{code:04X} at character {at}", path) from None


def thaw(value: Any) -> Any:
    """Return a plain private copy of a frozen JSON value: dicts and lists, free to change."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [thaw(item) for item in value]
    return value


def _kind(value: Any) -> str:
    return f"`{type(value).__name__}`"


def _freeze(value: Any, depth: int) -> Any:
    """Freeze *value*; the path of an error grows from the inside out, so that success pays none."""
    match value:
        case None | bool() | FrozenDict():
            return value
        case str():
            check_text(value, "")
            return str(value)
        case Mapping():
            return _freeze_object(value, depth + 1)
        case list() | tuple():
            return _freeze_array(value, depth + 1)
        case int() | float():
            return _freeze_number(value)
    raise FreezeError(f"expected a JSON value, got {_kind(value)}", "")


def _freeze_number(value: float) -> float:
    if isinstance(value, float):
        if not isfinite(value):
            raise FreezeError(f"{value!r} is no JSON number", "")
        return float(value)
    if not INT_MIN <= value <= INT_MAX:
        raise FreezeError(f"an integer of {value.bit_length()} bits does not fit into 64", "")
    return int(value)


def _freeze_object(value: Mapping[str, Any], depth: int) -> FrozenDict:
    frozen, key = dict.__new__(FrozenDict), ""
    try:
        _check_depth(depth)
        for key, item in value.items():  # noqa: B007 - the handler below names the key
            check_text(key, " (key)")
            dict.__setitem__(frozen, str(key), _freeze(item, depth))
    except FreezeError as error:
        error.path = f".{key}{error.path}" if key else error.path
        raise
    return frozen


def _freeze_array(value: list[Any] | tuple[Any, ...], depth: int) -> tuple[Any, ...]:
    frozen: list[Any] = []
    try:
        _check_depth(depth)
        for item in value:
            frozen.append(_freeze(item, depth))  # noqa: PERF401 - the handler needs the index
    except FreezeError as error:
        error.path = f"[{len(frozen)}]{error.path}"
        raise
    return tuple(frozen)


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise FreezeError(f"nested deeper than {MAX_DEPTH}", "")


EMPTY = FrozenDict()

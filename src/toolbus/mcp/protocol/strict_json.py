"""JSON that every reader understands alike: ambiguous text is repaired or refused.

Strings are UTF-8 without unpaired surrogates (RFC 7493, 2.1; RFC 8259, 8.2), and names are unique
(RFC 8259, 4; RFC 7493, 2.3). Numbers are doubles (RFC 7493, 2.2), without `NaN` (RFC 8259, 6).
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec

from toolbus.errors import ToolbusError
from toolbus.messages.immutable import MAX_DEPTH, replace_surrogates_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HALF = re.compile("[\ud800-\udfff]")
"""An unpaired surrogate, as JavaScript leaves it where it cuts a string."""

_SURE = 15
"""The number of decimal digits that a double always preserves."""

_DEEP = f"the JSON is nested deeper than {MAX_DEPTH} levels"

PROTOTYPE = "__proto__"
"""A member of this name replaces the prototype when JavaScript copies the object."""

_NO_PROTOTYPE = f"a member must not be named {PROTOTYPE!r}"

_MAX = 2**53 - 1
"""JavaScript's `Number.MAX_SAFE_INTEGER`: beyond it, several integers share a double."""


class UnreadableError(ToolbusError):
    """Some reader would not read a line as a JSON object, for *reason*."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class AmbiguousJsonError(ToolbusError):
    """The value at *path* is ambiguous, for *reason*: readers disagree on it."""

    def __init__(self, reason: str, path: str = "") -> None:
        self.reason, self.path = reason, path
        super().__init__(reason, path)

    def __str__(self) -> str:
        return f"{self.path.lstrip('.')}: {self.reason}" if self.path else self.reason


class ExactNumber(float):
    """A number without an exact double; *digits* is its source text."""

    digits: str


# --- reading --------------------------------------------------------------------------------------


class _RangeError(ValueError):
    """A number is out of the range of a double."""


def _read_number(text: str) -> float:
    value = float(text)
    if len(text) <= _SURE and "e" not in text and "E" not in text:
        return value
    if not isfinite(value):
        raise _RangeError
    if value and Decimal(text) == Decimal(repr(value)):
        return value
    if not value and not re.search(r"[1-9]", re.split("[eE]", text)[0]):
        return value
    exact = ExactNumber(value)
    exact.digits = text
    return exact


def _finite(text: str) -> float:
    if not isfinite(value := float(text)):
        raise _RangeError
    return value


_exact = msgspec.json.Decoder(float_hook=_read_number)
_plain = msgspec.json.Decoder()


def parse(line: bytes, *, digits: bool = False) -> dict[str, Any]:
    """Return the object in *line*, with U+FFFD for unpaired surrogates except in its `id`.

    With *digits*, a number without an exact double is an `ExactNumber`. Raises `UnreadableError`.
    """
    try:
        value = (_exact if digits else _plain).decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _parse_leniently(line, _read_number if digits else _finite)
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and _is_deep(value):
        raise UnreadableError(_DEEP)
    if type(value) is not dict:
        raise UnreadableError(f"expected a JSON object, got `{type(value).__name__}`")
    return value


def _parse_leniently(line: bytes, number: Callable[[str], float]) -> Any:
    try:
        value = json.loads(line.decode(), parse_float=number, parse_constant=_refuse_constant)
    except RecursionError:
        raise UnreadableError(_DEEP) from None
    except UnicodeDecodeError:
        raise UnreadableError("expected UTF-8") from None
    except _RangeError:
        raise UnreadableError("a number is out of the range of a double") from None
    except ValueError:
        raise UnreadableError("expected JSON") from None
    if _is_deep(value):
        raise UnreadableError(_DEEP)
    mended = replace_surrogates_in(value)
    if type(value) is dict and "id" in value:
        mended["id"] = value["id"]
    return mended


def _refuse_constant(name: str) -> Any:
    raise UnreadableError(f"{name} is not JSON")


def _is_deep(value: Any) -> bool:
    """Return whether *value* has more than `MAX_DEPTH` levels; recursion limits of readers vary."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for item in level:
            if type(item) is dict:
                inner += item.values()
            elif type(item) is list:
                inner += item
        if not inner:
            return False
        level = inner
    return any(type(item) in {dict, list} for item in level)


# --- names and numbers ----------------------------------------------------------------------------


def casefold_simple(name: str) -> str:
    """Return *name* as case-insensitive readers compare it: Go's `encoding/json`, and Java.

    The mapping is the simple case folding of Unicode, plus the dotless i.
    """
    return name.lower() if name.isascii() else "".join(map(_fold_letter, name))


@cache
def _fold_letter(letter: str) -> str:
    # Some letters map to several (ß, SS), unlike in the simple case folding.
    upper = letter.upper()
    lower = (upper if len(upper) == 1 else letter).lower()
    return lower if len(lower) == 1 else letter


def normalize_loose(name: str) -> str:
    """Return *name* as the most lenient reader compares it: without case, "_" and "-".

    Python's SDK reads `mime_type` as `mimeType`.
    """
    return casefold_simple(name).replace("_", "").replace("-", "")


def check_known(names: Iterable[str], known: Iterable[str]) -> None:
    """Raise `AmbiguousJsonError` if a name differs from one of *known* only in case."""
    folded = {casefold_simple(name): name for name in known}
    for name in names:
        if name == PROTOTYPE:
            raise AmbiguousJsonError(_NO_PROTOTYPE)
        if (meant := folded.get(casefold_simple(name), name)) != name:
            raise AmbiguousJsonError(f"some readers take the member {_short(name)} for {meant!r}")


def check(value: Any, *, numbers: bool = False, exact: str | None = None) -> None:
    """Raise `AmbiguousJsonError` for names that differ only in case, and for `__proto__`.

    With *numbers*, or in the member *exact*, numbers that JavaScript rounds are refused too.
    """
    # The error names the path to the value, which only the recursion knows.
    kind = type(value)
    if kind is dict:
        _check_names(value)
    elif kind is not list:
        rounds = kind is ExactNumber or (kind is int and not -_MAX <= value <= _MAX)
        if numbers and rounds:
            raise AmbiguousJsonError("some readers round this number; send it as a string")
        return
    for step, inner in value.items() if kind is dict else enumerate(value):
        if type(inner) is str:
            continue
        try:
            check(inner, numbers=numbers or step == exact)
        except AmbiguousJsonError as error:
            error.path = (f".{step:.120}" if kind is dict else f"[{step}]") + error.path
            raise


def _check_names(members: dict[str, Any]) -> None:
    if PROTOTYPE in members:
        raise AmbiguousJsonError(_NO_PROTOTYPE)
    if len(members) < 2 or len({*map(casefold_simple, members)}) == len(members):  # noqa: PLR2004 - a pair
        return
    seen: dict[str, str] = {}
    for name in members:
        if (other := seen.setdefault(casefold_simple(name), name)) != name:
            raise AmbiguousJsonError(
                f"some readers take {_short(other)} and {_short(name)} for the same member"
            )


def drop_prototypes(value: Any) -> Any:
    """Return *value* without the members named `__proto__`."""
    match value:
        case dict():
            return {
                name: drop_prototypes(inner) for name, inner in value.items() if name != PROTOTYPE
            }
        case list():
            return [drop_prototypes(inner) for inner in value]
    return value


def _short(name: str) -> str:
    return repr(re.sub(r"(?s)(.{100}).+", r"\1…", name))

"""JSON of which all readers read the same: what only some of them read is mended, or refused.

Texts are UTF-8 without halves of characters (RFC 7493, 2.1; RFC 8259, 8.2), numbers are doubles
(RFC 7493, 2.2), and `NaN` is none (RFC 8259, 6).
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec

from toolbus.errors import ToolbusError
from toolbus.mcp.protocol.ambiguity import ExactNumber
from toolbus.messages.immutable import MAX_DEPTH, mend

if TYPE_CHECKING:
    from collections.abc import Callable

HALF = re.compile("[\ud800-\udfff]")
"""Half a character, as JavaScript leaves it where it cuts a text."""

_SURE = 15
"""So many digits a double always keeps."""

_DEEP = f"it is nested deeper than {MAX_DEPTH}"


class UnreadableError(ToolbusError):
    """A line is no JSON that all readers could read, for *reason*."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class _RangeError(ValueError):
    """A number is beyond what a double can say."""


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
    """Return the object in *line*, with U+FFFD for half a character, but in its `id`.

    With *digits* numbers that are no double are `ExactNumber`. Raises `UnreadableError`.
    """
    try:
        value = (_exact if digits else _plain).decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _parse_leniently(line, _read_number if digits else _finite)
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and _is_deep(value):
        raise UnreadableError(_DEEP)
    if type(value) is not dict:
        raise UnreadableError("it is no object")
    return value


def _parse_leniently(line: bytes, number: Callable[[str], float]) -> Any:
    try:
        value = json.loads(line.decode(), parse_float=number, parse_constant=_refuse_constant)
    except RecursionError:
        raise UnreadableError(_DEEP) from None
    except UnicodeDecodeError:
        raise UnreadableError("it is no UTF-8") from None
    except _RangeError:
        raise UnreadableError("a number in it is beyond what readers can hold") from None
    except ValueError:
        raise UnreadableError("it is no JSON") from None
    if _is_deep(value):
        raise UnreadableError(_DEEP)
    mended = mend(value)
    if type(value) is dict and "id" in value:
        mended["id"] = value["id"]
    return mended


def _refuse_constant(name: str) -> Any:
    raise UnreadableError(f"{name} is no JSON")


def _is_deep(value: Any) -> bool:
    """Tell whether *value* has more than `MAX_DEPTH` levels; how deep a stack may be is no matter.

    Interpreters differ in how many levels they read.
    """
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

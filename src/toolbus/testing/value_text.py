"""Short descriptions of values for reports, without default fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

MOST_TEXT = 120
MOST_ITEMS = 8
MOST_IN_ALL = 1_500


def describe(value: object) -> str:
    """Return a readable description of *value*; long texts and deep nesting are marked as cut."""
    text = _describe(value, 12)
    return text if len(text) <= MOST_IN_ALL else f"{text[:MOST_IN_ALL]} … ({len(text)} characters)"


def _describe(value: object, depth: int) -> str:
    if not depth:
        return "…"
    match value:
        case str() if len(value) > MOST_TEXT:
            return f"{value[: MOST_TEXT // 2]!r} … {value[-20:]!r} ({len(value)} characters)"
        case Struct():
            return f"{type(value).__name__}({', '.join(_fields(value, depth - 1))})"
        case Mapping():
            pairs = [
                f"{_describe(k, 2)}: {_describe(v, depth - 1)}" for k, v in _few(value.items())
            ]
            return f"{{{_joined(pairs, len(value))}}}"
        case tuple() | list():
            items = [_describe(item, depth - 1) for item in _few(value)]
            return f"[{_joined(items, len(value))}]"
    return repr(value)


def _fields(record: Struct, depth: int) -> list[str]:
    """Return the fields of *record* that differ from their defaults, as keyword arguments."""
    shown: list[str] = []
    for field in fields(record):
        value = getattr(record, field.name)
        if field.default is NODEFAULT or value != field.default:
            shown.append(f"{field.name}={_describe(value, depth)}")
    return shown


def _few(items: Any) -> list[Any]:
    return list(items)[:MOST_ITEMS]


def _joined(shown: list[str], count: int) -> str:
    rest = [f"… ({count} in all)"] if count > len(shown) else []
    return ", ".join(shown + rest)

"""JSON values and the arguments of calls as text, and where two texts begin to differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toolbus.messages.records import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.messages.records import ToolCall


def arguments_of(call: ToolCall) -> str:
    """Return the arguments of *call* as JSON, or the model's own text."""
    return encode(call.arguments).decode() if call.raw is None else call.raw


def json_text(value: Any) -> str:
    """Return a JSON value as text, "" for an absent one."""
    if value is UNSET:
        return ""
    return value if isinstance(value, str) else encode(value).decode()


def common_length(before: Sequence[str], after: Sequence[str]) -> int:
    """Return the length of the common beginning of two texts or lists of lines."""
    pairs = enumerate(zip(before, after, strict=False))
    shorter = min(len(before), len(after))
    return next((place for place, (old, new) in pairs if old != new), shorter)

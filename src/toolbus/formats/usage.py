"""Token counts and stop reasons, in one vocabulary for all providers.

The names of counts are those of OpenTelemetry's `gen_ai.usage` without its dots
(https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/): `input_tokens`, which
include cache reads and writes, `output_tokens`, which include reasoning, `cache_read_tokens`,
`cache_write_tokens`, `reasoning_tokens`. Other counts keep the provider's own names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_OPENAI_NAMES = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
_OPENAI_DETAILS = {
    "cached_tokens": "cache_read_tokens",
    "cache_write_tokens": "cache_write_tokens",
    "reasoning_tokens": "reasoning_tokens",
}
_ANTHROPIC_NAMES = {
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}
_STOPS = {
    "end_turn": "stop",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
}


def openai_usage(usage: Any) -> dict[str, Any]:
    """Return the normalized `usage` of a chat completion or response."""
    counts: dict[str, Any] = {}
    for name, value in usage.items() if isinstance(usage, dict) else ():
        if value is not None:
            counts[_OPENAI_NAMES.get(name) or name] = value
        for detail, count in _items(value):
            if detail in _OPENAI_DETAILS and count is not None:
                counts[_OPENAI_DETAILS[detail]] = count
    return counts


def anthropic_usage(usage: Any) -> dict[str, Any]:
    """Return the normalized `usage` of a message, which counts the cache apart from the input."""
    counts: dict[str, Any] = {}
    for name, value in usage.items() if isinstance(usage, dict) else ():
        if value is not None:
            counts[_ANTHROPIC_NAMES.get(name) or name] = value
    for name in ("cache_read_tokens", "cache_write_tokens"):
        if type(counts.get("input_tokens")) is int and type(counts.get(name)) is int:
            counts["input_tokens"] += counts[name]
    match counts:
        case {"output_tokens_details": {"thinking_tokens": int(count)}}:
            counts["reasoning_tokens"] = count
    return counts


def stop_of(reason: Any) -> str | None:
    """Return `stop`, `length` or `tool_calls` for providers' names of them, others unchanged."""
    return _STOPS.get(reason, reason) if isinstance(reason, str) else None


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    return value.items() if isinstance(value, dict) else ()

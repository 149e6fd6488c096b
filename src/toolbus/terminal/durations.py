"""Durations as people read them."""

from __future__ import annotations

_MANY = 1_000
"""From how many on we count in the larger unit."""


def duration_of(duration_ns: int) -> str:
    """Return a duration in microseconds, or in milliseconds if it is long."""
    microseconds = duration_ns / 1e3
    return f"{microseconds:.0f} µs" if microseconds < _MANY else f"{microseconds / 1e3:,.1f} ms"

"""Durations as people read them."""

from __future__ import annotations

import re

_SPAN = re.compile(r"([0-9]{1,6})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

_MANY = 1_000
"""From how many on we count in the larger unit."""


def duration_of(duration_ns: int) -> str:
    """Return a duration in microseconds, or in milliseconds if it is long."""
    microseconds = duration_ns / 1e3
    return f"{microseconds:.0f} µs" if microseconds < _MANY else f"{microseconds / 1e3:,.1f} ms"


def seconds_in(text: str) -> float | None:
    """Return the seconds that *text* says, such as 90s, 30m, 1h or 2d; None if it is no time."""
    match = _SPAN.fullmatch(text)
    return float(int(match[1]) * _SECONDS[match[2]]) or None if match else None

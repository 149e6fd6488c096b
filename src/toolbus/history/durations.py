"""Durations as text, and durations that a person types."""

from __future__ import annotations

import re
from itertools import pairwise

_SPAN = re.compile(r"([0-9]{1,6})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))

_MANY = 1_000
"""The number from which the larger unit is used."""


def duration_of(duration_ns: int) -> str:
    """Return a duration in microseconds, or in milliseconds from 1 ms."""
    microseconds = duration_ns / 1e3
    return f"{microseconds:.0f} µs" if microseconds < _MANY else f"{microseconds / 1e3:,.1f} ms"


def seconds_in(text: str) -> float | None:
    """Return the seconds of *text*, such as 90s, 30m, 1h or 2d; None if it is not a duration."""
    match = _SPAN.fullmatch(text)
    return float(int(match[1]) * _SECONDS[match[2]]) or None if match else None


def rough_duration(duration_ns: int) -> str:
    """Return a duration of seconds to days in its two largest units, such as "3 h 5 min"."""
    seconds = max(0, duration_ns) // 10**9
    for (unit, size), (smaller, step) in pairwise(_UNITS):
        if seconds >= size:
            rest = seconds % size // step
            return f"{seconds // size:,} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{seconds} s"

"""Where two texts differ, as rows of before and after."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TypeAlias

Rows: TypeAlias = tuple[tuple[str, str], ...]

_MOST = 4
"""How many lines of a block are shown before it is told by its first and last ones."""


def excerpt(before: str, after: str) -> Rows:
    """Return the lines that differ, long blocks shortened; nothing for equal texts."""
    old, new = before.splitlines(), after.splitlines()
    rows: list[tuple[str, str]] = []
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            rows += zip_longest(_block(old[i:j]), _block(new[k:m]), fillvalue="")
    return tuple(rows)


def _block(lines: list[str]) -> list[str]:
    if len(lines) <= _MOST:
        return lines
    return [lines[0], f"… {len(lines) - 2:,} more lines", lines[-1]]

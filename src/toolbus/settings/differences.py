"""Where two JSON values differ, field by field, and two texts, line by line."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import UNSET, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator


Rows: TypeAlias = tuple[tuple[str, str], ...]

_BLOCK_LINES = 4
"""How many lines of a block are shown before it is told by its first and last ones."""


class Difference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A JSON value at *path* before and after; one that is not there is left out."""

    path: str
    before: Any = UNSET
    after: Any = UNSET


def differences(before: Any, after: Any, path: str = "") -> Iterator[Difference]:
    """Give the places where two JSON values differ, as deep as they have the same shape."""
    inner = _inner(before, after)
    if inner is not None:
        for step, old, new in inner:
            yield from differences(old, new, f"{path}{step}" if path else step.removeprefix("."))
    # JSON knows true from 1, and Python does not.
    elif type(before) is not type(after) or before != after:
        yield Difference(path=path or "the value", before=before, after=after)


def _inner(before: Any, after: Any) -> list[tuple[str, Any, Any]] | None:
    """Return the step to each place inside and what is there, None if the shapes differ."""
    match before, after:
        case dict(), dict():
            keys = {**before, **after}
            return [(f".{key}", before.get(key, UNSET), after.get(key, UNSET)) for key in keys]
        case list() | tuple(), list() | tuple():
            pairs = zip_longest(before, after, fillvalue=UNSET)
            return [(f"[{index}]", old, new) for index, (old, new) in enumerate(pairs)]
    return None


def excerpt(before: str, after: str) -> Rows:
    """Return the lines that differ, long blocks shortened; nothing for equal texts."""
    old, new = before.splitlines(), after.splitlines()
    rows: list[tuple[str, str]] = []
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            rows += zip_longest(_block(old[i:j]), _block(new[k:m]), fillvalue="")
    return tuple(rows)


def _block(lines: list[str]) -> list[str]:
    if len(lines) <= _BLOCK_LINES:
        return lines
    return [lines[0], f"… {len(lines) - 2:,} more lines", lines[-1]]

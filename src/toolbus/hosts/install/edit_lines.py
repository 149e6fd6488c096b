"""What an edit changes in a file, line by line, and no more: what stays may be secret."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator


class ChangedLine(Struct, frozen=True, kw_only=True):
    """What is added (`+`) to a line, or taken out of it (`-`); *number* counts from 1.

    Of a line that stays otherwise *text* is only what differs, such as a comma at its end.
    """

    number: int
    sign: Literal["+", "-"]
    text: str


def changed_lines(before: bytes | None, after: bytes | None) -> tuple[ChangedLine, ...]:
    """Return what differs, in the order of lines."""
    return tuple(_changes(_lines(before), _lines(after)))


def _changes(old: list[str], new: list[str]) -> Iterator[ChangedLine]:
    for tag, old_start, old_end, new_start, new_end in SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        if tag == "equal":
            continue
        pairs = zip_longest(old[old_start:old_end], new[new_start:new_end])
        for index, (line, other) in enumerate(pairs):
            removed, added = _middles(line or "", other or "")
            if line is not None and (removed or other is None):
                yield ChangedLine(number=old_start + index + 1, sign="-", text=removed)
            if other is not None and (added or line is None):
                yield ChangedLine(number=new_start + index + 1, sign="+", text=added)


def _middles(line: str, other: str) -> tuple[str, str]:
    start = _same(line, other)
    rest, other_rest = line[start:], other[start:]
    end = _same(rest[::-1], other_rest[::-1])
    return rest[: len(rest) - end], other_rest[: len(other_rest) - end]


def _same(line: str, other: str) -> int:
    """Return how many characters the two begin with in common."""
    pairs = enumerate(zip(line, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(line), len(other)))


def _lines(data: bytes | None) -> list[str]:
    return [] if data is None else data.decode(errors="replace").splitlines()

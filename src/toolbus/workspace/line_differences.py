"""The line-by-line difference of two versions of a text, in bounded time."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Opcodes: TypeAlias = "Sequence[tuple[str, int, int, int, int]]"

_CONTEXT = 3  # The default of `get_grouped_opcodes`.
_MOST_COMPARED = 2_000_000
"""The most pairs of differing lines to compare; above it, one text is shown as replaced.

The search for common lines takes up to a hundredth of the third power of their number.
"""
_NO_LINE_END = "\\ No newline at end of file"


class LineDifference(NamedTuple):
    """A unified difference: its *lines* beginning with the first `@@`, () for equal texts."""

    lines: tuple[str, ...]
    added: int
    removed: int

    @property
    def summary(self) -> str:
        """The numbers of added and removed lines."""
        return f"{_count(self.added)} added, {self.removed:,} removed"


def compare_lines(before: str, after: str, context: int = _CONTEXT) -> LineDifference:
    r"""Return the difference from *before* to *after*, with *context* lines around each change.

    A line ends at "\n", so a "\r" is a part of it.
    """
    old, new = _lines(before), _lines(after)
    shorter = min(len(old), len(new))
    head = _same(zip(old, new, strict=False))
    tail = min(_same(zip(reversed(old), reversed(new), strict=False)), shorter - head)
    changed, replacing = len(old) - head - tail, len(new) - head - tail
    lines: list[str] = []
    if changed or replacing:
        above, below = min(head, context), min(tail, context)
        start = head - above
        old = old[start : len(old) - tail + below]
        new = new[start : len(new) - tail + below]
        if changed * replacing <= _MOST_COMPARED:
            matcher = SequenceMatcher(None, old, new)
            groups: Iterable[Opcodes] = matcher.get_grouped_opcodes(context)
        else:
            groups = [_replacement(above, changed, replacing, below)]
        for group in groups:
            lines += _hunk(group, old, new, start)
    added = sum([line.startswith("+") for line in lines])
    removed = sum([line.startswith("-") for line in lines])
    return LineDifference(tuple(lines), added, removed)


def describe_size(text: str) -> str:
    """Return the number of lines in *text*, in words."""
    return _count(len(_lines(text)))


def _count(number: int) -> str:
    return f"{number:,} line{'s' * (number != 1)}"


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1]:
        # A last line without a newline differs from the same line with one.
        lines[-1] += f"\n{_NO_LINE_END}"
    else:
        lines.pop()
    return lines


def _same(pairs: Iterator[tuple[str, str]]) -> int:
    """Return the number of equal *pairs* before the first unequal one."""
    count = 0
    for before, after in pairs:
        if before != after:
            break
        count += 1
    return count


def _replacement(above: int, changed: int, replacing: int, below: int) -> Opcodes:
    end, new_end = above + changed, above + replacing
    return [
        ("equal", 0, above, 0, above),
        ("replace", above, end, above, new_end),
        ("equal", end, end + below, new_end, new_end + below),
    ]


def _hunk(group: Opcodes, old: list[str], new: list[str], start: int) -> Iterator[str]:
    """Yield the lines of one hunk; *old* and *new* begin with line *start*."""
    first, final = group[0], group[-1]
    spans = [
        _span(start + first[1], final[2] - first[1]),
        _span(start + first[3], final[4] - first[3]),
    ]
    yield f"@@ -{spans[0]} +{spans[1]} @@"
    for tag, i, j, k, m in group:
        if tag == "equal":
            yield from _signed(" ", old[i:j])
        else:
            yield from _signed("-", old[i:j])
            yield from _signed("+", new[k:m])


def _span(start: int, length: int) -> str:
    """Return a range in the format of unified differences (POSIX, `diff -U`), counted from 1."""
    return f"{start + 1 if length else start},{length}"


def _signed(sign: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield from f"{sign}{line}".split("\n")

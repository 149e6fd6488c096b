"""How much of a text may stay: in characters, lines and tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolbus.truncation.cuts import after_lines, before_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

Count: TypeAlias = Callable[[str], int]
"""Tells of how many tokens a text is."""

_BLOCK = 4_096

# Tokens per character of a kind, fitted to `o200k_base`: `benchmarks/bench_shortening.py` tells how
# well. A kind is a set of bytes of UTF-8; of the bytes of one character only the first counts.
_KINDS: tuple[tuple[float, bytes], ...] = (
    (0.22, bytes(range(0x61, 0x7B))),  # small letters
    (0.50, bytes(range(0x41, 0x5B))),  # capitals
    (0.82, b"0123456789"),
    (0.03, b" \t\r\n"),
    (0.85, bytes([*range(0xC2, 0xC6), *range(0xE3, 0xF5)])),  # accents, Chinese, Japanese, Korean
    (0.48, bytes([*range(0xC6, 0xE3)])),  # Cyrillic, Greek, Semitic, Indic and others
    (0.00, bytes(range(0x80, 0xC0))),
)
_SIGN = 0.59


class Budget(Struct, frozen=True):
    """What a text may have at most; None for *lines* or *tokens* is no limit.

    Texts are counted in blocks, so that no tokenizer gets one of 50 MB, nor more of it than it
    takes to see that it is too much.
    """

    characters: int
    lines: int | None = None
    tokens: int | None = None
    count: Count | None = None

    def fits(self, text: str) -> bool:
        """Tell whether *text* is within all limits."""
        if len(text) > self.characters:
            return False
        if self.lines is not None and text.count("\n") >= self.lines:
            return False
        return self._fit_tokens(text, 0, len(text))

    def count_of(self, text: str) -> int:
        """Return of how many tokens *text* is, in the terms of this budget."""
        return (self.count or estimate)(text)

    def ratio(self, text: str) -> float:
        """Return which part of *text*, by the limit that it exceeds most, would fit."""
        ratios = [self.characters / max(len(text), 1)]
        if self.lines is not None:
            ratios.append(self.lines / (text.count("\n") + 1))
        if self.tokens is not None:
            blocks = range(0, len(text), _BLOCK)
            size = sum([self.count_of(text[block : block + _BLOCK]) for block in blocks])
            ratios.append(self.tokens / max(size, 1))
        return min(ratios)

    def part(self, share: float) -> Self:
        """Return *share* of all limits, a number between 0 and 1."""
        return replace(
            self,
            characters=int(self.characters * share),
            lines=None if self.lines is None else int(self.lines * share),
            tokens=None if self.tokens is None else int(self.tokens * share),
        )

    def head(self, text: str, start: int, end: int) -> int:
        """Return where the longest part of *text* that fits ends, if it begins at *start*."""
        end = min(end, start + max(self.characters, 0))
        if self.lines is not None:
            end = after_lines(text, start, end, self.lines)
        return self._bisect(end - start, lambda size: (text, start, start + size)) + start

    def tail(self, text: str, start: int, end: int) -> int:
        """Return where the longest part of *text* that fits begins, if it ends at *end*."""
        start = max(start, end - max(self.characters, 0))
        if self.lines is not None:
            # The end of the last line begins no other one.
            inside = end - text.endswith("\n", start, end)
            start = before_lines(text, start, inside, self.lines)
        return end - self._bisect(end - start, lambda size: (text, end - size, end))

    def _bisect(self, limit: int, part: Callable[[int], tuple[str, int, int]]) -> int:
        """Return the size up to *limit* of the longest *part* whose tokens fit."""
        if limit <= 0 or self._fit_tokens(*part(limit)):
            return max(limit, 0)
        low, high = 0, limit
        while high - low > 1:
            middle = (low + high) // 2
            if self._fit_tokens(*part(middle)):
                low = middle
            else:
                high = middle
        return low

    def _fit_tokens(self, text: str, start: int, end: int) -> bool:
        if self.tokens is None:
            return True
        remaining, count = self.tokens, self.count_of
        for block in range(start, end, _BLOCK):
            remaining -= count(text[block : min(block + _BLOCK, end)])
            if remaining < 0:
                return False
        return True


def level_of(sizes: Sequence[int], total: float) -> float:
    """Return how large each of *sizes* may be at most, so that together they are within *total*."""
    count = len(sizes)
    for size in sorted(sizes):
        if size * count > total:
            return total / count
        total, count = total - size, count - 1
    return max(sizes, default=0)


def estimate(text: str) -> int:
    """Return about how many tokens *text* is of, by its kinds of characters."""
    data = text.encode(errors="replace")
    signs, tokens = len(data), 0.0
    for weight, kind in _KINDS:
        count = len(data) - len(data.translate(None, kind))
        signs, tokens = signs - count, tokens + count * weight
    return round(tokens + signs * _SIGN)

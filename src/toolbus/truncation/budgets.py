"""The budget of a text: characters, and tokens, which are estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

# Tokens per character of a kind, fitted to `o200k_base`; `benchmarks/bench_shortening.py` measures
# the error. A kind is a set of bytes of UTF-8; of a character only the first byte counts.
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


class TextBudget(Struct, frozen=True):
    """The limits of a text; None for *tokens* means no limit."""

    characters: int
    tokens: int | None = None

    def fits(self, text: str) -> bool:
        """Return whether *text* is within the limits."""
        return self.excess(text) <= 0

    def excess(self, text: str) -> int:
        """Return about the number of characters beyond the limits; at most 0 if *text* fits."""
        excess = len(text) - self.characters
        # The tokens of 50 MB need no count if there are too many characters.
        if self.tokens is None or excess > self.characters:
            return excess
        tokens = estimate(text)
        if tokens <= self.tokens:
            return excess
        return max(excess, len(text) - len(text) * self.tokens // tokens)

    def fill(self, sample: str, make: Callable[[int], T], text_of: Callable[[T], str]) -> T:
        """Return the result of *make* for about the largest size whose text fits, or for 0.

        A size is a number of characters; *sample* is a sample for the tokens per character.
        """
        sample = sample[: self.characters]
        size = max(len(sample) - max(self.excess(sample), 0), 0)
        while True:
            made = make(size)
            excess = self.excess(text := text_of(made))
            if excess <= 0 or size == 0:
                return made
            # Without the excess it would fit, unless characters were escaped to several.
            smaller = max(size - excess, int(size * 0.9 * (1 - excess / len(text))))
            size = min(smaller, int(size * 0.95))


def common_limit(sizes: Sequence[int], total: float) -> float:
    """Return the maximum for each of *sizes* so that together they are within *total*."""
    count = len(sizes)
    for size in sorted(sizes):
        if size * count > total:
            return total / count
        total, count = total - size, count - 1
    return max(sizes, default=0)


def estimate(text: str) -> int:
    """Return about the number of tokens of *text*, by its kinds of characters."""
    data = text.encode(errors="replace")
    signs, tokens = len(data), 0.0
    for weight, kind in _KINDS:
        count = len(data) - len(data.translate(None, kind))
        signs, tokens = signs - count, tokens + count * weight
    return round(tokens + signs * _SIGN)

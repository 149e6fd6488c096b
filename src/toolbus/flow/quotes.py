"""Quotes: pieces of an argument that stand in texts in view."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LARGEST = 4_000_000
"""Characters of the texts of a message that its index covers."""
_SHORTEST_RUN, _SHORTEST_NAME = 16, 8
_WORDS = 3
_WORD = re.compile(r"\w+")
# A name with a digit, dot, slash or at sign inside; its last sign is a letter or digit.
_NAME = re.compile(r"[\w@:/.+~-]*[\d@/.][\w@:/.+~-]*\w")


class Quote(NamedTuple):
    """A piece *text* of an argument, from *start* to *end*, that index *number* holds."""

    text: str
    start: int
    end: int
    number: int


class QuoteIndex:
    """Digests of the word runs and identifiers in the texts of one message.

    Unless *is_complete*, the texts are longer than `LARGEST`, and their rest is unknown.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self.is_complete = True
        pieces: set[int] = set()
        capacity = LARGEST
        for text in texts:
            self.is_complete = self.is_complete and len(text) <= capacity
            pieces.update(digest for digest, _, _ in _pieces(text[:capacity]))
            capacity -= min(capacity, len(text))
        self.pieces = frozenset(pieces)


def find_quotes(text: str, indexes: Sequence[QuoteIndex]) -> list[Quote]:
    """Return the pieces of *text* that the texts of *indexes* hold, in order of the indexes."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for digest, start, end in _pieces(text):
        spans.setdefault(digest, []).append((start, end))
    return [
        Quote(text[start:end], start, end, number)
        for number, index in enumerate(indexes)
        for start, end in _joined(
            [span for digest in spans.keys() & index.pieces for span in spans[digest]]
        )
    ]


def _pieces(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield the digest, start and end of each word run and identifier in *text*."""
    words = [(match[0].casefold(), *match.span()) for match in _WORD.finditer(text)]
    for first, middle, final in zip(words, words[1:], words[2:], strict=False):
        if final[2] - first[1] >= _SHORTEST_RUN:
            yield hash((first[0], middle[0], final[0])), first[1], final[2]
    for match in _NAME.finditer(text):
        if match.end() - match.start() >= _SHORTEST_NAME:
            yield hash(match[0].casefold()), match.start(), match.end()


def _joined(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield *spans* in order, with overlapping ones joined."""
    begin = stop = -1
    for start, end in sorted(spans):
        if start > stop:
            if stop >= 0:
                yield begin, stop
            begin = start
        stop = max(stop, end)
    if stop >= 0:
        yield begin, stop

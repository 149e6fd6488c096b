"""Quotes: pieces of an argument that stand in texts in view; see `text_pieces`.

Case, accents, invisible characters, look-alikes and the signs between words do not count.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from toolbus.flow.decoded_texts import DecodedTexts
from toolbus.flow.plain_texts import PlainText
from toolbus.flow.text_pieces import digests_of, located_digests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TypeAlias

    Span: TypeAlias = tuple[int, int]

LARGEST = 4_000_000
"""Characters of the texts of a message, and of their decoded forms, that an index covers."""
_MOST_PIECES = 1_000_000
# A set is faster and takes 70 bytes for each digest; an array in order takes 8.
_MOST_IN_SET = 4_096


class Quote(NamedTuple):
    """A piece *text* of an argument, from *start* to *end*, that index *number* holds."""

    text: str
    start: int
    end: int
    number: int


class QuoteIndex:
    """Digests of the pieces of the texts of one message, and of their decoded forms.

    Unless *is_complete*, these are longer than `LARGEST`, have more than 1,000,000 pieces or are
    nested deeper than they are read: the rest is unknown. An index takes hardly more bytes than its
    texts have characters, at most 8 MB, and 200 MB while it is built.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        decoded = DecodedTexts(list(texts), LARGEST)
        pieces = chain.from_iterable(digests_of(PlainText(text).text) for text in decoded.texts)
        digests = set(islice(pieces, _MOST_PIECES))
        self.is_complete = decoded.is_complete and next(pieces, None) is None
        self._digests: frozenset[int] | array[int] = (
            frozenset(digests) if len(digests) <= _MOST_IN_SET else array("q", sorted(digests))
        )

    def held(self, digests: frozenset[int]) -> Iterable[int]:
        """Return those of *digests* that the index holds."""
        known = self._digests
        if isinstance(known, frozenset):
            return known & digests
        return [digest for digest in digests if _holds(known, digest)]


def find_quotes(text: str, indexes: Sequence[QuoteIndex]) -> list[Quote]:
    """Return the pieces of *text* that the texts of *indexes* hold, in order of the indexes.

    Pieces that overlap or touch are one.
    """
    plain = PlainText(text)
    spans: dict[int, list[Span]] = {}
    for digest, start, end in located_digests(plain.text):
        spans.setdefault(digest, []).append((start, end))
    digests, quotes = frozenset(spans), []
    for number, index in enumerate(indexes):
        pieces = [span for digest in index.held(digests) for span in spans[digest]]
        for begin, stop in _joined(pieces):
            start, end = plain.span(begin, stop)
            quotes.append(Quote(text[start:end], start, end, number))
    return quotes


def _holds(known: array[int], digest: int) -> bool:
    place = bisect_left(known, digest)
    return place < len(known) and known[place] == digest


def _joined(spans: list[Span]) -> Iterator[Span]:
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

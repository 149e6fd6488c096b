"""Quotes: pieces of an argument that stand in texts in view; see `text_pieces`.

Case, accents, invisible characters, look-alikes and the signs between words do not count.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from toolbus.flow.decoded_texts import DecodedTexts
from toolbus.flow.named_addresses import addresses_in
from toolbus.flow.plain_texts import PlainText
from toolbus.flow.text_pieces import folders_of, pieces_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from toolbus.flow.session_views import LabelledText

_MOST_PIECES = 500_000


class Quote(NamedTuple):
    """A piece *text* of an argument, from *start* to *end*, that index *number* holds."""

    text: str
    start: int
    end: int
    number: int


class QuoteIndex:
    """Digests of the pieces of the texts of one message, and of their decoded forms.

    Unless *is_complete*, these are longer than `LARGEST`, have more than 500,000 pieces, or are
    nested deeper than they are read: the rest is unknown. An index takes 70 bytes for each piece.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        decoded = DecodedTexts(list(texts))
        self.digests: set[int] = set()
        for text in decoded.texts:
            space = _MOST_PIECES - len(self.digests)
            pieces = pieces_of(PlainText(text).text)
            self.digests.update([digest for digest, _, _ in islice(pieces, space)])
        self.is_complete = decoded.is_complete and len(self.digests) < _MOST_PIECES


def find_quotes(text: str, indexes: Sequence[QuoteIndex]) -> list[Quote]:
    """Return the pieces of *text* that the texts of *indexes* hold, in order of the indexes.

    Pieces that overlap or touch are one.
    """
    plain = PlainText(text)
    spans: dict[int, list[tuple[int, int]]] = {}
    for digest, start, end in chain(pieces_of(plain.text), folders_of(plain.text)):
        spans.setdefault(digest, []).append((start, end))
    digests, quotes = frozenset(spans), []
    for number, index in enumerate(indexes if digests else ()):
        if held := digests & index.digests:
            for begin, stop in _joined([span for digest in held for span in spans[digest]]):
                start, end = plain.span(begin, stop)
                quotes.append(Quote(text[start:end], start, end, number))
    return quotes


def vouched_quotes(
    quotes: Iterable[Quote], text: str, sources: Sequence[LabelledText]
) -> list[Quote]:
    """Return those of *quotes* in *text* whose sources have the same addresses.

    Signs between words do not count in a quote, nor do accents and letters of other scripts, and
    they make another address. A letter beside an address is a part of it.
    """
    return [
        quote
        for quote in quotes
        if sources[quote.number].addresses.issuperset(
            addresses_in(text[max(quote.start - 1, 0) : quote.end + 1])
        )
    ]


def covers(quotes: Iterable[Quote]) -> Callable[[Quote], bool]:
    """Return whether a quote is within *quotes*, joined, as a function."""
    spans = _joined([(quote.start, quote.end) for quote in quotes])

    def is_covered(quote: Quote) -> bool:
        number = bisect_right(spans, quote.start, key=itemgetter(0)) - 1
        return number >= 0 and quote.end <= spans[number][1]

    return is_covered


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return *spans* in order, with overlapping ones joined."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined

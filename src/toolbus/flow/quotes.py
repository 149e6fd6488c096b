"""Quotes: pieces of an argument that stand in texts in view; see `text_pieces`.

Case, accents, invisible characters, look-alikes and the signs between words do not count.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from toolbus.flow.decoded_texts import DecodedTexts
from toolbus.flow.plain_texts import PlainText
from toolbus.flow.text_pieces import digests_of, located_digests

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
        self._loose: set[int] = set()
        self._exact: set[int] = set()
        for text in decoded.texts:
            plain, spelled = PlainText(text).text, PlainText(text, exactly=True).text
            pieces = {*islice(digests_of(plain), _MOST_PIECES - len(self._loose))}
            self._loose |= pieces
            if plain != spelled:
                space = _MOST_PIECES - len(self._exact)
                pieces = {*islice(digests_of(spelled, exactly=True), space)}
            self._exact |= pieces
        self.is_complete = decoded.is_complete and len(self._loose) < _MOST_PIECES
        if self._exact == self._loose:
            self._exact = self._loose

    def held(self, digests: frozenset[int], *, exactly: bool) -> frozenset[int]:
        """Return those of *digests* that the index holds, *exactly* as the texts write them."""
        return digests & (self._exact if exactly else self._loose)


def find_quotes(text: str, indexes: Sequence[QuoteIndex], *, exactly: bool = False) -> list[Quote]:
    """Return the pieces of *text* that the texts of *indexes* hold, in order of the indexes.

    Pieces that overlap or touch are one. A trusted text vouches only for pieces that it holds
    *exactly*: an address with an accent or a letter of another script is another address.
    """
    plain = PlainText(text, exactly=exactly)
    spans: dict[int, list[tuple[int, int]]] = {}
    for digest, start, end in located_digests(plain.text, exactly=exactly):
        spans.setdefault(digest, []).append((start, end))
    digests, quotes = frozenset(spans), []
    for number, index in enumerate(indexes if digests else ()):
        held = index.held(digests, exactly=exactly)
        for begin, stop in joined_spans([span for digest in held for span in spans[digest]]):
            start, end = plain.span(begin, stop)
            quotes.append(Quote(text[start:end], start, end, number))
    return quotes


def joined_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return *spans* in order, with overlapping ones joined."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined

"""Quotes: pieces of an argument that stand in texts in view; see `text_pieces`.

Case, accents, invisible characters, look-alikes and the signs between words do not count.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from toolbus.flow.decoded_texts import DecodedTexts
from toolbus.flow.plain_texts import PlainText
from toolbus.flow.text_pieces import digests_of, located_digests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TypeAlias

    Span: TypeAlias = tuple[int, int]
    _Digests: TypeAlias = frozenset[int] | array[int]

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
    texts have characters, at most 24 MB, and some 250 MB for a moment while it is built.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        decoded = DecodedTexts(list(texts), LARGEST)
        loose: set[int] = set()
        exact: set[int] = set()
        for text in decoded.texts:
            plain, spelled = PlainText(text).text, PlainText(text, exactly=True).text
            pieces = set(islice(digests_of(plain), _MOST_PIECES - len(loose)))
            loose |= pieces
            if plain != spelled:
                pieces = set(islice(digests_of(spelled, exactly=True), _MOST_PIECES - len(exact)))
            exact |= pieces
        self.is_complete = decoded.is_complete and len(loose) < _MOST_PIECES
        self._inexact, self._digests = _packed(loose - exact), _packed(loose | exact)

    def held(self, digests: frozenset[int], *, exactly: bool) -> frozenset[int]:
        """Return those of *digests* that the index holds, *exactly* as the texts write them."""
        held = _held(digests, self._digests)
        return held - _held(held, self._inexact) if exactly else held


def find_quotes(text: str, indexes: Sequence[QuoteIndex], *, exactly: bool = False) -> list[Quote]:
    """Return the pieces of *text* that the texts of *indexes* hold, in order of the indexes.

    Pieces that overlap or touch are one. A trusted text vouches only for pieces that it holds
    *exactly*: an address with an accent or a letter of another script is another address.
    """
    plain = PlainText(text, exactly=exactly)
    spans: dict[int, list[Span]] = {}
    for digest, start, end in located_digests(plain.text, exactly=exactly):
        spans.setdefault(digest, []).append((start, end))
    digests, quotes = frozenset(spans), []
    for number, index in enumerate(indexes):
        held = index.held(digests, exactly=exactly)
        for begin, stop in _joined([span for digest in held for span in spans[digest]]):
            start, end = plain.span(begin, stop)
            quotes.append(Quote(text[start:end], start, end, number))
    return quotes


def _packed(digests: set[int]) -> _Digests:
    return frozenset(digests) if len(digests) <= _MOST_IN_SET else array("q", sorted(digests))


def _held(digests: frozenset[int], known: _Digests) -> frozenset[int]:
    if isinstance(known, frozenset):
        return known & digests
    places = [(digest, bisect_left(known, digest)) for digest in digests]
    return frozenset(
        [digest for digest, place in places if place < len(known) and known[place] == digest]
    )


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

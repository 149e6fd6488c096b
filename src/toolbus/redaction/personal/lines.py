"""Lines of a text that may hold personal data, and the words around a place of theirs."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from toolbus.redaction.personal.words import Mention, TextTopics

_GAP = 16
"""How many signs, none of them a digit, stand between a word and the number that it announces."""

_BEFORE, _BEHIND = 120, 40
"""How far from a number a word of the same line may stand that tells what the line is about."""

# No number and no address is longer than half of the overlap.
_WINDOW, _OVERLAP = 1 << 13, 1 << 10
_NOTHING = frozenset[str]()


class Line:
    """An excerpt of *text*, from *start* to *end*, that is searched at once.

    What ends after *sure* may go on behind it; the next one has it.
    """

    def __init__(self, text: str, start: int, end: int, sure: int, topics: TextTopics) -> None:
        self.text, self.start, self.end, self.sure = text, start, end, sure
        self._text_topics = topics

    def announced(self, position: int) -> frozenset[str]:
        """Return what the words right before *position* are for, with no other number between."""
        if position > _GAP and not self._mentions:
            return _NOTHING
        topics = _NOTHING
        for index in range(bisect_right(self._ends, position) - 1, -1, -1):
            mention = self._mentions[index]
            if position - mention.end > _GAP or _has_digit(self.text[mention.end : position]):
                break
            topics |= mention.topics
        if position <= _GAP and not _has_digit(self.text[:position]):
            for mention in self._text_topics.key_mentions:
                topics |= mention.topics
        return topics

    def about(self, start: int, end: int) -> frozenset[str]:
        """Return what the words around *start* to *end* are for, the key and the heading's too."""
        if start > _GAP and not self._mentions:
            return self._text_topics.topics
        first = bisect_right(self._ends, start - _BEFORE)
        stop = bisect_right(self._starts, end + _BEHIND)
        around = [mention.topics for mention in self._mentions[first:stop] if not mention.ambiguous]
        return self._text_topics.topics.union(*around, self.announced(start))

    @cached_property
    def _mentions(self) -> list[Mention]:
        return self._text_topics.vocabulary.mentions(self.text, self.start, self.end)

    @cached_property
    def _ends(self) -> list[int]:
        return [mention.end for mention in self._mentions]

    @cached_property
    def _starts(self) -> list[int]:
        return [mention.start for mention in self._mentions]


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def lines_with(spot: re.Pattern[str], text: str, topics: TextTopics) -> Iterator[Line]:
    """Give the lines of *text* in which *spot* matches; of a long one pieces that overlap."""
    position, size = 0, len(text)
    while (match := spot.search(text, position)) is not None:
        earliest = max(position, match.start() - _OVERLAP)
        start = text.rfind("\n", earliest, match.start()) + 1 or earliest
        limit = min(match.end() + _WINDOW, size)
        end = text.find("\n", match.end(), limit)
        if end >= 0 or limit == size:
            end = position = size if end < 0 else end
            yield Line(text, start, end, end, topics)
        else:
            position = limit - _OVERLAP
            yield Line(text, start, limit, limit - _OVERLAP // 2, topics)

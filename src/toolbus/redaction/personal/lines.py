"""Lines of a text that may hold personal data, and the words in them that name a topic."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.redaction.placeholders import PLACEHOLDER_END

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_GAP = 16
"""Characters, none a digit, between a word and the number that it announces, at most."""

_BEFORE, _BEHIND = 120, 40
"""Characters between a number and a word in the same line that names its topic, at most."""

# No number and no address is longer than half of the overlap.
_WINDOW, _OVERLAP = 1 << 13, 1 << 10
_NOTHING = frozenset[str]()

_HEADING = 1_000

PERSON = "person"
"""The topic of words for any country's identity number."""


class Mention(Struct, frozen=True):
    """A word that names *topics*, from *start* to *end* of a text."""

    start: int
    end: int
    topics: frozenset[str]
    ambiguous: bool


class Vocabulary:
    """The words of each topic: lower-case patterns that begin with a literal letter.

    *ambiguous* words have other meanings as well: they count only right before a number.
    """

    def __init__(self, topics: Mapping[str, Iterable[str]], ambiguous: Iterable[str]) -> None:
        self._ambiguous = re.compile("|".join(ambiguous))
        self._topics = {
            topic: re.compile("|".join(words)) for topic, words in topics.items() if words
        }
        by_initial: dict[str, list[str]] = {}
        for word in dict.fromkeys(word for words in topics.values() for word in words):
            by_initial.setdefault(word[0], []).append(word)
        # Most words are excluded by their first letter.
        self._initial = re.compile(rf"(?<![^\W\d_])[{''.join(by_initial)}]")
        # The kind in a placeholder does not name the topic of the numbers around it.
        self._words = {
            initial: re.compile(rf"(?:{'|'.join(words)})(?![^\W\d_]|{PLACEHOLDER_END})")
            for initial, words in by_initial.items()
        }
        self._topics_of = lru_cache(4096)(self._find_topics)

    def mentions(self, text: str, start: int, end: int) -> list[Mention]:
        """Return the words in *text* from *start* to *end*, in order."""
        excerpt = text[start:end]
        lower = excerpt.lower()
        if len(lower) != len(excerpt):  # A few capital letters become two when lowered.
            lower = excerpt
        return [
            Mention(
                start + match.start(),
                start + match.end(),
                self._topics_of(match[0]),
                self._ambiguous.fullmatch(match[0]) is not None,
            )
            for initial in self._initial.finditer(lower)
            if (match := self._words[initial[0]].match(lower, initial.start())) is not None
        ]

    def topics_in(self, text: str) -> frozenset[str]:
        """Return the topics of the unambiguous words in the short *text*."""
        mentions = self.mentions(text, 0, min(len(text), _HEADING))
        return frozenset().union(*[mention.topics for mention in mentions if not mention.ambiguous])

    def _find_topics(self, word: str) -> frozenset[str]:
        return frozenset(
            topic for topic, pattern in self._topics.items() if pattern.fullmatch(word)
        )


class TextTopics:
    """The topics of a whole *text*, by its key and its first line."""

    def __init__(self, vocabulary: Vocabulary, text: str, key: str) -> None:
        self.vocabulary, self._text, self._key = vocabulary, text, key

    @cached_property
    def key_mentions(self) -> list[Mention]:
        """The words in the key."""
        return self.vocabulary.mentions(self._key, 0, min(len(self._key), _HEADING))

    @cached_property
    def topics(self) -> frozenset[str]:
        """The topics named by the key and by a table's heading."""
        heading, line_break, _ = self._text[:_HEADING].partition("\n")
        key_topics = self.vocabulary.topics_in(self._key) if self._key else frozenset[str]()
        return key_topics | (self.vocabulary.topics_in(heading) if line_break else frozenset())


class Line:
    """An excerpt of *text*, from *start* to *end*, that is scanned at once.

    A match that ends after *sure* may continue behind the excerpt; the next excerpt has all of it.
    """

    def __init__(self, text: str, start: int, end: int, sure: int, topics: TextTopics) -> None:
        self.text, self.start, self.end, self.sure = text, start, end, sure
        self._text_topics = topics

    def announced(self, position: int) -> frozenset[str]:
        """Return the topics of words right before *position*, without a number in between."""
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
        """Return the topics of words around *start* to *end*, of the key and of the heading."""
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
    """Yield the lines of *text* in which *spot* matches; a long line in overlapping pieces."""
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

"""Words that say what the number behind them is, and where they stand in a text."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.redaction.placeholders import PLACEHOLDER_END

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_HEADING = 1_000

PERSON = "person"
"""The topic of words for any country's identity number."""

_PERSON_WORDS = (
    r"national[ _-]?(?:id|identity|identification|insurance)\w{0,12}", r"social[ _-]?security",
    r"identity[ _-]?(?:card|no|nr|number)", r"id[ _-]?card", r"citizen\w{0,8}",
    r"personal[ _-]?(?:id|code|number|identity)\w{0,12}", r"tax[ _-]?(?:id|payer|number)\w{0,6}",
    "passports?", "passport[ _-]?(?:no|nr|number)", "ssn", "reisepass", "passeport", "pasaporte",
)  # fmt: skip

# These words mean other things as well: they count right before a number only.
_AMBIGUOUS = re.compile(
    r"sin|tin|nas|pin|uid|inn|nik|rrn|nir|rut|tel|cell|handy|mobile?|mobil|portable|fax|sms|cc|pan"
    r"|id[ _-]?nr?|id[ _-]?(?:no|number)|identity|contact.*|from|to"
)


class Mention(Struct, frozen=True):
    """A word for *topics*, from *start* to *end* of a text."""

    start: int
    end: int
    topics: frozenset[str]
    ambiguous: bool


class Vocabulary:
    """Knows the words of each topic, as patterns in small letters; the first one is a letter."""

    def __init__(self, topics: Mapping[str, Iterable[str]]) -> None:
        known = {PERSON: _PERSON_WORDS, **topics}
        self._topics = {
            topic: re.compile("|".join(words)) for topic, words in known.items() if words
        }
        by_initial: dict[str, list[str]] = {}
        for word in dict.fromkeys(word for words in known.values() for word in words):
            by_initial.setdefault(word[0], []).append(word)
        # Most words begin with a letter that tells that they are none of these.
        self._initial = re.compile(rf"(?<![^\W\d_])[{''.join(by_initial)}]")
        # The kind of a placeholder says nothing of the numbers around it.
        self._words = {
            initial: re.compile(rf"(?:{'|'.join(words)})(?![^\W\d_]|{PLACEHOLDER_END})")
            for initial, words in by_initial.items()
        }
        self._topics_of = lru_cache(4096)(self._find_topics)

    def mentions(self, text: str, start: int, end: int) -> list[Mention]:
        """Return the words in *text* from *start* to *end*, in order."""
        excerpt = text[start:end]
        lower = excerpt.lower()
        if len(lower) != len(excerpt):  # A few capital letters are two small ones.
            lower = excerpt
        return [
            Mention(
                start + match.start(),
                start + match.end(),
                self._topics_of(match[0]),
                _AMBIGUOUS.fullmatch(match[0]) is not None,
            )
            for initial in self._initial.finditer(lower)
            if (match := self._words[initial[0]].match(lower, initial.start())) is not None
        ]

    def topics_in(self, text: str) -> frozenset[str]:
        """Return what the words in the short *text* are about, those that mean it always."""
        mentions = self.mentions(text, 0, min(len(text), _HEADING))
        return frozenset().union(*[mention.topics for mention in mentions if not mention.ambiguous])

    def _find_topics(self, word: str) -> frozenset[str]:
        return frozenset(
            topic for topic, pattern in self._topics.items() if pattern.fullmatch(word)
        )


class TextTopics:
    """What the whole of a *text* is about: the key that it stands under, and its first line."""

    def __init__(self, vocabulary: Vocabulary, text: str, key: str) -> None:
        self.vocabulary, self._text, self._key = vocabulary, text, key

    @cached_property
    def key_mentions(self) -> list[Mention]:
        """The words in the key."""
        return self.vocabulary.mentions(self._key, 0, min(len(self._key), _HEADING))

    @cached_property
    def topics(self) -> frozenset[str]:
        """What the key and the heading of a table tell."""
        heading, line_break, _ = self._text[:_HEADING].partition("\n")
        key_topics = self.vocabulary.topics_in(self._key) if self._key else frozenset[str]()
        return key_topics | (self.vocabulary.topics_in(heading) if line_break else frozenset())

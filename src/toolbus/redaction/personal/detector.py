"""Personal data in a text, replaced: which kinds, of which countries, and whose not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.redaction.personal.accounts import CARD, CARD_WORDS, find_cards, find_ibans
from toolbus.redaction.personal.emails import EMAIL, EMAIL_WORDS, find_emails
from toolbus.redaction.personal.examination import Examination
from toolbus.redaction.personal.identities import Identities, words
from toolbus.redaction.personal.identity_forms import COUNTRIES
from toolbus.redaction.personal.phones import PHONE, PHONE_WORDS, Phones
from toolbus.redaction.personal.words import Line, TextTopics, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    from toolbus.redaction.personal.matches import PersonalDataMatch

    Find: TypeAlias = Callable[[Line, Examination], Iterator[PersonalDataMatch]]

REGIONS = ("US", "GB", "DE", "FR")
"""Whose phone numbers are known in national form when no countries are asked for, in this order."""

# All that is no address has six digits near each other.
_SPOT = re.compile(r"[0-9](?:[^0-9\n]{0,3}[0-9]){5}")
_WINDOW, _OVERLAP = 1 << 16, 256

# What was taken out may have stood beside something else, which is plainer without it.
_ROUNDS = 3


class Detector:
    """Finds *kinds* of personal data, of *countries* or all; what is in *allow* is left.

    *region* is one more country, which is not the only one.
    """

    def __init__(
        self,
        kinds: Iterable[str],
        countries: tuple[str, ...] | None,
        allow: Iterable[str],
        region: str = "",
    ) -> None:
        wanted, here = frozenset(kinds), (region,) if region else ()
        named = (*(countries or ()), *here)
        finders: dict[str, Find] = {
            "iban": find_ibans,
            "card": find_cards,
            "national-id": Identities((*(countries or COUNTRIES), *here), named).find,
            "phone": Phones((*here, *(countries or REGIONS)), named).find,
        }
        self._numbers = [find for kind, find in finders.items() if kind in wanted]
        self._emails = "email" in wanted
        self._allowed = frozenset([value.lower().removeprefix("@") for value in allow])
        vocabulary = {CARD: CARD_WORDS, PHONE: PHONE_WORDS, EMAIL: EMAIL_WORDS, **words()}
        self._vocabulary = Vocabulary(vocabulary)

    def replace(
        self,
        text: str,
        name: Callable[[str, str], str],
        examination: Examination | None = None,
        hint: str = "",
    ) -> str:
        """Return *text* with *name* of kind and value in place of what was found.

        *hint* is what stands before it, such as its key. Raises `PersonalDataUnexaminedError`.
        """
        examination = examination or Examination()
        for _ in range(_ROUNDS):
            matches = self.find(text, examination, hint)
            if not matches:
                return text
            pieces, end = [], 0
            for match in matches:
                pieces += [text[end : match.start], name(match.kind, match.value)]
                end = match.end
            text = "".join([*pieces, text[end:]])
        return text

    def find(
        self, text: str, examination: Examination | None = None, hint: str = ""
    ) -> list[PersonalDataMatch]:
        """Return what is in *text*, in order, of two that overlap the first kind."""
        examination = examination or Examination()
        examination.read(text)
        matches: list[PersonalDataMatch] = []
        topics = TextTopics(self._vocabulary, text, hint)
        if self._numbers and _SPOT.search(text) is not None:
            for line in _lines(text, topics):
                examination.check()
                for find in self._numbers:
                    candidates = find(line, examination)
                    matches += [match for match in candidates if match.end <= line.sure]
        if self._emails and "@" in text:
            whole = Line(text, 0, len(text), len(text), topics)
            matches += find_emails(whole, examination)
        return _apart([match for match in matches if not self._allows(text, match)])

    def _allows(self, text: str, match: PersonalDataMatch) -> bool:
        if not self._allowed:
            return False
        written = text[match.start : match.end].lower()
        if match.value.lower() in self._allowed or written in self._allowed:
            return True
        if match.kind != "email":
            return False
        labels = match.value.rpartition("@")[2].split(".")
        return any(".".join(labels[index:]) in self._allowed for index in range(len(labels)))


def _lines(text: str, topics: TextTopics) -> Iterator[Line]:
    """Give the lines that may have a number; of a long one pieces that overlap."""
    position, size = 0, len(text)
    while (spot := _SPOT.search(text, position)) is not None:
        earliest = max(position, spot.start() - _OVERLAP)
        start = text.rfind("\n", earliest, spot.start()) + 1 or earliest
        limit = min(spot.end() + _WINDOW, size)
        end = text.find("\n", spot.end(), limit)
        if end >= 0 or limit == size:
            end = position = size if end < 0 else end
            yield Line(text, start, end, end, topics)
        else:
            position = limit - _OVERLAP
            yield Line(text, start, limit, limit - _OVERLAP // 2, topics)


def _apart(matches: list[PersonalDataMatch]) -> list[PersonalDataMatch]:
    """Return *matches* in order of place, without what overlaps an earlier one of the list."""
    remaining: list[PersonalDataMatch] = []
    taken: set[int] = set()
    for match in matches:
        places = range(match.start, match.end)
        if taken.isdisjoint(places):
            taken.update(places)
            remaining.append(match)
    return sorted(remaining, key=lambda match: match.start)

"""Personal data in a text, replaced: which kinds, of which countries, and whose not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.redaction.personal.accounts import find_cards, find_ibans
from toolbus.redaction.personal.emails import find_emails
from toolbus.redaction.personal.identities import COUNTRIES, Identities
from toolbus.redaction.personal.matches import Effort, Line, PersonalDataMatch
from toolbus.redaction.personal.phones import Phones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    Find: TypeAlias = Callable[[Line, Effort], Iterator[PersonalDataMatch]]

REGIONS = ("US", "GB", "DE", "FR")
"""Whose phone numbers are known in national form when no countries are asked for, in this order."""

# All that is no address has six digits near each other.
_SPOT = re.compile(r"[0-9](?:[^0-9\n]{0,3}[0-9]){5}")
_WINDOW, _OVERLAP = 1 << 16, 256


class Detector:
    """Finds *kinds* of personal data, of *countries* or all; what is in *allow* is left."""

    def __init__(
        self, kinds: Iterable[str], countries: tuple[str, ...] | None, allow: Iterable[str]
    ) -> None:
        wanted = frozenset(kinds)
        finders: dict[str, Find] = {
            "iban": find_ibans,
            "card": find_cards,
            "national-id": Identities(countries or COUNTRIES).find,
            "phone": Phones(countries or REGIONS).find,
        }
        self._numbers = [find for kind, find in finders.items() if kind in wanted]
        self._emails = "email" in wanted
        self._allowed = frozenset([value.lower().removeprefix("@") for value in allow])

    def replace(
        self, text: str, name: Callable[[str, str], str], effort: Effort, hint: str = ""
    ) -> str:
        """Return *text* with *name* of kind and value in place of what was found.

        *hint* is what stands before it, such as its key. Raises `EffortExceededError`.
        """
        matches = self.find(text, effort, hint)
        if not matches:
            return text
        pieces, end = [], 0
        for match in matches:
            pieces += [text[end : match.start], name(match.kind, match.value)]
            end = match.end
        return "".join([*pieces, text[end:]])

    def find(self, text: str, effort: Effort, hint: str = "") -> list[PersonalDataMatch]:
        """Return what is in *text*, in order, of two that overlap the first kind."""
        matches: list[PersonalDataMatch] = []
        if self._numbers and _SPOT.search(text) is not None:
            for line in _lines(text, hint):
                for find in self._numbers:
                    matches += [match for match in find(line, effort) if match.end <= line.sure]
        if self._emails and "@" in text:
            matches += find_emails(Line(text, 0, len(text), len(text), hint), effort)
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


def _lines(text: str, hint: str) -> Iterator[Line]:
    """Give the lines that may have a number; of a long one pieces that overlap."""
    position, size = 0, len(text)
    while (spot := _SPOT.search(text, position)) is not None:
        earliest = max(position, spot.start() - _OVERLAP)
        start = text.rfind("\n", earliest, spot.start()) + 1 or earliest
        limit = min(spot.end() + _WINDOW, size)
        end = text.find("\n", spot.end(), limit)
        if end >= 0 or limit == size:
            end = position = size if end < 0 else end
            yield Line(text, start, end, end, hint)
        else:
            position = limit - _OVERLAP
            yield Line(text, start, limit, limit - _OVERLAP // 2, hint)


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

"""Personal data in a text, replaced: which kinds, of which countries, and whose not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.redaction.personal.accounts import find_cards, find_ibans
from toolbus.redaction.personal.emails import find_emails
from toolbus.redaction.personal.findings import Effort, Finding, Line
from toolbus.redaction.personal.identities import COUNTRIES, Identities
from toolbus.redaction.personal.phones import Phones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    Find: TypeAlias = Callable[[Line, Effort], Iterator[Finding]]

REGIONS = ("US", "GB", "DE", "FR")
"""Whose phone numbers are known in national form when no countries are asked for, in this order."""

# All that is no address has six digits near each other.
_SPOT = re.compile(r"[0-9](?:[^0-9\n]{0,3}[0-9]){5}")
_WINDOW, _OVERLAP = 1 << 16, 256


class Examiner:
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
        self._allowed = frozenset([one.lower().removeprefix("@") for one in allow])

    def replace(
        self, text: str, name: Callable[[str, str], str], effort: Effort, hint: str = ""
    ) -> str:
        """Return *text* with *name* of kind and value in place of what was found.

        *hint* is what stands before it, such as its key. Raises `TooMuch`.
        """
        found = self.find(text, effort, hint)
        if not found:
            return text
        pieces, last = [], 0
        for one in found:
            pieces += [text[last : one.start], name(one.kind, one.value)]
            last = one.end
        return "".join([*pieces, text[last:]])

    def find(self, text: str, effort: Effort, hint: str = "") -> list[Finding]:
        """Return what is in *text*, in order, of two that overlap the first kind."""
        found: list[Finding] = []
        if self._numbers and _SPOT.search(text) is not None:
            for line in _lines(text, hint):
                for find in self._numbers:
                    found += [one for one in find(line, effort) if one.end <= line.sure]
        if self._emails and "@" in text:
            found += find_emails(Line(text, 0, len(text), len(text), hint), effort)
        return _apart([one for one in found if not self._allows(text, one)])

    def _allows(self, text: str, one: Finding) -> bool:
        if not self._allowed:
            return False
        written = text[one.start : one.end].lower()
        if one.value.lower() in self._allowed or written in self._allowed:
            return True
        if one.kind != "email":
            return False
        labels = one.value.rpartition("@")[2].split(".")
        return any(".".join(labels[at:]) in self._allowed for at in range(len(labels)))


def _lines(text: str, hint: str) -> Iterator[Line]:
    """Give the lines that may have a number; of a long one pieces that overlap."""
    at, size = 0, len(text)
    while (spot := _SPOT.search(text, at)) is not None:
        least = max(at, spot.start() - _OVERLAP)
        start = text.rfind("\n", least, spot.start()) + 1 or least
        most = min(spot.end() + _WINDOW, size)
        end = text.find("\n", spot.end(), most)
        if end >= 0 or most == size:
            end = at = size if end < 0 else end
            yield Line(text, start, end, end, hint)
        else:
            at = most - _OVERLAP
            yield Line(text, start, most, most - _OVERLAP // 2, hint)


def _apart(found: list[Finding]) -> list[Finding]:
    """Return *found* in order of place, without what overlaps an earlier one of the list."""
    kept: list[Finding] = []
    taken: set[int] = set()
    for one in found:
        places = range(one.start, one.end)
        if taken.isdisjoint(places):
            taken.update(places)
            kept.append(one)
    return sorted(kept, key=lambda one: one.start)

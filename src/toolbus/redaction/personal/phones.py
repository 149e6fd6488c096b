"""Phone numbers, as Google's library knows the plans of all countries.

A number in international form (`+49 30 …`) is taken wherever it stands. One in national form is
taken if it is valid in one of the countries asked for, and either is grouped as people there
write it, with signs that no other number has, or stands after a word such as "phone".
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from toolbus.redaction.personal.matches import ends_of, scan, words_of
from toolbus.settings.extras import needs_extra

try:
    import phonenumbers
except ImportError as error:
    msg = needs_extra("to look for personal data needs libraries", "personal")
    raise ImportError(msg, name=error.name) from error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.redaction.personal.matches import Effort, Line, PersonalDataMatch

_GAP = r"[ \u00a0().\-/\u2010-\u2015]{0,3}"
_PHONE = re.compile(
    rf"(?<![0-9A-Za-z])(?<![0-9][.\-/:])(?:\+|\()?[0-9](?:{_GAP}[0-9]){{6,16}}"
    r"(?![0-9A-Za-z]|[.,:\-/][0-9])"
)
_WORDS = words_of(
    r"(?:tele)?phones?", r"(?:phone|mobile|fax|contact)[ _-]?(?:no|nr|number)", "tel", "telefon",
    r"t[eé]l[eé]phone", r"tel[eé]fono", "mobile?", "mobil", "handy", "cell", "fax",
    "whatsapp", "sms", "portable", "m[oó]vil", "celular", "rufnummer",
)  # fmt: skip
_DATE = re.compile(r"(?<![0-9])(?:19|20)[0-9]{2}([-./])[01][0-9]\1[0-3][0-9](?![0-9])")
_COST = 20
"""Of asking the library, in the terms of the effort."""

_AREA = 5
_SHORTEST = 7
_AMERICAN = re.compile(r"[2-9][0-9]{2}([ /-])[0-9]{3}[ /-][0-9]{4}(?![0-9])")
_DECIMAL = re.compile(r"\(?[0-9]{1,2}\.[0-9]")
_STRICT = phonenumbers.Leniency.STRICT_GROUPING
_VALID = phonenumbers.Leniency.VALID


class Phones:
    """Finds numbers, those in national form in the plans of *regions*."""

    def __init__(self, regions: tuple[str, ...]) -> None:
        self._regions = regions

    def find(self, line: Line, effort: Effort) -> Iterator[PersonalDataMatch]:
        """Give the phone numbers in *line*."""
        return scan(_PHONE, line, effort, "phone", partial(self._phone, effort))

    def _phone(self, effort: Effort, match: re.Match[str], line: Line) -> tuple[str, int] | None:
        shaped = match[0][0] in "+(0" or _AMERICAN.match(match[0]) is not None
        announced = line.says(_WORDS, match.start())
        if not shaped and not announced:
            return None
        for end in ends_of(match):
            effort.spend()
            text = match.string[match.start() : end].rstrip(" \u00a0().-/")
            end = match.start() + len(text)  # noqa: PLW2901 - a gap is no part of a number
            if sum(map(str.isdigit, text)) < _SHORTEST:
                return None
            if (number := self._number(effort, text, announced=announced, match=match)) is not None:
                return number, end
        return None

    def _number(
        self, effort: Effort, text: str, *, announced: bool, match: re.Match[str]
    ) -> str | None:
        if _DATE.search(text):
            return None
        if text.startswith(("+", "00")):
            effort.spend(_COST)
            return _number(f"+{text[2:]}" if text.startswith("00") else text, None, _VALID)
        if not announced and (not _is_grouped(text) or _goes_on(match)):
            return None
        effort.spend(_COST * len(self._regions))
        level = _VALID if announced else _STRICT
        numbers = (_number(text, region, level) for region in self._regions)
        return next((number for number in numbers if number is not None), None)


def _goes_on(match: re.Match[str]) -> bool:
    """Tell whether another number stands right before: `2.179 872 361 1030` is one of physics."""
    before = match.string[max(match.start() - 2, 0) : match.start()]
    return before[-1:] == " " and before[:1].isdigit() and match[0][0].isdigit()


def _is_grouped(text: str) -> bool:
    """Tell whether *text* is written as a phone number and not as a date, a sum or a version."""
    if _DECIMAL.match(text):
        return False
    if text.startswith("("):
        return ")" in text
    if not text.startswith("0"):
        return _AMERICAN.fullmatch(text) is not None
    groups = re.split(r"[^0-9]+", text)
    if len(groups) == 2:  # noqa: PLR2004 - which may be a decimal or a range of years
        return "." not in text and 1 < len(groups[0]) <= _AREA < len(groups[1])
    return len(groups) > 1


def _number(text: str, region: str | None, level: int) -> str | None:
    """Return the number that the whole of *text* is, as E.164 writes it."""
    try:
        parsed = phonenumbers.parse(text, region)
    except phonenumbers.NumberParseException:
        return None
    if not phonenumbers.is_valid_number(parsed):
        return None
    if level == _STRICT:
        matcher = phonenumbers.PhoneNumberMatcher(text, region, leniency=level, max_tries=1)
        if not matcher.has_next():
            return None
    written: str = phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.E164)
    return written


def regions() -> frozenset[str]:
    """Return the regions whose numbers are known."""
    return frozenset(phonenumbers.SUPPORTED_REGIONS)

"""Payment cards and IBANs, by their check digits.

Shapes and lengths of IBANs come from the SWIFT registry, a part of python-stdnum.
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING

from stdnum import iban, luhn

from toolbus.redaction.personal.facts import facts
from toolbus.redaction.personal.matches import ends_of, scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.redaction.personal.lines import Line
    from toolbus.redaction.personal.matches import Appraisal, PersonalDataMatch

CARD = "card"

_CARD = re.compile(
    r"(?<![0-9A-Za-z])(?<![0-9][.,])"
    r"(?:[0-9]{12,19}"
    r"|[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1(?:[0-9]{4}(?:\1[0-9]{1,3})?|[0-9]{3})"
    r"|[0-9]{4}([ -])[0-9]{6}\2[0-9]{4,5})"
    r"(?![0-9A-Za-z]|[.,][0-9])"
)
_FEWEST, _MOST = 12, 19
_ISSUED = re.compile(r"5[06-8]|6|1[0-9]{14}\Z")
_USUAL = {14, 15, 16}
"""Digits of a card number without groups; few counters of programs are that long."""

_UNION_PAY = "62"

_SHORTEST, _LONGEST = 15, 34
_IBAN = re.compile(
    r"(?<![0-9A-Za-z])[A-Za-z]{2}[0-9]{2}"
    r"(?:[0-9A-Za-z]{11,30}|(?:[ -][0-9A-Za-z]{4}){2,7}(?:[ -][0-9A-Za-z]{1,4})?)(?![0-9A-Za-z])"
)


def find_cards(line: Line, appraisal: Appraisal) -> Iterator[PersonalDataMatch]:
    """Yield the payment card numbers in *line*."""
    return scan(_CARD, line, CARD, partial(_card, appraisal))


def find_ibans(line: Line, appraisal: Appraisal) -> Iterator[PersonalDataMatch]:
    """Yield the IBANs in *line*."""
    return scan(_IBAN, line, "iban", partial(_iban, appraisal))


def _card(appraisal: Appraisal, match: re.Match[str], line: Line) -> tuple[str, int] | None:
    for end in ends_of(match):
        written = match.string[match.start() : end]
        digits = written.replace(" ", "").replace("-", "")
        size = len(digits)
        if size < _FEWEST:
            return None
        known = size <= _MOST and _prefix(size).match(digits) is not None
        usual = size in _USUAL or written != digits or digits.startswith(_UNION_PAY)
        if not (known and usual):
            # After a word for a card, every range issued to Maestro, UnionPay and airlines.
            possible = known or (size <= _MOST and _ISSUED.match(digits))
            if not possible or CARD not in line.about(match.start(), end):
                continue
        if appraisal.ask(_is_card, digits):
            return digits, end
    return None


@cache
def _prefix(size: int) -> re.Pattern[str]:
    """Return a pattern for the prefixes of cards with *size* digits."""
    prefixes = [network.prefix for network in facts().networks if size in network.sizes]
    return re.compile("|".join(prefixes))


def _is_card(digits: str) -> bool:
    # Repeated digits (`0000…`) pass the check and are not cards.
    return len(set(digits)) > 1 and luhn.is_valid(digits)


def _iban(appraisal: Appraisal, match: re.Match[str], _: Line) -> tuple[str, int] | None:
    for end in ends_of(match):
        number = match.string[match.start() : end].replace(" ", "").replace("-", "").upper()
        if _SHORTEST <= len(number) <= _LONGEST and appraisal.ask(_is_iban, number):
            return number, end
    return None


def _is_iban(number: str) -> bool:
    # ISO 13616, modulo 97 first: it leaves one of a hundred candidates for the slower library.
    moved = number[4:] + number[:4]
    if int("".join([str(int(sign, 36)) for sign in moved])) % 97 != 1:
        return False
    # Some countries' own checks require an existing bank, and examples name invented banks.
    return bool(iban.is_valid(number, check_country=False))

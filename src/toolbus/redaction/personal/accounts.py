"""Payment cards and IBANs, by their check digits.

Which prefixes and lengths cards have: ISO/IEC 7812 and the networks, as Wikipedia lists them under
"Payment card number". Shapes and lengths of IBANs: the SWIFT registry, which python-stdnum has.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.redaction.personal.matches import ends_of, scan
from toolbus.settings.extras import needs_extra

try:
    from stdnum import iban, luhn
except ImportError as error:
    msg = needs_extra("to look for personal data needs libraries", "personal")
    raise ImportError(msg, name=error.name) from error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.redaction.personal.matches import Effort, Line, PersonalDataMatch

_CARD = re.compile(
    r"(?<![0-9A-Za-z])(?<![0-9][.,])"
    r"(?:[0-9]{13,19}"
    r"|[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{1,3})?"
    r"|[0-9]{4}([ -])[0-9]{6}\2[0-9]{4,5})"
    r"(?![0-9A-Za-z]|[.,][0-9])"
)
_NETWORKS = (
    (re.compile(r"4"), {13, 16, 19}),  # Visa
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), {16}),  # Mastercard
    (re.compile(r"3[47]"), {15}),  # American Express
    (re.compile(r"30[0-5]|3095|36|3[89]"), {14, 15, 16, 17, 18, 19}),  # Diners Club
    (re.compile(r"6011|64[4-9]|65|62|81|60|82"), {16, 17, 18, 19}),  # Discover, UnionPay, RuPay
    (re.compile(r"35(?:2[89]|[3-8])"), {16, 17, 18, 19}),  # JCB
    (re.compile(r"50(?:18|20|38)|5893|6304|6759|676[1-3]"), set(range(13, 20))),  # Maestro
    (re.compile(r"220[0-5]|9792"), {16, 17, 18, 19}),  # Mir, Troy
)
_SHORTEST = 15
_IBAN = re.compile(
    r"(?<![0-9A-Za-z])[A-Za-z]{2}[0-9]{2}"
    r"(?:[0-9A-Za-z]{11,30}|(?:[ -][0-9A-Za-z]{4}){2,7}(?:[ -][0-9A-Za-z]{1,4})?)(?![0-9A-Za-z])"
)


def find_cards(line: Line, effort: Effort) -> Iterator[PersonalDataMatch]:
    """Give the numbers of payment cards in *line*."""
    return scan(_CARD, line, effort, "card", _card, cost=5)


def find_ibans(line: Line, effort: Effort) -> Iterator[PersonalDataMatch]:
    """Give the IBANs in *line*."""
    return scan(_IBAN, line, effort, "iban", _iban, cost=10)


def _card(match: re.Match[str], _: Line) -> tuple[str, int] | None:
    for end in ends_of(match):
        digits = match.string[match.start() : end].replace(" ", "").replace("-", "")
        known = any(len(digits) in sizes and prefix.match(digits) for prefix, sizes in _NETWORKS)
        # All the same digits pass the check, and stand for something else.
        if known and len(set(digits)) > 1 and luhn.is_valid(digits):
            return digits, end
    return None


def _iban(match: re.Match[str], _: Line) -> tuple[str, int] | None:
    for end in ends_of(match):
        number = iban.compact(match.string[match.start() : end].replace("-", ""))
        # A country's own checks ask whether a bank is there: examples name banks that are not.
        if len(number) >= _SHORTEST and iban.is_valid(number, check_country=False):
            return number, end
    return None

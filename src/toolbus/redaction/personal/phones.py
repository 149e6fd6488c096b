"""Phone numbers, by the numbering plans of Google's library.

A number in international form (`+49 30 …`) matches anywhere. A number in national form matches if
it is valid in one of the configured countries, and either is grouped as is usual there, with signs
that other numbers do not have, or has a word such as "phone" near it. A shape that other numbers
have as well (`058-8452295`) needs the word, or a setting that names its country; bare digits need
the word right before them, or match as a mobile number of a country that the settings name.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import phonenumbers

from toolbus.redaction.personal.matches import ends_of, scan

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from toolbus.redaction.personal.lines import Line
    from toolbus.redaction.personal.matches import Appraisal, PersonalDataMatch

PHONE = "phone"

_SIGNS = r" \u00a0().\-/\u2010-\u2015"
_GAP = rf"[{_SIGNS}]{{1,3}}"
_PHONE = re.compile(
    rf"(?<![0-9A-Za-z])(?<![0-9][.\-/:])(?=[+(]?(?:[0-9][{_SIGNS}]{{0,3}}){{6}}[0-9])"
    # Three single digits in a row are never part of a phone number.
    rf"(?!\+?[0-9]{_GAP}[0-9]{_GAP}[0-9](?![0-9]))"
    rf"(?:\+|\()?[0-9]{{1,15}}(?:{_GAP}[0-9]{{1,14}}){{0,7}}"
    r"(?![0-9A-Za-z]|[.,:\-/][0-9])"
)
_DATE = re.compile(r"(?<![0-9])(?:19|20)[0-9]{2}([-./])[01][0-9]\1[0-3][0-9](?![0-9])")
_DECIMAL = re.compile(r"\(?[0-9]{1,2}\.[0-9]")
_AMERICAN = re.compile(r"\(?[2-9][0-9]{2}(?:\) ?|[ ./-])[0-9]{3}[ ./-][0-9]{4}")
# Numbers reserved for fiction, which no plan includes: https://nationalnanpa.com.
_FICTITIOUS = re.compile(
    r"\+1[ .-]?\(?[2-9][0-9]{2}\)?[ .-]?[0-9]{3}[ .-]?[0-9]{4}"
    r"|\(555\) ?[0-9]{3}-[0-9]{4}|555([.-])[0-9]{3}\1[0-9]{4}"
)
_AREA, _SHORTEST, _LONGEST = 5, 7, 17
_GROUPED, _VALID = phonenumbers.Leniency.STRICT_GROUPING, phonenumbers.Leniency.VALID
_MOBILE = phonenumbers.PhoneNumberType.MOBILE


class Phones:
    """Finds phone numbers, national ones by the plans of *regions*; *named* are in the settings."""

    def __init__(self, regions: Sequence[str], named: Container[str]) -> None:
        known = supported_regions().intersection(regions)
        plans = {region: _NumberingPlan(region) for region in regions if region in known}
        self._named = [plan for region, plan in plans.items() if region in named]
        # The judges of a candidate, made once: the appraisal caches answers by judge.
        self._valid = partial(_first, plans.values(), _VALID)
        self._grouped = partial(_fictitious_or_first, plans.values(), _GROUPED)
        self._grouped_at_home = partial(_first, self._named, _GROUPED)
        self._mobile = partial(_first, self._named, _GROUPED, mobile=True)

    def find(self, line: Line, appraisal: Appraisal) -> Iterator[PersonalDataMatch]:
        """Yield the phone numbers in *line*."""
        return scan(_PHONE, line, PHONE, partial(self._phone, appraisal))

    def _phone(
        self, appraisal: Appraisal, match: re.Match[str], line: Line
    ) -> tuple[str, int] | None:
        start = match.start()
        shaped = match[0][0] in "+(0" or _AMERICAN.match(match[0]) is not None
        if not (shaped or self._named or PHONE in line.announced(start)):
            return None
        for end in ends_of(match):
            # A gap at the end is not part of the number.
            text = match.string[start:end].rstrip(" \u00a0().-/")
            digits = sum(map(str.isdigit, text))
            if digits < _SHORTEST:
                return None
            if digits > _LONGEST or _DATE.search(text):
                continue
            question = self._question(text, start, line)
            number = None if question is None else appraisal.ask(question, text)
            if number is not None:
                return number, start + len(text)
        return None

    def _question(self, text: str, start: int, line: Line) -> Callable[[str], str | None] | None:
        """Return the judge of *text* at *start* of *line*, or None if it is not a phone number."""
        # The surest sign of a phone number chooses the judge, so weaker signs come below it.
        is_bare, is_grouped = text.isdecimal(), _is_grouped(text)
        if text.startswith("+") or (text.startswith("00") and not is_bare):
            return _international
        if PHONE in line.announced(start):
            return _international if text.startswith("00") else self._valid
        if is_grouped and PHONE in line.about(start, start + len(text)):
            return self._valid
        if _is_amid(line, start, start + len(text)):
            return None
        if is_grouped and not _is_weak(text):
            return self._grouped
        if not self._named:
            return None
        return self._grouped_at_home if is_grouped else self._mobile


class _NumberingPlan:
    """The numbers of one *region*, in national form."""

    def __init__(self, region: str) -> None:
        self._region = region
        metadata: Any = phonenumbers.PhoneMetadata.metadata_for_region(region)
        self._prefix = metadata.national_prefix or ""
        # In some countries the prefix replaces a part of the number, so the rest proves little.
        simple = metadata.national_prefix_transform_rule is None
        pattern = metadata.general_desc.national_number_pattern if simple else "[0-9]{4,17}"
        self._any = re.compile(pattern)

    def number(self, text: str, level: int, *, mobile: bool = False) -> str | None:
        """Return the whole *text* as a number in E.164 form, or None."""
        # The library is slow, so the checks without it come first and the costliest comes last.
        digits = "".join(filter(str.isdigit, text))
        at_home = mobile or level == _VALID or self._prefix != "0" or digits.startswith("0")
        if not at_home or not self._is_plausible(digits):
            return None
        parsed = _parsed(text, self._region)
        if parsed is None or not phonenumbers.is_valid_number(parsed):
            return None
        if mobile and phonenumbers.number_type(parsed) != _MOBILE:
            return None
        if level == _GROUPED and not self._is_grouped(text, parsed):
            return None
        return _written(parsed)

    def _is_plausible(self, digits: str) -> bool:
        """Return whether the slow library is worth asking about *digits*."""
        bare = digits.removeprefix(self._prefix)
        return self._any.fullmatch(digits) is not None or self._any.fullmatch(bare) is not None

    def _is_grouped(self, text: str, number: Any) -> bool:
        if self._prefix == "1" and _AMERICAN.fullmatch(text):
            return True
        usual = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.NATIONAL)
        if re.findall("[0-9]+", usual) == re.findall("[0-9]+", text):
            return True
        # The library's other grouping test accepts more forms and takes four times as long.
        matcher = phonenumbers.PhoneNumberMatcher(
            text, self._region, leniency=_GROUPED, max_tries=1
        )
        return bool(matcher.has_next())


def _fictitious_or_first(plans: Iterable[_NumberingPlan], level: int, text: str) -> str | None:
    return _fictitious(text) or _first(plans, level, text)


def _first(
    plans: Iterable[_NumberingPlan], level: int, text: str, *, mobile: bool = False
) -> str | None:
    """Return *text* as a number of the first of *plans* that includes it, or None."""
    numbers = (plan.number(text, level, mobile=mobile) for plan in plans)
    return next((number for number in numbers if number is not None), None)


def _international(text: str) -> str | None:
    number = _parsed(f"+{text[2:]}" if text.startswith("00") else text, None)
    if number is not None and phonenumbers.is_valid_number(number):
        return _written(number)
    return _fictitious(text)


def _fictitious(text: str) -> str | None:
    if _FICTITIOUS.fullmatch(text) is None:
        return None
    return f"+1{''.join(filter(str.isdigit, text))[-10:]}"


def _parsed(text: str, region: str | None) -> Any:
    try:
        return phonenumbers.parse(text, region)
    except phonenumbers.NumberParseException:
        return None


def _written(number: Any) -> str:
    written: str = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
    return written


def _is_amid(line: Line, start: int, end: int) -> bool:
    """Return whether other numbers are right beside: `2.179 872 361 1030` is from physics."""
    if not line.text[start].isdigit():
        return False
    before, behind = line.text[max(start - 2, 0) : start], line.text[end : end + 2]
    return (before[-1:] == " " and before[:1].isdigit()) or (
        behind[:1] == " " and behind[1:].isdigit()
    )


def _is_grouped(text: str) -> bool:
    """Return whether *text* is grouped as a phone number, not as a date, an amount or a version."""
    if _DECIMAL.match(text):
        return False
    if text.startswith("("):
        return ")" in text
    if not text.startswith("0"):
        return _AMERICAN.fullmatch(text) is not None
    groups = re.split(r"[^0-9]+", text)
    if len(groups) == 2:  # noqa: PLR2004 - two groups may be a decimal or a range of years
        return "." not in text and 1 < len(groups[0]) <= _AREA < len(groups[1])
    return len(groups) > 1


def _is_weak(text: str) -> bool:
    """Return whether *text* has the form of build numbers and the like."""
    return text.startswith("0") and len(re.findall("[0-9]+", text)) == 2  # noqa: PLR2004


def supported_regions() -> frozenset[str]:
    """Return the regions whose numbering plans are known."""
    return frozenset(phonenumbers.SUPPORTED_REGIONS)

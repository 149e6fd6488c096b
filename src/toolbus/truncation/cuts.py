"""Where a text may be cut: between characters as a reader sees them.

The rules are those of Unicode Standard Annex 29 (grapheme cluster boundaries) that can be told
from the neighbours of a place: line ends of two characters, combining marks, joiners and what
they join, skin tones, tags, flags and Hangul. Not among them: prepended marks, and consonants
that a virama of an Indic script joins.
"""

from __future__ import annotations

import unicodedata

_REACH = 64
"""A character with more marks than this is cut all the same: nobody reads it."""

_JOINERS = "\u200c\u200d"
_MARKS = frozenset({"Mn", "Me", "Mc"})


def cut_before(text: str, at: int) -> int:
    """Return the last place at or before *at* where *text* may be cut."""
    at = min(max(at, 0), len(text))
    for place in range(at, max(at - _REACH, -1), -1):
        if is_cut(text, place):
            return place
    return at


def cut_after(text: str, at: int) -> int:
    """Return the first place at or after *at* where *text* may be cut."""
    at = min(max(at, 0), len(text))
    for place in range(at, min(at + _REACH, len(text) + 1)):
        if is_cut(text, place):
            return place
    return at


def is_cut(text: str, at: int) -> bool:
    """Tell whether a reader sees two characters at both sides of *at*."""
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if before.isascii() and after.isascii():
        return before + after != "\r\n"
    if before == "\u200d" or after in _JOINERS or unicodedata.category(after) in _MARKS:
        return False
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return False
    if _is_flag(before) and _is_flag(after):
        return _flags_before(text, at) % 2 == 0
    return not _joins_hangul(before, after)


def _is_flag(one: str) -> bool:
    return "\U0001f1e6" <= one <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    """Return how many letters of flags stand before *at*: each two of them are one flag."""
    count = 0
    while count < at and count < _REACH and _is_flag(text[at - 1 - count]):
        count += 1
    return count


def _joins_hangul(before: str, after: str) -> bool:
    if _is_vowel_or_tail(after):
        return _is_lead(before) or _is_vowel_or_tail(before) or "\uac00" <= before <= "\ud7a3"
    return _is_lead(before) and (_is_lead(after) or "\uac00" <= after <= "\ud7a3")


def _is_lead(one: str) -> bool:
    return "\u1100" <= one <= "\u115f" or "\ua960" <= one <= "\ua97c"


def _is_vowel_or_tail(one: str) -> bool:
    return "\u1160" <= one <= "\u11ff" or "\ud7b0" <= one <= "\ud7fb"

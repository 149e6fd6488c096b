"""Where a text may be cut: between lines, and between characters as a reader sees them.

The rules for characters are those of Unicode Standard Annex 29 (grapheme cluster boundaries) that
can be told from the neighbours of a position: line ends of two characters, combining marks,
joiners and what they join, skin tones, tags, flags and Hangul. Not among them: prepended marks,
and consonants that a virama of an Indic script joins.
"""

from __future__ import annotations

import unicodedata

_REACH = 64
"""A character with more marks than this is cut all the same: nobody reads it."""

_JOINERS = "\u200c\u200d"
_MARKS = frozenset({"Mn", "Me", "Mc"})


def cut_before(text: str, position: int) -> int:
    """Return the last position at or before *position* where *text* may be cut."""
    position = min(max(position, 0), len(text))
    for candidate in range(position, max(position - _REACH, -1), -1):
        if is_cut(text, candidate):
            return candidate
    return position


def cut_after(text: str, position: int) -> int:
    """Return the first position at or after *position* where *text* may be cut."""
    position = min(max(position, 0), len(text))
    for candidate in range(position, min(position + _REACH, len(text) + 1)):
        if is_cut(text, candidate):
            return candidate
    return position


def after_lines(text: str, start: int, end: int, count: int) -> int:
    """Return where the first *count* lines of *text* from *start* on end, *end* at most."""
    for _ in range(count):
        newline = text.find("\n", start, end)
        if newline < 0:
            return end
        start = newline + 1
    return start


def before_lines(text: str, start: int, end: int, count: int) -> int:
    """Return where the last *count* lines of *text* up to *end* begin, *start* at least."""
    for _ in range(count):
        newline = text.rfind("\n", start, end)
        if newline < 0:
            return start
        end = newline
    return end + 1


def are_lines(text: str, start: int, end: int) -> bool:
    """Tell whether *text* from *start* to *end* is one or more whole lines."""
    return (start == 0 or text[start - 1] == "\n") and (end == len(text) or text[end - 1] == "\n")


def is_cut(text: str, position: int) -> bool:
    """Tell whether a reader sees two characters at both sides of *position*."""
    if position <= 0 or position >= len(text):
        return True
    before, after = text[position - 1], text[position]
    if before.isascii() and after.isascii():
        return before + after != "\r\n"
    if _is_flag(before) and _is_flag(after):
        return _flags_before(text, position) % 2 == 0
    return not (before == "\u200d" or _extends(after) or _joins_hangul(before, after))


def _extends(character: str) -> bool:
    """Tell whether *character* belongs to the one before: a mark, a joiner, a skin tone, a tag."""
    if character in _JOINERS or unicodedata.category(character) in _MARKS:
        return True
    return "\U0001f3fb" <= character <= "\U0001f3ff" or "\U000e0020" <= character <= "\U000e007f"


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flags_before(text: str, position: int) -> int:
    """Return how many letters of flags stand before *position*: each two of them are one flag."""
    count = 0
    while count < position and count < _REACH and _is_flag(text[position - 1 - count]):
        count += 1
    return count


def _joins_hangul(before: str, after: str) -> bool:
    if _is_vowel_or_tail(after):
        return _is_lead(before) or _is_vowel_or_tail(before) or "\uac00" <= before <= "\ud7a3"
    return _is_lead(before) and (_is_lead(after) or "\uac00" <= after <= "\ud7a3")


def _is_lead(character: str) -> bool:
    return "\u1100" <= character <= "\u115f" or "\ua960" <= character <= "\ua97c"


def _is_vowel_or_tail(character: str) -> bool:
    return "\u1160" <= character <= "\u11ff" or "\ud7b0" <= character <= "\ud7fb"

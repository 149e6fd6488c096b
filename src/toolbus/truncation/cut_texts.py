"""The truncation of a text to its head, its tail and the lines with some words, with marks.

Cuts are between lines where possible, and never inside a user-perceived character: by the rules
of Unicode Standard Annex 29 (grapheme clusters) for line ends of two characters, combining marks,
joiners, skin tones, tags, flags and Hangul.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Span: TypeAlias = tuple[int, int]
"""A start and an end in a text."""

_LONGEST = 64
"""A character with more marks than this may be cut."""

_REACH = 180
"""The characters shown at each side of a word in a longer line."""

_MARK = 45
"""The maximum length of a gap's mark."""

_WINDOW = 1 << 18
# Joiners, vowels and final consonants of Hangul, skin tones, tags.
_JOINS_BEFORE = re.compile(
    "[\u200c\u200d\u1160-\u11ff\ud7b0-\ud7fb\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
)
# The joiner, and first consonants of Hangul.
_JOINS_BEHIND = re.compile("[\u200d\u1100-\u115f\ua960-\ua97c]")
_FLAGS = "".join(map(chr, range(0x1F1E6, 0x1F200)))


def cut_text(text: str, size: int, head: float, words: Sequence[str] = ()) -> tuple[str, int]:
    """Return *text* cut to *size* characters with its marks, and the end of its head.

    Lines with *words* get a quarter of the size; of the rest the head gets the part *head*, a
    number between 0 and 1.
    """
    size = max(size - _MARK, 0)
    start, end = _ends(text, size - size // 4 if words else size, head)
    spans = _lines_with(text, words, (start, end), size // 4) if words else []
    if words and not spans:
        start, end = _ends(text, size, head)
    return "".join(_with_gaps(text, [(0, start), *spans, (end, len(text))])), start


def _ends(text: str, size: int, head: float) -> Span:
    """Return the end of the head of *text* and the start of its tail, of *size* together."""
    start = min(int(size * head), len(text))
    end = max(len(text) - (size - start), start)
    start = _line_end(text, start)
    return start, _line_start(text, end, start)


def _line_end(text: str, position: int) -> int:
    """Return the cut before *position*: after a whole line, if that loses less than half."""
    end = text.rfind("\n", 0, position) + 1
    return end if end * 2 >= position > 0 else cut(text, position, -1)


def _line_start(text: str, position: int, least: int) -> int:
    """Return the cut after *position*: before a whole line, if that loses less than half."""
    if position <= least:
        return least
    start = text.find("\n", position - 1) + 1
    is_near = 0 < start <= position + (len(text) - position) // 2
    return start if is_near else cut(text, position, 1)


def _lines_with(text: str, words: Sequence[str], bounds: Span, size: int) -> list[Span]:
    """Return the parts of *text* around *words* within *bounds*, as many as *size* allows."""
    spans: list[Span] = []
    previous = bounds[0]
    for word in find_words(text, words, *bounds):
        start, end = lines_around(text, word, bounds, context=1)
        start = max(start, previous)
        if end <= start:
            continue
        size -= end - start + _MARK
        if size < 0:
            break
        spans.append((start, end))
        previous = end
    return spans


def _with_gaps(text: str, spans: list[Span]) -> Iterator[str]:
    """Yield the *spans* of *text*, and between them the marks of the gaps."""
    previous = 0
    for start, end in spans:
        if start > previous:
            yield _gap(text, previous, start)
        yield text[max(start, previous) : end]
        previous = end


def _gap(text: str, start: int, end: int) -> str:
    """Return the mark in place of *text* from *start* to *end*, with the missing amount."""
    if are_lines(text, start, end):
        lines = text.count("\n", start, end) + (text[end - 1] != "\n")
        return f"[… {lines:,} {'line' if lines == 1 else 'lines'} left out …]\n"
    before = "" if start == 0 or text[start - 1] == "\n" else " "
    after = "\n" if text[end - 1] == "\n" else " "
    return f"{before}[… {end - start:,} characters left out …]{after}"


# --- places in a text ----------------------------------------------------------------------------


def find_words(text: str, words: Sequence[str], start: int, end: int) -> Iterator[Span]:
    """Yield the places of *words* in *text*, in any case, between *start* and *end*."""
    # Alternatives of plain words: without repetition there is no backtracking.
    pattern = re.compile("|".join(map(re.escape, words)), re.IGNORECASE)
    small, overlap = [word.lower() for word in words], max(map(len, words)) - 1
    for low in range(start, end, _WINDOW):
        high = min(low + _WINDOW, end)
        # Ten times as fast as the pattern, and most windows have no word.
        window = text[low : high + overlap].lower()
        if any(word in window for word in small):
            for match in pattern.finditer(text, low, min(high + overlap, end)):
                if match.start() < high:
                    yield match.span()


def lines_around(text: str, word: Span, bounds: Span, context: int) -> Span:
    """Return the lines of *word* and *context* lines at each side, or the nearest part of them."""
    start, end = max(word[0] - _REACH, bounds[0]), min(word[1] + _REACH, bounds[1])
    first = before_lines(text, start, word[0], context + 1)
    final = after_lines(text, min(word[1], end), end, context + 1)
    return cut(text, first, -1), cut(text, final, 1)


def cut(text: str, position: int, step: int) -> int:
    """Return the valid cut nearest to *position*: after it, before it for a *step* of -1."""
    position = min(max(position, 0), len(text))
    nearest = range(position, position + step * _LONGEST, step)
    return next((place for place in nearest if is_cut(text, place)), position)


def is_cut(text: str, position: int) -> bool:
    """Return whether *position* is between two user-perceived characters."""
    if position <= 0 or position >= len(text):
        return True
    before, after = text[position - 1], text[position]
    if before.isascii() and after.isascii():
        return before + after != "\r\n"
    if before in _FLAGS and after in _FLAGS:
        near = text[max(position - _LONGEST, 0) : position]
        # Two regional indicators are one flag.
        return (len(near) - len(near.rstrip(_FLAGS))) % 2 == 0
    return not (
        _JOINS_BEHIND.match(before)
        or _JOINS_BEFORE.match(after)
        or unicodedata.category(after).startswith("M")
    )


def after_lines(text: str, start: int, end: int, count: int) -> int:
    """Return the end of the first *count* lines of *text* from *start*, at most *end*."""
    for _ in range(count):
        newline = text.find("\n", start, end)
        if newline < 0:
            return end
        start = newline + 1
    return start


def before_lines(text: str, start: int, end: int, count: int) -> int:
    """Return the start of the last *count* lines of *text* before *end*, at least *start*."""
    for _ in range(count):
        newline = text.rfind("\n", start, end)
        if newline < 0:
            return start
        end = newline
    return end + 1


def are_lines(text: str, start: int, end: int) -> bool:
    """Return whether *text* from *start* to *end* consists of whole lines."""
    return (start == 0 or text[start - 1] == "\n") and (end == len(text) or text[end - 1] == "\n")

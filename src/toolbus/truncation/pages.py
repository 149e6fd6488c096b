"""Reading on in a kept text: a page of lines or characters, or the lines that hold some words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.truncation.cuts import cut_after, cut_before
from toolbus.truncation.searches import find_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.truncation.budgets import Budget

_ROOM = 0.7
"""The part of a budget for what is read; the rest is for what is said about it."""

_WIDE = 200
"""Of a longer line a search shows only so many characters around what it found."""


class Place(Struct, frozen=True):
    """Where to read: from *line*, the first being 1, or from the character *offset* if given.

    At most *lines* lines, None for as many as there is room for.
    """

    line: int = 1
    offset: int | None = None
    lines: int | None = None


def read_page(text: str, place: Place, budget: Budget) -> str:
    """Return a page of *text*, and below it where the next begins."""
    start = _start(text, place)
    if start is None or start > len(text):
        return _beyond(text, place)
    end = budget.part(_ROOM).head(text, start, len(text))
    end = _line_end(text, start, end, place.lines)
    said = f"{text[start:end].removesuffix(chr(10))}\n"
    return f"{said}[{_extent(text, start, end)}; {_onward(text, end)}]"


def search(text: str, words: str, place: Place, budget: Budget) -> str:
    """Return the lines of *text* that hold *words*, each after its number.

    Of a long line only what stands around each of its matches.
    """
    start = _start(text, place)
    if start is None:
        return _beyond(text, place)
    room, shown, hits = budget.part(_ROOM), "", 0
    number, counted = 1, 0
    for low, high in _hits(text, words, start):
        number, counted = number + text.count("\n", counted, low), low
        line = f"{number}: {_window(text, low, high)}\n"
        if hits == place.lines or not room.fits(shown + line):
            return f"{shown}[{_counted(hits)} with {words!r} so far; search on with offset={low}]"
        shown, hits = shown + line, hits + 1
    where = f"line {place.line}" if place.offset is None else f"offset {place.offset}"
    return f"{shown}[{_counted(hits)} with {words!r} from {where} to the end]"


def _start(text: str, place: Place) -> int | None:
    if place.offset is not None:
        return cut_before(text, place.offset) if place.offset <= len(text) else None
    at = 0
    for _ in range(place.line - 1):
        found = text.find("\n", at)
        if found < 0:
            return None
        at = found + 1
    return at


def _line_end(text: str, start: int, end: int, lines: int | None) -> int:
    """Return where a page from *start* ends, at most at *end*: after a whole line, if possible."""
    if lines is not None:
        at = start
        for _ in range(lines):
            found = text.find("\n", at, end)
            if found < 0:
                break
            at = found + 1
        else:
            return at
    if end == len(text):
        return end
    found = text.rfind("\n", start, end) + 1
    # Each page gets on, also where a character is longer than any page.
    return found if found > start else max(cut_before(text, end), min(start + 1, len(text)))


def _extent(text: str, start: int, end: int) -> str:
    if (start == 0 or text[start - 1] == "\n") and (end == len(text) or text[end - 1] == "\n"):
        first = text.count("\n", 0, start) + 1
        last = first + text.count("\n", start, max(end - 1, start))
        return f"lines {first:,} to {last:,} of {text.count(chr(10), 0, len(text) - 1) + 1:,}"
    return f"characters {start:,} to {end:,} of {len(text):,}"


def _onward(text: str, end: int) -> str:
    if end >= len(text):
        return "this is the end"
    if text[end - 1] == "\n":
        return f"read on with line={text.count(chr(10), 0, end) + 1}"
    return f"read on with offset={end}"


def _beyond(text: str, place: Place) -> str:
    at = f"line {place.line}" if place.offset is None else f"offset {place.offset}"
    lines = text.count("\n", 0, len(text) - 1) + 1
    return f"[there is no {at}: the output has {lines:,} lines, {len(text):,} characters]"


def _hits(text: str, words: str, start: int) -> Iterator[tuple[int, int]]:
    """Give each line with *words*; of a long one what stands around each match."""
    find = find_words([words])
    while (found := next(find(text, start, len(text)), None)) is not None:
        least = max(found[0] - _WIDE // 2, start)
        low = text.rfind("\n", least, found[0]) + 1 or least
        end = text.find("\n", found[1], found[1] + _WIDE)
        high = end if end >= 0 else min(found[1] + _WIDE // 2, len(text))
        yield cut_before(text, low), cut_after(text, high)
        start = max(high, found[1])


def _window(text: str, low: int, high: int) -> str:
    """Return a piece of *text*, and where it begins if that is inside a line."""
    before = f"[offset {low}] … " if low > 0 and text[low - 1] != "\n" else ""
    after = " …" if high < len(text) and text[high] != "\n" else ""
    return f"{before}{text[low:high]}{after}"


def _counted(hits: int) -> str:
    return f"{hits} line{'' if hits == 1 else 's'}"

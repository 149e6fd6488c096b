"""Reading on in a kept text: a page of lines or characters, or the lines that hold some words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.truncation.cuts import after_lines, are_lines, cut_after, cut_before
from toolbus.truncation.notices import position_in
from toolbus.truncation.searches import find_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.truncation.budgets import Budget

_SHARE = 0.7
"""The part of a budget for what is read; the rest is for what is said about it."""

_WIDE = 200
"""Of a longer line a search shows only so many characters around what it matched."""


class PageRequest(Struct, frozen=True):
    """Where to read: from *line*, the first being 1, or from the character *offset* if given.

    At most *lines* lines, None for as many as fit.
    """

    line: int = 1
    offset: int | None = None
    lines: int | None = None

    def __str__(self) -> str:
        return f"line {self.line}" if self.offset is None else f"offset {self.offset}"


def read_page(text: str, request: PageRequest, budget: Budget) -> str:
    """Return a page of *text*, and below it where the next begins."""
    start = _start(text, request)
    if start is None:
        return _beyond(text, request)
    end = budget.part(_SHARE).head(text, start, len(text))
    end = _page_end(text, start, end, request.lines)
    onward = "this is the end" if end >= len(text) else f"read on with {position_in(text, end)}"
    page = text[start:end].removesuffix("\n")
    return f"{page}\n[{_extent(text, start, end)}; {onward}]"


def search(text: str, words: str, request: PageRequest, budget: Budget) -> str:
    """Return the lines of *text* that hold *words*, each after its number.

    Of a long line only what stands around each of its matches.
    """
    start = _start(text, request)
    if start is None:
        return _beyond(text, request)
    budget, shown, hits = budget.part(_SHARE), "", 0
    number, previous = 1, 0
    for low, high in _hits(text, words, start):
        number, previous = number + text.count("\n", previous, low), low
        line = f"{number}: {_window(text, low, high)}\n"
        if hits == request.lines or not budget.fits(shown + line):
            return f"{shown}[{_lines(hits)} with {words!r} so far; search on with offset={low}]"
        shown, hits = shown + line, hits + 1
    return f"{shown}[{_lines(hits)} with {words!r} from {request} to the end]"


def _start(text: str, request: PageRequest) -> int | None:
    """Return where to read from; None if that is beyond the end."""
    if request.offset is not None:
        return cut_before(text, request.offset) if request.offset <= len(text) else None
    lines = request.line - 1
    return None if text.count("\n") < lines else after_lines(text, 0, len(text), lines)


def _page_end(text: str, start: int, end: int, lines: int | None) -> int:
    """Return where a page from *start* ends, at most at *end*: after a whole line, if possible."""
    if lines is not None:
        end = after_lines(text, start, end, lines)
    if end == len(text):
        return end
    after_line = text.rfind("\n", start, end) + 1
    # Each page gets on, also where a character is longer than any page.
    return after_line or max(cut_before(text, end), min(start + 1, len(text)))


def _extent(text: str, start: int, end: int) -> str:
    if are_lines(text, start, end):
        first = text.count("\n", 0, start) + 1
        final = first + text.count("\n", start, max(end - 1, start))
        return f"lines {first:,} to {final:,} of {_line_count(text):,}"
    return f"characters {start:,} to {end:,} of {len(text):,}"


def _beyond(text: str, request: PageRequest) -> str:
    size = f"{_line_count(text):,} lines, {len(text):,} characters"
    return f"[there is no {request}: the output has {size}]"


def _line_count(text: str) -> int:
    return text.count("\n", 0, len(text) - 1) + 1


def _hits(text: str, words: str, start: int) -> Iterator[tuple[int, int]]:
    """Give each line with *words*; of a long one what stands around each match."""
    find = find_words([words])
    while (match := next(find(text, start, len(text)), None)) is not None:
        least = max(match[0] - _WIDE // 2, start)
        low = text.rfind("\n", least, match[0]) + 1 or least
        end = text.find("\n", match[1], match[1] + _WIDE)
        high = end if end >= 0 else min(match[1] + _WIDE // 2, len(text))
        yield cut_before(text, low), cut_after(text, high)
        start = max(high, match[1])


def _window(text: str, low: int, high: int) -> str:
    """Return *text* from *low* to *high*, and where that begins if it is inside a line."""
    before = f"[offset {low}] … " if low > 0 and text[low - 1] != "\n" else ""
    after = " …" if high < len(text) and text[high] != "\n" else ""
    return f"{before}{text[low:high]}{after}"


def _lines(count: int) -> str:
    return f"{count} line{'' if count == 1 else 's'}"

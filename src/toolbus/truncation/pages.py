"""Access to a whole output: the notice for the model, pages of it, and its search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.truncation.cut_texts import after_lines, are_lines, cut, find_words, lines_around

if TYPE_CHECKING:
    from toolbus.truncation.budgets import TextBudget

_SHARE = 0.35
"""The maximum part of a text for a long notice; beyond it, a short one is used."""


class WholeOutput(Struct, frozen=True):
    """A whole output: its *reference* for the tool *reader*, or the *reason* why it has none."""

    reader: str
    reference: str | None = None
    reason: str = "it is not kept"

    def notice(self, facts: str, position: str, size: int) -> str:
        """Return a notice with *facts* and the way to read on, for a text of *size* characters.

        *position* is an argument of the reader.
        """
        if self.reference is None:
            long, short = f"[{facts} The rest cannot be read: {self.reason}.]", f"[{facts}]"
        else:
            call = f'{self.reader}(reference="{self.reference}", '
            ways = f'Read on with {call}{position}), or search with {call}find="…").'
            long, short = f"[{facts} {ways}]", f"[Shortened; {call}{position})]"
        return long if len(long) <= size * _SHARE else short


def start_of(text: str, line: int, offset: int | None) -> int | None:
    """Return the start of *line* in *text*, from 1, or of the character at *offset*, if given.

    Return None for a place beyond the end.
    """
    if offset is not None:
        return cut(text, offset, -1) if offset <= len(text) else None
    return None if text.count("\n") < line - 1 else after_lines(text, 0, len(text), line - 1)


def beyond(text: str, line: int, offset: int | None) -> str:
    """Return the answer for a place beyond the end of *text*."""
    place = f"line {line}" if offset is None else f"offset {offset}"
    size = f"{_line_count(text):,} lines, {len(text):,} characters"
    return f"[there is no {place}: the output has {size}]"


def read_page(text: str, start: int, lines: int | None, budget: TextBudget) -> str:
    """Return a page of *text* from *start*, of at most *lines*, and the start of the next page."""

    def page(size: int) -> str:
        end = _page_end(text, start, min(start + size, len(text)), lines)
        onward = "this is the end" if end == len(text) else f"read on with {position_in(text, end)}"
        shown = text[start:end].removesuffix("\n")
        return f"{shown}\n[{_extent(text, start, end)}; {onward}]"

    return budget.fill(text[start : start + budget.characters], page, str)


def search(text: str, words: str, start: int, lines: int | None, budget: TextBudget) -> str:
    """Return the lines of *text* from *start* on that contain *words*, each after its number.

    Of a long line only the part around each match is shown. At most *lines* are returned.
    """
    place = position_in(text, start).replace("=", " ")
    shown, hits, number, counted = "", 0, 1, 0
    for word in find_words(text, [words], start, len(text)):
        if word[0] < start:
            continue  # It is in a line shown already.
        low, high = lines_around(text, word, (start, len(text)), context=0)
        number, counted = number + text.count("\n", counted, low), low
        line = f"{number}: {_part_of_line(text, low, high)}\n"
        onward = f"[{_lines(hits)} with {words!r} so far; search on with offset={low}]"
        if hits == lines or (hits and not budget.fits(shown + line + onward)):
            return shown + onward
        shown, hits, start = shown + line, hits + 1, max(high, word[1])
    return f"{shown}[{_lines(hits)} with {words!r} from {place} to the end]"


def position_in(text: str, position: int) -> str:
    """Return *position* of *text* as an argument of the reader: a line, or an offset in it."""
    if position == 0 or text[position - 1] == "\n":
        return f"line={text.count(chr(10), 0, position) + 1}"
    return f"offset={position}"


def _page_end(text: str, start: int, end: int, lines: int | None) -> int:
    """Return the end of a page from *start*, at most *end*: after a whole line, if possible."""
    if lines is not None:
        end = after_lines(text, start, end, lines)
    if end == len(text):
        return end
    after_line = text.rfind("\n", start, end) + 1
    # Each page makes progress, even if a character is longer than a page.
    return after_line or max(cut(text, end, -1), min(start + 1, len(text)))


def _extent(text: str, start: int, end: int) -> str:
    if are_lines(text, start, end):
        first = text.count("\n", 0, start) + 1
        final = first + text.count("\n", start, max(end - 1, start))
        return f"lines {first:,} to {final:,} of {_line_count(text):,}"
    return f"characters {start:,} to {end:,} of {len(text):,}"


def _line_count(text: str) -> int:
    return text.count("\n", 0, len(text) - 1) + 1


def _part_of_line(text: str, low: int, high: int) -> str:
    """Return *text* from *low* to *high*, with its offset if it starts inside a line."""
    before = f"[offset {low}] … " if low > 0 and text[low - 1] != "\n" else ""
    after = "" if high == len(text) or text[high - 1] == "\n" else " …"
    return before + text[low:high].removesuffix("\n") + after


def _lines(count: int) -> str:
    return f"{count} line{'' if count == 1 else 's'}"

"""What was found in a text, and the search for candidates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from toolbus.redaction.personal.lines import Line


class PersonalDataMatch(Struct, frozen=True):
    """What stands in a text from *start* to *end*; *value* is the same however it is written."""

    start: int
    end: int
    kind: str
    value: str


Judge: TypeAlias = Callable[[re.Match[str], Line], tuple[str, int] | None]
"""Returns the value of a candidate, and where it ends; None if it is none."""

_GROUPS = 6


def scan(
    pattern: re.Pattern[str], line: Line, kind: str, judge: Judge
) -> Iterator[PersonalDataMatch]:
    """Give what *pattern* matches and *judge* accepts; the others may overlap."""
    position = line.start
    while (match := pattern.search(line.text, position, line.end)) is not None:
        judged = judge(match, line)
        if judged is None:
            position = match.start() + 1
        else:
            value, position = judged
            yield PersonalDataMatch(match.start(), position, kind, value)


def ends_of(match: re.Match[str]) -> Iterator[int]:
    """Give where what *match* found may end: another number may stand right behind it."""
    end = match.end()
    for _ in range(_GROUPS):
        yield end
        cut = match.string.rfind(" ", match.start(), end)
        if cut < 0:
            return
        end = cut


def merged(matches: Iterable[PersonalDataMatch]) -> list[PersonalDataMatch]:
    """Return *matches* in order of place; of those that overlap one, which covers them all.

    It is what the longest of them is, of two as long the first of *matches*.
    """
    chosen: list[PersonalDataMatch] = []
    longest = 0
    for match in sorted(matches, key=lambda match: (match.start, match.start - match.end)):
        size = match.end - match.start
        if not chosen or match.start >= chosen[-1].end:
            chosen.append(match)
            longest = size
            continue
        widest = match if size > longest else chosen[-1]
        start, end = chosen[-1].start, max(chosen[-1].end, match.end)
        chosen[-1] = PersonalDataMatch(start, end, widest.kind, widest.value)
        longest = max(longest, size)
    return chosen

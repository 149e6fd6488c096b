"""What was found in a text, and the search for candidates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec import Struct

from toolbus.redaction.personal.words import Line


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

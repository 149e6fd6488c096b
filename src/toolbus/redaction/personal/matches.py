"""What was found in a text, the search for candidates, and what libraries say of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolbus.redaction.limits import Budget
from toolbus.redaction.personal.lines import Line

if TYPE_CHECKING:
    from toolbus.redaction.limits import ScanLimits
    from toolbus.redaction.personal.readings import TextReading


class PersonalDataMatch(Struct, frozen=True):
    """What stands in a text from *start* to *end*; *value* is the same however it is written.

    *depth* is that of the reading in which it was found.
    """

    start: int
    end: int
    kind: str
    value: str
    depth: int = 0


Judge: TypeAlias = Callable[[re.Match[str], Line], tuple[str, int] | None]
"""Returns the value of a candidate, and where it ends; None if it is none."""

_GROUPS = 6
_REMEMBERED = 50_000


class Appraisal(Budget):
    """The budget of one record's examination, in which libraries are asked about a value once."""

    def __init__(self, limits: ScanLimits) -> None:
        super().__init__(limits)
        self._answers: dict[tuple[Callable[[str], Any], str], Any] = {}

    def ask(self, question: Callable[[str], Any], candidate: str) -> Any:
        """Return what *question* answers to *candidate*, which it is asked once."""
        key = (question, candidate)
        if key not in self._answers:
            self.check()
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            self._answers[key] = question(candidate)
        return self._answers[key]


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

    It is what the deepest of them is, of those the longest, and of two as long the first.
    """
    chosen: list[PersonalDataMatch] = []
    is_alone, size = True, 0
    for match in sorted(matches, key=lambda match: (match.start, match.start - match.end)):
        if not chosen or match.start >= chosen[-1].end or (is_alone and _cleans(match, chosen[-1])):
            if chosen and match.start < chosen[-1].end:
                chosen.pop()
            chosen.append(match)
            is_alone, size = True, match.end - match.start
            continue
        previous = decisive = chosen.pop()
        if (match.depth, match.end - match.start) > (previous.depth, size):
            decisive, size = match, match.end - match.start
        end = max(previous.end, match.end)
        chosen.append(replace(decisive, start=previous.start, end=end))
        is_alone = False
    return chosen


def _cleans(match: PersonalDataMatch, wider: PersonalDataMatch) -> bool:
    """Tell whether *match* is *wider* without what a deeper reading knows to be an escape."""
    return (
        match.kind == wider.kind
        and match.depth > wider.depth
        and wider.start <= match.start
        and match.end <= wider.end
    )


def located(match: PersonalDataMatch, reading: TextReading) -> PersonalDataMatch:
    """Return *match*, which was found in *reading*, where it stands in the text itself."""
    if not reading.depth:
        return match
    start, end = reading.span(match.start, match.end)
    return replace(match, start=start, end=end, depth=reading.depth)

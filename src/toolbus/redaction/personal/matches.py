"""What was found in a text, and the effort that finding may take."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec import Struct

from toolbus.errors import ToolbusError

_REACH = 48
"""How far before a number a word may stand that says what it is."""


_NEAR = 18
"""How near it stands, in signs that are no digits."""

MAX_EFFORT = 1_000_000
"""How much is judged of one result: a candidate that is refused at sight counts as 1."""


class EffortExceededError(ToolbusError):
    """A value has more candidates than are judged; *limit* is how many those are."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(limit)

    def __str__(self) -> str:
        return (
            f"it has more than {self.limit:,} candidates for personal data; it cannot be examined"
        )


class PersonalDataMatch(Struct, frozen=True):
    """What stands in a text from *start* to *end*; *value* is the same however it is written."""

    start: int
    end: int
    kind: str
    value: str


class Effort:
    """Counts what is judged, so that no text takes for ever."""

    def __init__(self, limit: int = MAX_EFFORT) -> None:
        self._limit = self._remaining = limit

    def spend(self, amount: int = 1) -> None:
        """Take *amount* off; raises `EffortExceededError` when nothing is left."""
        self._remaining -= amount
        if self._remaining < 0:
            raise EffortExceededError(self._limit)


class Line(Struct, frozen=True):
    """A piece of *text*, from *start* to *end*, that is searched at once.

    What ends after *sure* may go on behind the piece; the next one has it. *hint* stands before
    the whole text, as a key before its value.
    """

    text: str
    start: int
    end: int
    sure: int
    hint: str = ""

    def says(self, words: re.Pattern[str], position: int) -> bool:
        """Tell whether one of *words* stands before *position*, and no other number between."""
        near, low = self.text[max(position - _NEAR, 0) : position], max(position - _REACH, 0)
        # Most numbers stand behind other numbers, where no word is near.
        if position > _NEAR and near.isascii() and near.upper() == near.lower():
            return False
        before = self.text[low:position]
        if low == 0 and self.hint:
            before = f"{self.hint}: {before}"
        return words.search(before.lower()) is not None


Judge: TypeAlias = Callable[[re.Match[str], Line], tuple[str, int] | None]
"""Returns the value of a candidate, and where it ends; None if it is none."""

_GROUPS = 6


def scan(
    pattern: re.Pattern[str],
    line: Line,
    effort: Effort,
    kind: str,
    judge: Judge,
    *,
    cost: int = 1,
) -> Iterator[PersonalDataMatch]:
    """Give what *pattern* matches and *judge*, at a *cost*, accepts; the others may overlap."""
    position = line.start
    while (match := pattern.search(line.text, position, line.end)) is not None:
        effort.spend(cost)
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


def words_of(*words: str) -> re.Pattern[str]:
    """Return a pattern of *words*, in small letters, with at most a few signs behind them."""
    return re.compile(rf"(?<![a-z])(?:{'|'.join(words)})(?![a-z])[^0-9\n]{{0,{_NEAR - 2}}}\Z")

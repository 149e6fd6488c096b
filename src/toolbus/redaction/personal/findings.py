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

MOST = 1_000_000
"""How much is judged of one result: a candidate that is refused at sight counts as 1."""


class TooMuch(ToolbusError):
    """A value has more candidates than are judged; *most* is how many those are."""

    def __init__(self, most: int) -> None:
        self.most = most
        super().__init__(most)

    def __str__(self) -> str:
        return f"it has more than {self.most:,} candidates for personal data; it cannot be examined"


class Finding(Struct, frozen=True):
    """What stands in a text from *start* to *end*; *value* is the same however it is written."""

    start: int
    end: int
    kind: str
    value: str


class Effort:
    """Counts what is judged, so that no text takes for ever."""

    def __init__(self, most: int = MOST) -> None:
        self._most = self._left = most

    def spend(self, amount: int = 1) -> None:
        """Take *amount* off; raises `TooMuch` when nothing is left."""
        self._left -= amount
        if self._left < 0:
            raise TooMuch(self._most)


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

    def says(self, words: re.Pattern[str], at: int) -> bool:
        """Tell whether one of *words* stands before *at*, and no other number between."""
        near, low = self.text[max(at - _NEAR, 0) : at], max(at - _REACH, 0)
        # Most numbers stand behind other numbers, where no word is near.
        if at > _NEAR and near.isascii() and near.upper() == near.lower():
            return False
        before = self.text[low:at]
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
) -> Iterator[Finding]:
    """Give what *pattern* matches and *judge*, at a *cost*, accepts; the others may overlap."""
    at = line.start
    while (match := pattern.search(line.text, at, line.end)) is not None:
        effort.spend(cost)
        judged = judge(match, line)
        if judged is None:
            at = match.start() + 1
        else:
            value, at = judged
            yield Finding(match.start(), at, kind, value)


def ends_of(match: re.Match[str]) -> Iterator[int]:
    """Give where what *match* found may end: another number may stand right behind it."""
    at = match.end()
    for _ in range(_GROUPS):
        yield at
        cut = match.string.rfind(" ", match.start(), at)
        if cut < 0:
            return
        at = cut


def words_of(*words: str) -> re.Pattern[str]:
    """Return a pattern of *words*, in small letters, with at most a few signs behind them."""
    return re.compile(rf"(?<![a-z])(?:{'|'.join(words)})(?![a-z])[^0-9\n]{{0,{_NEAR - 2}}}\Z")

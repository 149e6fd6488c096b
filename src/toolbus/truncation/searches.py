"""What finds words or a pattern in a text, in time that grows with the text alone."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

from toolbus.errors import RegistrationError
from toolbus.settings.extras import needs_extra

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.truncation.cut_texts import Find, Span

_WINDOW = 1 << 18


def find_words(words: Sequence[str]) -> Find:
    """Return a function that finds *words*, in capitals or not."""
    # A choice of plain words: nothing repeats, so nothing can be tried twice.
    pattern = re.compile("|".join(map(re.escape, words)), re.IGNORECASE)
    small, longest = [word.lower() for word in words], max(map(len, words))

    def find(text: str, start: int, end: int) -> Iterator[Span]:
        for low, high in _windows(text, start, end):
            # Ten times as fast as the pattern, and most windows have no word.
            window = text[low : high + longest - 1].lower()
            if any(word in window for word in small):
                for match in pattern.finditer(text, low, min(high + longest - 1, end)):
                    if match.start() < high:
                        yield match.span()

    return find


def find_pattern(pattern: str) -> Find:
    """Return a function that finds the regular expression *pattern* of RE2, line by line.

    RE2 never goes back (https://github.com/google/re2/wiki/WhyRE2), so a hostile text costs as
    much as any. Raises `RegistrationError` without the extra, and for what is no pattern.
    """
    what = f"pattern {pattern!r}"
    try:
        re2: Any = importlib.import_module("re2")
    except ModuleNotFoundError:
        raise RegistrationError(what, needs_extra("needs RE2", "patterns")) from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 8 << 20
    try:
        compiled = re2.compile(f"(?m){pattern}", options)
    except re2.error as error:
        raise RegistrationError(what, f"is no pattern of RE2: {error}") from None

    def find(text: str, start: int, end: int) -> Iterator[Span]:
        for low, high in _windows(text, start, end):
            for match in compiled.finditer(text[low:high]):
                yield low + match.start(), low + match.end()

    return find


def _windows(text: str, start: int, end: int) -> Iterator[Span]:
    """Give parts of *text* that end with a line, or are as long as a line may be searched."""
    while start < end:
        stop = min(start + _WINDOW, end)
        if stop < end and (newline := text.rfind("\n", start, stop)) > start:
            stop = newline + 1
        yield start, stop
        start = stop

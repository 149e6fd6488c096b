"""Texts without case, accents, invisible characters and look-alikes, and the way back.

Each character has one plain form anywhere, so that a position maps back exactly.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property, lru_cache
from itertools import accumulate
from unicodedata import category, normalize

from toolbus.settings.look_alikes import LATIN_LETTERS
from toolbus.settings.visible_text import is_visible

# Dashes and the like look like word separators, and are none of a host's letters.
_LAST_ASCII = 0x7F
_LETTERS = {
    code: letter for code, letter in LATIN_LETTERS.items() if code > _LAST_ASCII and letter != "_"
}
# RFC 3490, section 3.1: this full stop separates labels of a host as well.
_LETTERS[0x3002] = "."
_OTHER = re.compile(r"[^\x00-\x7f]+")


@lru_cache(maxsize=16_384)
def _plain_form(char: str) -> str:
    """Return the plain form of *char*: letters and digits, and spaces for signs, but no marks."""
    folded = normalize("NFKD", normalize("NFKD", char).casefold())
    letters = [letter for letter in folded.translate(_LETTERS) if not _is_mark(letter)]
    return "".join([each if each.isalnum() or each.isascii() else " " for each in letters])


def _is_mark(letter: str) -> bool:
    is_shown = is_visible(letter) and not category(letter).startswith("M")
    return not is_shown and not letter.isspace()


class PlainText:
    """The plain form of *text*: its compatibility decomposition (NFKD), case folded."""

    def __init__(self, text: str) -> None:
        self._source = text
        if not text.isascii():
            text = _OTHER.sub(lambda run: "".join(map(_plain_form, run[0])), text)
        # Only ASCII letters are not folded yet: one character each before and after.
        self.text = text.lower()

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the text itself of characters *start* to *end* of the plain form."""
        if self._source.isascii():
            return start, end
        # Marks behind the final letter belong to it.
        final = bisect_right(self._ends, end - 1)
        return bisect_right(self._ends, start), max(final + 1, bisect_right(self._ends, end))

    @cached_property
    def _ends(self) -> list[int]:
        """The end in the plain form of each character of the text."""
        sizes = (1 if char.isascii() else len(_plain_form(char)) for char in self._source)
        return [*accumulate(sizes)]

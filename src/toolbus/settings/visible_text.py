r"""Untrusted text for a terminal: every character visible, every row marked as a quotation.

Deceptive characters are written as escapes, such as `\x1b` or `\u202e`, and then each backslash is
doubled: control, bidirectional and other invisible characters; spaces and newlines at the ends, and
spaces at the ends of lines; combining marks without a letter or across one; and look-alikes
(`toolbus.settings.look_alikes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from unicodedata import east_asian_width

from toolbus.settings.look_alikes import alike_places, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ESCAPED = "written with escapes"
_MARK, _GOES_ON = "│ ", "│…"
_NARROWEST, _BRIEF = 6, 48
_NAMED = 3
"""The most look-alikes that a note names."""

_BLANK = (
    *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0xFE00, 0xFE10),
    *range(0xE0000, 0xE1000),
)
"""Invisible characters that Python calls printable: Unicode's Default_Ignorable_Code_Point, and the
empty pattern of Braille."""

_INVISIBLE = frozenset(map(chr, _BLANK))


class VisibleText(NamedTuple):
    r"""A *text* as it is shown, and *notes*, empty if the text is unchanged.

    The notes mention escapes, and name look-alikes: "\u0430 is CYRILLIC SMALL LETTER A".
    """

    text: str
    notes: tuple[str, ...] = ()


def is_visible(char: str) -> bool:
    """Return whether *char* is visible, or the plain space."""
    return char.isprintable() and char not in _INVISIBLE


def make_visible(text: str, *, one_line: bool = False) -> VisibleText:
    """Return *text* as it is shown; newlines within it stay, except in *one_line*."""
    # The notes explain the escapes in the text, so both come from the same places.
    hidden, alike = _hidden_places(text), alike_places(text)
    if one_line and "\n" in text:
        hidden |= {index for index, char in enumerate(text) if char == "\n"}
    places = hidden | alike
    if not places:
        return VisibleText(text)
    shown = "".join(
        [
            _escape(char) if index in places else "\\\\" if char == "\\" else char
            for index, char in enumerate(text)
        ]
    )
    chars = dict.fromkeys([text[index] for index in sorted(alike - hidden)])
    named = [f"{_escape(char)} is {name_of(char)}" for char in [*chars][:_NAMED]]
    rest = [f"and {len(chars) - _NAMED:,} more like these"] if len(chars) > _NAMED else []
    return VisibleText(shown, (ESCAPED, *named, *rest))


def shorten_visible(text: str) -> str:
    """Return *text* in one line; a long text is cut, with its length."""
    line = make_visible(text, one_line=True).text
    return line if len(line) <= _BRIEF else f"{line[:_BRIEF]}… ({len(line):,} characters)"


def quote_rows(text: str, width: int) -> list[str]:
    """Return the visible *text* in rows of at most *width* cells, marked as a quotation.

    "│ " begins a line and "│…" continues it, so that no row looks like our own words. A terminal
    would wrap lines without a mark.
    """
    cells = max(width - len(_MARK), _NARROWEST)
    return [
        f"{_GOES_ON if index else _MARK}{row}"
        for line in text.split("\n")
        for index, row in enumerate(_wrapped(line, cells))
    ]


def _hidden_places(text: str) -> set[int]:
    """Return the indexes of invisible characters, except of newlines within the text."""
    end = len(text.rstrip(" \n"))
    places = {*range(len(text) - len(text.lstrip(" \n"))), *range(end, len(text))}
    start = 0
    for line in text.split("\n"):
        places.update(range(start + len(line.rstrip(" ")), start + len(line)))
        if not line.isprintable() or not line.isascii():
            shows = map(is_visible, line)
            places.update([start + index for index, is_shown in enumerate(shows) if not is_shown])
        start += len(line) + 1
    return places


def _escape(char: str) -> str:
    return "\\x20" if char == " " else char.encode("unicode_escape").decode()


def _wrapped(line: str, cells: int) -> Iterator[str]:
    """Yield *line* in rows of at most *cells* cells; an empty line is one row."""
    start, used = 0, 0
    for place, char in enumerate(line):
        width = 2 if east_asian_width(char) in "WFA" else 1
        if used + width > cells:
            yield line[start:place]
            start, used = place, 0
        used += width
    yield line[start:]

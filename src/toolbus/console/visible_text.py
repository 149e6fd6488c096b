"""Texts of strangers on a terminal: every character visible, every row marked as theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

from toolbus.messages.records import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK, _GOES_ON = "│ ", "│…"
_NARROWEST, _BRIEF = 6, 48
ESCAPED = "written with escapes"


def value_rows(value: Any, width: int) -> tuple[str, list[str]]:
    r"""Return how a JSON *value* is written, "" if as it is, and its rows of *width* cells.

    A text stands as it is, unless a character of it is not printable: then that is written as
    `\x1b`, and a backslash twice. The rows are wrapped here, for a terminal would do so without a
    mark: "│ " begins a line, "│…" goes on with one, so that no text looks as if it were ours.
    """
    text = value if isinstance(value, str) else encode(value).decode()
    lines = text.split("\n")
    note = ""
    if not all(map(str.isprintable, lines)):
        note, lines = ESCAPED, [escape(line) for line in lines]
    cells = max(width - len(_MARK), _NARROWEST)
    rows = [_wrapped(line, cells) for line in lines]
    return note, [
        f"{_GOES_ON if index else _MARK}{row}" for line in rows for index, row in enumerate(line)
    ]


def escape(text: str) -> str:
    r"""Return *text* with `\x1b` and the like for what is not printable, and each backslash twice.

    Directions of writing and other invisible characters are not printable, the space is.
    """
    return "".join(
        [
            "\\\\"
            if char == "\\"
            else char
            if char.isprintable()
            else char.encode("unicode_escape").decode()
            for char in text
        ]
    )


def brief(name: str) -> str:
    """Return *name* with escapes, and cut if it is long: then it says so."""
    text = escape(name) if not name.isprintable() else name
    return text if len(text) <= _BRIEF else f"{text[:_BRIEF]}… ({len(name):,} characters)"


def _wrapped(line: str, cells: int) -> Iterator[str]:
    """Give *line* in rows of at most *cells* cells; an empty line is one row."""
    row, used = "", 0
    for char in line:
        width = 2 if east_asian_width(char) in "WFA" else 1
        if used + width > cells:
            yield row
            row, used = "", 0
        row, used = row + char, used + width
    yield row

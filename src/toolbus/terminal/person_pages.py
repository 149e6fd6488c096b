"""Text that a person is shown to its end, a page at a time, before they are asked about it.

No pager: one that is left early, or that `PAGER` names, has shown who knows what.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.terminal.person import PersonTerminal

# SGR, ECMA-48 8.3.117: the only sequences that our screens write.
_STYLE = re.compile(r"(\x1b\[[\d;]*m)")
_PLAIN = "\x1b[0m"


def show_whole(terminal: PersonTerminal, text: str) -> bool:
    """Show *text*, lines in colour or without; return whether the person saw the last page."""
    rows = list(styled_rows(text.removesuffix("\n"), max(terminal.columns, 2)))
    size = max(terminal.rows - 1, 1)  # The last row is for what is asked there.
    pages = [rows[start : start + size] for start in range(0, len(rows), size)]
    for number, page in enumerate(pages, 1):
        terminal.write("".join([f"{row}\n" for row in page]))
        if number < len(pages):
            place = f"page {number:,} of {len(pages):,}"
            word = terminal.ask(f"{place}; Enter shows the next page, q ends: ")
            if word is None or word.strip():
                return False
    return True


def styled_rows(text: str, cells: int) -> Iterator[str]:
    """Give the lines of *text* in rows of at most *cells* cells, at least 2.

    A line that is broken in the middle of a style goes on in it.
    """
    for line in text.split("\n"):
        row, used, style = "", 0, ""
        for part in _STYLE.split(line):
            if part.startswith("\x1b"):
                row, style = row + part, "" if part == _PLAIN else style + part
                continue
            for char in part:
                width = 2 if east_asian_width(char) in "WFA" else 1
                if used + width > cells:
                    yield f"{row}{_PLAIN}" if style else row
                    row, used = style, 0
                row, used = row + char, used + width
        yield row

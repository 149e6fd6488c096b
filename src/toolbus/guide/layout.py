"""Markdown on a terminal: lines that fit its width, tables in columns, code as it stands.

It knows what our pages are written in, and no more: headings, paragraphs, lists, tables, fenced
code and comments of one line. Code begins at the left edge, so that it can be copied.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from toolbus.terminal.spans import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.terminal.screen import Screen

_FENCE = "```"
_ITEM = re.compile(r"(?:-|\d+\.) ")
# A bar that is escaped belongs to its cell.
_BAR = re.compile(r"(?<!\\)\|")


def write_markdown(screen: Screen, text: str) -> None:
    """Write *text*, the Markdown of a page or of several, to *screen*."""
    for block in _blocks(text):
        if block[0].startswith(_FENCE):
            _write_code(screen, block)
        elif block[0].startswith("#"):
            screen.whole(" ".join(block), style="strong")
        elif block[0].startswith("|"):
            _write_table(screen, block)
        else:
            _write_paragraph(screen, " ".join(map(str.strip, block)))


def _blocks(text: str) -> Iterator[list[str]]:
    """Yield what belongs together as lists of lines, an empty line as [""]."""
    block: list[str] = []
    for line in text.splitlines():
        if block and block[0].startswith(_FENCE):
            block.append(line)
            if line == _FENCE:
                yield block
                block = []
        elif line.startswith("<!--"):
            continue
        elif block and _continues(block, line):
            block.append(line)
        else:
            if block:
                yield block
            block = [line]
    if block:
        yield block


def _continues(block: list[str], line: str) -> bool:
    """Tell whether *line* goes on with *block*, which is no code."""
    if not line or not block[0] or line.startswith(("#", _FENCE)) or block[0].startswith("#"):
        return False
    return line.startswith("|") == block[0].startswith("|") and not _ITEM.match(line)


def _write_code(screen: Screen, block: list[str]) -> None:
    screen.whole(block[0], style="dim")
    for line in block[1:-1]:
        screen.whole(line, style="asked")
    screen.whole(block[-1], style="dim")


def _write_table(screen: Screen, block: list[str]) -> None:
    rows = [_BAR.split(line.strip().strip("|")) for line in block]
    # The second row only says that the first is a heading.
    head, *body = [[cell.strip().replace("\\|", "|") for cell in row] for row in rows]
    screen.table([[Span(cell, "strong") for cell in head], *body[1:]])


def _write_paragraph(screen: Screen, text: str) -> None:
    item = _ITEM.match(text)
    lines = textwrap.wrap(
        text,
        screen.width,
        subsequent_indent=" " * (item.end() if item else 0),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines or [""]:
        screen.whole(line)

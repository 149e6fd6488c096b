"""Markdown on a terminal: wrapped lines, tables in columns, unchanged code.

The subset of our pages is supported: headings, paragraphs, lists, tables, fenced code, and, left
out, comments and pictures of one line. Code begins at the left edge, so that it can be copied.
"""

from __future__ import annotations

import re
import textwrap
from itertools import zip_longest
from typing import TYPE_CHECKING

from toolbus.settings.spans import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.cli.output.screen import Screen

_FENCE = "```"
_ITEM = re.compile(r"(?:-|\d+\.) ")
# An escaped bar belongs to its cell.
_BAR = re.compile(r"(?<!\\)\|")
_GAP, _NARROWEST = 2, 6


def write_markdown(screen: Screen, text: str) -> None:
    """Write *text*, the Markdown of one or more pages, to *screen*."""
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
    """Yield the blocks of *text*, each as a list of lines; an empty line is [""]."""
    block: list[str] = []
    for line in text.splitlines():
        if block and block[0].startswith(_FENCE):
            block.append(line)
            if line == _FENCE:
                yield block
                block = []
        elif line.startswith(("<!--", "![")):
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
    """Return whether *line* continues *block*, which is not code."""
    if not line or not block[0] or line.startswith(("#", _FENCE)) or block[0].startswith("#"):
        return False
    return line.startswith("|") == block[0].startswith("|") and not _ITEM.match(line)


def _write_code(screen: Screen, block: list[str]) -> None:
    screen.whole(block[0], style="dim")
    for line in block[1:-1]:
        screen.whole(line, style="asked")
    screen.whole(block[-1], style="dim")


def _write_table(screen: Screen, block: list[str]) -> None:
    cells = [_BAR.split(line.strip().strip("|")) for line in block]
    # The second row is the line below the heading.
    head, _, *body = [[cell.strip().replace("\\|", "|") for cell in row] for row in cells]
    widths = _column_widths([head, *body], screen.width)
    rows = [line for row in body for line in _wrapped_row(row, widths)]
    strong = [[Span(cell, "strong") for cell in line] for line in _wrapped_row(head, widths)]
    screen.table([*strong, *rows])


def _column_widths(rows: list[list[str]], width: int) -> list[int]:
    """Return widths of columns that fit into *width*; the widest columns are narrowed.

    Words stay whole while another column can be narrowed between its words.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(1, *map(len, column)) for column in columns]
    longest = [max(map(len, " ".join(column).split()), default=0) for column in columns]
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    for narrowest in (longest, [_NARROWEST] * len(widths)):
        while excess > 0:
            wide = [index for index, least in enumerate(narrowest) if widths[index] > least]
            if not wide:
                break
            widths[max(wide, key=widths.__getitem__)] -= 1
            excess -= 1
    return widths


def _wrapped_row(row: list[str], widths: list[int]) -> list[tuple[str, ...]]:
    """Return the lines of *row*, each with one text per column."""
    columns = [
        textwrap.wrap(cell, width, break_on_hyphens=False) or [""]
        for cell, width in zip(row, widths, strict=True)
    ]
    return list(zip_longest(*columns, fillvalue=""))


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

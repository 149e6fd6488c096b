"""Lines and columns for a terminal: plain text, or with the extra `cli` laid out in colour."""

from __future__ import annotations

import os
import shlex
import shutil
import textwrap
from difflib import SequenceMatcher
from io import StringIO
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeAlias

from toolbus.cli.output.stream import Output
from toolbus.settings.spans import Span, Style, sanitize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Rows: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs of lines: before and after a change."""

_NARROWEST, _WIDEST = 40, 110
_BLOCK_LINES = 4
"""The longest block of changed lines that is shown whole."""
_MOST_LINES = 20
"""The lines of a reason that stay apart."""


class Screen:
    """Writes plain text to *output*, prose in lines of *width* characters."""

    def __init__(self, output: Output, width: int) -> None:
        self.width, self._output = width, output

    def line(self, *spans: Span | str, right: Sequence[Span | str] = (), indent: int = 0) -> None:
        """Write one line, with the spans of *right* at its end."""
        self._write(indent, *spans, *(("  ", *right) if right else ()))

    def whole(self, text: str, *, indent: int = 0, style: Style = "") -> None:
        """Write one line of any length uncut, such as a path."""
        self._write(indent, Span(text, style))

    def prose(self, text: str, *, indent: int = 0, style: Style = "") -> None:
        """Write *text*, wrapped at the width of the screen."""
        for line in textwrap.wrap(text, self.width - indent) or [""]:
            self.line(Span(line, style), indent=indent)

    def write_reason(self, text: str, *, indent: int = 0, style: Style = "") -> None:
        """Write the reason *text*, each of its first lines wrapped for itself."""
        for line in text.split("\n", _MOST_LINES):
            self.prose(line, indent=indent, style=style)

    def table(
        self,
        rows: Sequence[Sequence[Span | str]],
        *,
        indent: int = 0,
        numbers: bool = False,
        notes: Sequence[str] = (),
    ) -> None:
        """Write *rows* in aligned columns, each followed by its entry of *notes*.

        *numbers* aligns all columns but the first to the right.
        """
        cells = [[plain(cell) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row, note in zip(cells, notes or [""] * len(cells), strict=True):
            padded = [
                text.rjust(width) if numbers and column else text.ljust(width)
                for column, (text, width) in enumerate(zip(row, widths, strict=True))
            ]
            self._write(indent, "  ".join([*padded, note]))

    def compare(self, rows: Sequence[tuple[str, str]], *, indent: int = 0) -> None:
        """Write the pairs of *rows*: the line before a change, then the line after it."""
        for before, after in rows:
            if before:
                self.line(Span(f"- {before}", "bad"), indent=indent)
            if after:
                self.line(Span(f"+ {after}", "good"), indent=indent)

    def command(self, *words: str) -> None:
        """Write a command on one line, quoted for a shell."""
        self.whole(shlex.join(words), indent=2, style="strong")

    def _write(self, indent: int, *spans: Span | str) -> None:
        self._output.write(f"{' ' * indent}{''.join(map(plain, spans))}".rstrip() + "\n")


def plain(span: Span | str) -> str:
    """Return the text of *span* without control characters."""
    return sanitize(span if isinstance(span, str) else span.text)


def open_screen(output: Output, environ: Mapping[str, str] = os.environ) -> Screen:
    """Return a screen on *output*, laid out if rich is installed, and coloured on a terminal.

    `NO_COLOR` (https://no-color.org) and `FORCE_COLOR` (https://force-color.org) apply.
    """
    columns = shutil.get_terminal_size((80, 24)).columns
    width = max(_NARROWEST, min(columns, _WIDEST))
    try:
        from toolbus.cli.output.rich_screen import RichScreen  # noqa: PLC0415 - rich is an extra
    except ImportError:
        return Screen(output, width)
    coloured = output.is_terminal and environ.get("TERM") != "dumb"
    coloured = (coloured or bool(environ.get("FORCE_COLOR"))) and not environ.get("NO_COLOR")
    return RichScreen(output, width, coloured=coloured)


def painted(rows: Iterable[Span], environ: Mapping[str, str] = os.environ) -> str:
    """Return *rows* as text, uncut, in the colours of a terminal."""
    stream = StringIO()
    screen = open_screen(Output(stream, is_terminal=True), environ)
    for row in rows:
        screen.whole(row.text, style=row.style)
    return stream.getvalue()


def excerpt(before: str, after: str) -> Rows:
    """Return the lines that differ, with long blocks shortened; () for equal texts."""
    old, new = before.splitlines(), after.splitlines()
    rows: list[tuple[str, str]] = []
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            rows += zip_longest(_block(old[i:j]), _block(new[k:m]), fillvalue="")
    return tuple(rows)


def _block(lines: list[str]) -> list[str]:
    if len(lines) <= _BLOCK_LINES:
        return lines
    return [lines[0], f"… {len(lines) - 2:,} more lines", lines[-1]]

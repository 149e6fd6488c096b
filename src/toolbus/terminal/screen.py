"""Text in a terminal: lines that fit its width, in colour where `toolbus[cli]` is installed."""

from __future__ import annotations

import os
import shlex
import shutil
import textwrap
from typing import TYPE_CHECKING

from toolbus.terminal.output import Output
from toolbus.terminal.spans import (
    Paint,
    Span,
    Style,
    cropped,
    joined,
    length,
    shown,
    trimmed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Output", "Screen", "Span", "Style", "UsageError", "open_screen"]

_NARROWEST, _WIDEST = 40, 110


class UsageError(Exception):
    """A command cannot do what it was asked to; its text is one line for the person who asked."""


class Screen:
    """Writes lines of at most *width* cells to *output*; *paint* turns styles into colours."""

    def __init__(self, output: Output, width: int, paint: Paint) -> None:
        self.width, self._output, self._paint = width, output, paint

    def line(self, *pieces: Span | str, right: Sequence[Span | str] = (), indent: int = 0) -> None:
        """Write one line, cropped to fit; what is *right* ends at the right edge."""
        tail = shown(right)
        room = self.width - indent - (length(tail) + 2 if tail else 0)
        head = cropped(shown(pieces), room)
        gap = self.width - indent - length(head) - length(tail) if tail else 0
        self._write([Span(" " * indent), *head, Span(" " * gap), *tail])

    def whole(self, text: str, *, indent: int = 0) -> None:
        """Write one line as it is, however long: a path that is cut leads nowhere."""
        self._write([Span(" " * indent), *shown([text])])

    def prose(self, text: str, *, indent: int = 0, style: Style = "") -> None:
        """Write *text* over as many lines as it takes."""
        for line in textwrap.wrap(text, self.width - indent) or [""]:
            self.line(Span(line, style), indent=indent)

    def table(
        self,
        rows: Sequence[Sequence[Span | str]],
        *,
        indent: int = 0,
        numbers: bool = False,
        notes: Sequence[str] = (),
    ) -> None:
        """Write *rows* in aligned columns.

        *numbers* moves all columns but the first to the right. Of *notes* there is one for each
        row, at the right edge, a line lower where the row leaves no room.
        """
        cells = [[shown([cell]) for cell in row] for row in rows]
        widths = [max(map(length, column)) for column in zip(*cells, strict=True)]
        for row, note in zip(cells, notes or [""] * len(cells), strict=True):
            pieces: list[Span] = []
            for at, (cell, width) in enumerate(zip(row, widths, strict=True)):
                pad = Span(" " * (width - length(cell)))
                pieces += [pad, *cell] if numbers and at else [*cell, pad]
                pieces.append(Span("  "))
            tail = [Span(note, "dim")] if note else []
            if note and indent + length(trimmed(pieces)) + 2 + len(note) > self.width:
                self.line(*pieces, indent=indent)
                pieces = []
            self.line(*trimmed(pieces), right=tail, indent=indent)

    def compare(self, rows: Sequence[tuple[str, str]], *, indent: int = 0) -> None:
        """Write *rows* side by side, what was before left of what came after.

        A single row that is too long for that stands on two lines.
        """
        room = (self.width - indent - 3) // 2
        if len(rows) == 1 and max(map(len, rows[0])) > room:
            self.line(Span(f"- {rows[0][0]}", "bad"), indent=indent)
            self.line(Span(f"+ {rows[0][1]}", "good"), indent=indent)
            return
        for before, after in rows:
            start = _first_difference(before, after)
            left = cropped(shown([Span(_from(before, start, room), "bad")]), room)
            right = cropped(shown([Span(_from(after, start, room), "good")]), room)
            pad = Span(" " * (room - length(left)))
            self._write([Span(" " * indent), *left, pad, Span(" │ ", "dim"), *right])

    def command(self, *words: str, indent: int = 2) -> None:
        """Write a command that can be copied, with a backslash at the end of what is too long."""
        line = " " * indent
        for at, word in enumerate(words):
            # Two cells are kept for the backslash.
            if at and len(line) + len(shlex.quote(word)) + 2 > self.width:
                self._write([Span(f"{line}\\", "strong")])
                line = " " * (indent + 4)
            line += f"{shlex.quote(word)} "
        self._write([Span(line, "strong")])

    def _write(self, pieces: Sequence[Span]) -> None:
        self._output.write(f"{self._paint(pieces).rstrip()}\n")


def open_screen(output: Output, environ: Mapping[str, str] = os.environ) -> Screen:
    """Return a screen on *output*: coloured on a terminal, if rich is there and nothing forbids it.

    `NO_COLOR` (https://no-color.org) and `FORCE_COLOR` (https://force-color.org) are heeded.
    """
    width = shutil.get_terminal_size((80, 24)).columns
    wanted = output.is_terminal and environ.get("TERM") != "dumb"
    wanted = (wanted or bool(environ.get("FORCE_COLOR"))) and not environ.get("NO_COLOR")
    paint = _colours() if wanted else None
    return Screen(output, max(_NARROWEST, min(width, _WIDEST)), paint or joined)


def _colours() -> Callable[[Sequence[Span]], str] | None:
    try:
        from toolbus.terminal.colours import paint  # noqa: PLC0415 - rich is an extra
    except ImportError:
        return None
    return paint


def _first_difference(before: str, after: str) -> int:
    pairs = zip(before, after, strict=False)
    return next((at for at, (old, new) in enumerate(pairs) if old != new), 0)


def _from(text: str, start: int, room: int) -> str:
    """Leave out the beginning of *text* if what differs, at *start*, would not be seen."""
    lead = room // 2
    return f"…{text[start - lead + 1 :]}" if start > room - lead // 2 and text else text

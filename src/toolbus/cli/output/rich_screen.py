"""A screen by rich: lines and tables that fit the terminal's width, in colour."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from toolbus.cli.output.screen import Screen, plain
from toolbus.settings.spans import Span, Style, sanitize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import JustifyMethod

    from toolbus.cli.output.stream import Output

# The terminal's own sixteen colours suit its background.
_COLOURS: dict[Style, str] = {
    "": "",
    "good": "green",
    "bad": "red",
    "changed": "yellow",
    "asked": "cyan",
    "dim": "bright_black",
    "strong": "bold",
}

_GAP = 2


class RichScreen(Screen):
    """A screen that cuts lines at *width* cells with an ellipsis."""

    def __init__(self, output: Output, width: int, *, coloured: bool) -> None:
        super().__init__(output, width)
        # Rich reads nothing else from the environment, and writes nothing itself: it would end the
        # process when the reader has left.
        self._console = Console(
            file=StringIO(),
            width=width,
            color_system="standard" if coloured else None,
            force_terminal=coloured,
            highlight=False,
            _environ={},
        )

    def line(self, *spans: Span | str, right: Sequence[Span | str] = (), indent: int = 0) -> None:
        """Write one line, with the spans of *right* at the right edge."""
        text, tail = _text(" " * indent, *spans), _text(*right)
        width = self.width - (tail.cell_len + _GAP if tail else 0)
        text.truncate(max(width, 1), overflow="ellipsis", pad=bool(tail))
        self._print(text.append("  ").append_text(tail) if tail else text)

    def table(
        self,
        rows: Sequence[Sequence[Span | str]],
        *,
        indent: int = 0,
        numbers: bool = False,
        notes: Sequence[str] = (),
    ) -> None:
        """Write *rows* in aligned columns, the widest wrapped or cut to fit.

        *Notes* are at the right edge, on the next line if the row is too long.
        """
        # The widths of all cells decide where a note fits, so columns and notes share them.
        cells = [[_text(cell) for cell in row] for row in rows]
        widths = [max([cell.cell_len for cell in column]) for column in zip(*cells, strict=True)]
        space = self.width - indent - sum([width + _GAP for width in widths[:-1]])
        table = Table.grid(padding=(0, _GAP, 0, 0))
        for column in range(len(widths)):
            justify: JustifyMethod = "right" if numbers and column else "left"
            table.add_column(justify=justify, overflow="ellipsis")
        for row, note in zip(cells, notes or [""] * len(cells), strict=True):
            table.add_row(*row[:-1], _annotate(row[-1], note, space))
        self._print(Padding(table, (0, 0, 0, indent)))

    def compare(self, rows: Sequence[tuple[str, str]], *, indent: int = 0) -> None:
        """Write *rows* side by side: before a change on the left, after it on the right.

        A single row that is too long takes two lines.
        """
        width = (self.width - indent - 3) // 2
        if len(rows) == 1 and max(map(len, rows[0])) > width:
            super().compare(rows, indent=indent)
            return
        table = Table.grid()
        for columns in (width, 3, width):
            table.add_column(width=columns, no_wrap=True, overflow="ellipsis")
        for before, after in rows:
            start = _first_difference(before, after)
            old, new = (_from(text, start, width) for text in (before, after))
            table.add_row(
                _text(Span(old, "bad")), _text(Span(" │", "dim")), _text(Span(new, "good"))
            )
        self._print(Padding(table, (0, 0, 0, indent)))

    def _write(self, indent: int, *spans: Span | str) -> None:
        self._print(_text(" " * indent, *spans))

    def _print(self, content: RenderableType) -> None:
        if isinstance(content, Text) and self._console.color_system is None:
            # Most lines are plain text, for which a console takes six times as long.
            self._output.write(f"{content.plain.rstrip()}\n")
            return
        with self._console.capture() as capture:
            self._console.print(content, soft_wrap=isinstance(content, Text))
        self._output.write("".join([f"{line.rstrip()}\n" for line in capture.get().splitlines()]))


def _text(*spans: Span | str) -> Text:
    text = Text()
    for span in spans:
        text.append(plain(span), "" if isinstance(span, str) else _COLOURS[span.style])
    return text


def _annotate(cell: Text, note: str, space: int) -> Text:
    """Return *cell* with *note* at the end of *space* cells, or of the line below."""
    gap = space - cell.cell_len - len(note)
    if note:
        cell.append(" " * gap if gap >= _GAP else "\n" + " " * (space - len(note)))
    return cell.append(sanitize(note), _COLOURS["dim"])


def _first_difference(before: str, after: str) -> int:
    pairs = enumerate(zip(before, after, strict=False))
    return next((index for index, (old, new) in pairs if old != new), 0)


def _from(text: str, start: int, width: int) -> str:
    """Return *text* without its beginning if the difference at *start* would be cut off."""
    lead = width // 2
    return f"…{text[start - lead + 1 :]}" if start > width - lead // 2 and text else text

"""The pages of a question at a terminal, and the part of them that the person has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from toolbus.approvals.display import line_rows, question_rows
from toolbus.cli.output.screen import painted
from toolbus.settings.spans import Span
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolbus.approvals.questions import Question
    from toolbus.cli.questions.keyboard import Keyboard
    from toolbus.presence.person import PersonTerminal

_LEAST_COLUMNS, _LEAST_ROWS = 20, 6
_LEAST_PAGE = 2
"""The fewest rows of the question on a page."""


class PageAsks(NamedTuple):
    """The prompts below the last page and below each page before it."""

    final: str
    next: str = "Enter shows the next page [n, n and a reason, ? for more] "


ASKS = PageAsks("approve? [y, n, n and a reason, ? for more] ")


class QuestionPages:
    """Shows *question* at *terminal*, a page at a time, each ending in a prompt of *asks*.

    *notes* returns rows of the caller for a width; they are above the origin of the question, which
    needs no *place* at the terminal of its own agent.
    """

    def __init__(
        self,
        terminal: PersonTerminal | Keyboard,
        question: Question,
        asks: PageAsks = ASKS,
        notes: Callable[[int], Sequence[Span]] = lambda _: (),
        *,
        place: bool = True,
        details: bool = False,
    ) -> None:
        self.question, self._place = question, place
        self._terminal, self._asks, self._notes = terminal, asks, notes
        self._details = details
        self._pages: Sequence[Sequence[Span]] = ()
        self._columns = self._rows = self._shown = 0
        self.restart()

    def restart(self, *, details: bool = False) -> None:
        """Begin with the first page in the terminal's current size, from now on with *details*."""
        self._details = self._details or details
        self._columns, self._rows = self._terminal.columns, self._terminal.rows
        height = page_height(self._rows, self._columns, *self._asks)
        notes = self._notes(self._columns)
        rows = question_rows(
            self.question, self._columns, notes, place=self._place, details=self._details
        )
        self._pages, self._shown = split_pages(rows, height), 0

    def show_next(self) -> None:
        """Show the next page, if there is one; raises `UsageError` in a terminal too small."""
        if self.is_seen:
            return
        columns, rows = self._terminal.columns, self._terminal.rows
        if columns < _LEAST_COLUMNS or rows < _LEAST_ROWS:
            size = f"{columns} columns and {rows} rows"
            reason = f"the terminal is too small to show a question ({size}); make it larger"
            raise UsageError(reason)
        if self._has_shrunk:
            self.restart()
        self._terminal.write(painted(self._pages[self._shown]))
        self._shown += 1

    def say(self, text: str) -> None:
        """Write *text*, our own words, in rows of the terminal's width."""
        rows = line_rows(text, self._terminal.columns)
        self._terminal.write("".join([f"{row.text}\n" for row in rows]))

    @property
    def asks(self) -> str:
        """The prompt below the current page."""
        return self._asks.final if self.is_seen else self._asks.next

    @property
    def is_seen(self) -> bool:
        """Whether all pages were shown, in a terminal no larger than it is now."""
        return self._shown == len(self._pages) and not self._has_shrunk

    @property
    def _has_shrunk(self) -> bool:
        # A terminal wraps rows without a mark, and scrolls: the part that was seen is unknown.
        return self._terminal.columns < self._columns or self._terminal.rows < self._rows


def split_pages(rows: Sequence[Span], height: int) -> list[list[Span]]:
    """Return *rows* in pages of less than *height* rows, with headings if there are several.

    One row of each page is left free for a prompt: see `page_height`.
    """
    size = max(height - 2, _LEAST_PAGE)
    parts = [list(rows[start : start + size]) for start in range(0, len(rows), size)]
    if len(parts) == 1:
        return parts
    count = len(parts)
    return [
        [Span(f"page {number:,} of {count:,}", "dim"), *part]
        for number, part in enumerate(parts, 1)
    ]


def page_height(rows: int, columns: int, *asks: str) -> int:
    """Return the height of a page above one of the prompts *asks*, in a terminal of that size.

    A prompt of several rows would scroll the first rows of a higher page out of sight.
    """
    # The typed answer needs a cell, too.
    return rows - max(len(ask) // columns for ask in asks)

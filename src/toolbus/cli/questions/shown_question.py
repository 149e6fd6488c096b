"""A question on the pages of a terminal, and how much of it the person has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.approvals.display import label_rows, line_rows, question_rows
from toolbus.cli.output.screen import painted
from toolbus.cli.questions.typed_answers import check_room
from toolbus.settings.spans import Span
from toolbus.settings.usage_error import UsageError
from toolbus.settings.visible_text import brief

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.approvals.questions import Question
    from toolbus.cli.questions.edits import FileEdit
    from toolbus.cli.questions.keyboard import Keyboard
    from toolbus.cli.questions.typed_answers import TypedAnswer

ASKS_WHOLE = "approve? [y, n, n and a reason, ? for more] "
ASKS_NEXT = "Enter shows the next page [n, n and a reason, ? for more] "
"""What the person is asked below a page."""

_LEAST_ROWS = 2
"""Rows of the question on a page, at least."""

_NOT_SEEN = "a yes is taken once all of it was shown; Enter shows the next page"
_UNCLEAR = "that is no answer; ? says which there are"


class ShownQuestion:
    """Shows *question* at the terminal of *keyboard*, a page at a time.

    Beside what every channel shows of it there is which handlers, *changers*, changed the call,
    and what an *edit* makes of its file.
    """

    def __init__(
        self, keyboard: Keyboard, question: Question, changers: list[str], edit: FileEdit | None
    ) -> None:
        self._keyboard, self._question = keyboard, question
        self._changers, self._edit = changers, edit
        self._pages: tuple[tuple[Span, ...], ...] = ()
        self._columns = self._rows = self._shown = 0
        self.restart()

    def restart(self) -> None:
        """Begin with the first page, as wide and high as the terminal is now."""
        self._columns, self._rows = self._keyboard.columns, self._keyboard.rows
        notes = tuple(self._notes(self._columns))
        height = page_height(self._rows, self._columns, ASKS_WHOLE, ASKS_NEXT)
        self._pages = question_pages(self._question, self._columns, height, notes=notes)
        self._shown = 0

    def show_next(self) -> None:
        """Show the next page, if there is one; raises `UsageError` where none can be shown."""
        if self.is_seen:
            return
        check_room(self._keyboard.columns, self._keyboard.rows)
        if self._has_shrunk:
            self.restart()
        page = self._pages[self._shown]
        self._keyboard.write(painted(page))
        self._shown += 1

    def respond(self, typed: TypedAnswer, help_text: str) -> None:
        """Show what was *typed* for, or say why it is no answer."""
        match typed.meaning:
            case "next" | "again":
                if typed.meaning == "again":
                    self.restart()
                try:
                    self.show_next()
                except UsageError as error:
                    self.say(str(error))
            case "yes" if not self.is_seen:
                self.say(_NOT_SEEN)
            case "help":
                self._keyboard.write(help_text)
            case "unclear":
                self.say(typed.reason or _UNCLEAR)

    def say(self, text: str) -> None:
        """Write a sentence of ours."""
        rows = line_rows(text, self._keyboard.columns)
        self._keyboard.write("".join([f"{row.text}\n" for row in rows]))

    @property
    def asks(self) -> str:
        """What the person is asked below the page that is shown."""
        return ASKS_WHOLE if self.is_seen else ASKS_NEXT

    @property
    def is_seen(self) -> bool:
        """Whether all of it was shown, in a terminal as large as it is now."""
        return self._shown == len(self._pages) and not self._has_shrunk

    @property
    def _has_shrunk(self) -> bool:
        # A terminal wraps rows without a mark, and scrolls: what was seen is not known.
        return self._keyboard.columns < self._columns or self._keyboard.rows < self._rows

    def _notes(self, width: int) -> Iterator[Span]:
        if self._question.requested_arguments is not None:
            who = ", ".join(self._changers) or "the tool's schema"
            yield from label_rows("changed by", who, width)
        edit = self._edit
        if edit is None:
            return
        yield from line_rows(f"what becomes of the file: {edit.summary}", width, "changed")
        for name, text in (("why", edit.problem), ("difference", edit.difference)):
            if text:
                yield from label_rows(name, text, width)


def question_pages(
    question: Question,
    width: int = 80,
    height: int = 24,
    consequence: str = "",
    notes: Sequence[Span] = (),
) -> tuple[tuple[Span, ...], ...]:
    """Return *question* in pages of less than *height* rows, each of at most *width* cells.

    A row of each is left free, for what the person is asked there: see `page_height`. The last one
    ends with the *notes*, rows of whoever asks, with the digest that an answer must name, and with
    what more than this call a yes allows, the *consequence*.
    """
    rows = [*question_rows(question, width, notes), *line_rows(consequence, width, "changed")]
    size = max(height - 2, _LEAST_ROWS)
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    name = f"question {brief(question.id)}, "
    pages = []
    for number, part in enumerate(parts, 1):
        place = f"page {number:,} of {len(parts):,}"
        heading = f"{name}{place}" if len(name) + len(place) <= width else place
        pages.append((Span(heading, "dim"), *part))
    return tuple(pages)


def page_height(rows: int, columns: int, *asks: str) -> int:
    """Return the height of pages below which a person is asked *asks* in a terminal of that size.

    It would scroll their first rows out of sight for those that an ask needs beyond one.
    """
    # What is typed behind it needs a cell, too.
    return rows - max(len(ask) // columns for ask in asks)

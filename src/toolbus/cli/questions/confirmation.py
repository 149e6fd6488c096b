"""Confirmation of a command's changes by the person at the terminal."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING, TypeAlias
from unicodedata import east_asian_width

from toolbus.cli.output.screen import Screen, open_screen
from toolbus.cli.output.stream import Output
from toolbus.cli.questions.typed_answers import YES
from toolbus.errors import ToolbusError
from toolbus.presence.person import person_terminal
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from toolbus.presence.person import PersonTerminal

Page: TypeAlias = Callable[[Screen, bool], None]
"""Writes a command's changes to a screen: a summary, or with True every line."""

# SGR, ECMA-48 8.3.117: the only sequences that our screens write.
_STYLE = re.compile(r"(\x1b\[[\d;]*m)")
_PLAIN = "\x1b[0m"


class DeclinedError(ToolbusError):
    """The person declined, so the command changed nothing."""

    def __str__(self) -> str:
        return "declined; nothing was written"


def confirm_page(
    page: Page, output: Output, options: argparse.Namespace, *, is_needed: bool
) -> bool:
    """Show *page*, and return whether the changes are to be written.

    The *options* `yes`, `dry_run` and `json` apply; without `yes` the person at the terminal is
    asked. Raises `DeclinedError` after a no, `UsageError` where no person can be asked.
    """
    is_written = is_needed and not options.dry_run
    if is_written and not options.yes:
        require_answers(as_json=options.json)
        if not _agrees(page):
            raise DeclinedError
    elif not options.json:
        page(open_screen(output), options.dry_run)
    return is_written


def require_answers(*, as_json: bool = False) -> None:
    """Raise `UsageError` where no person can be asked, as for a JSON document."""
    if as_json or not sys.stderr.isatty():
        raise UsageError("nothing was written: no person can be asked here; add --yes")


def ask_yes_no(terminal: PersonTerminal, text: str, *, default: bool = False) -> bool:
    """Return the answer to *text*; Enter is *default*. Raises `DeclinedError` at the end of input.

    Wrapped here, because a terminal would break words; paths in it stay whole.
    """
    question = f"{text} {'[Y/n]' if default else '[y/N]'}"
    width = max(terminal.columns - 2, 40)
    rows = textwrap.wrap(question, width, break_long_words=False, break_on_hyphens=False)
    word = terminal.ask(f"{chr(10).join(rows)} ")
    if word is None:
        raise DeclinedError
    return word.strip().lower() in YES if word.strip() else default


def _agrees(page: Page) -> bool:
    """Show *page* at the terminal, wherever the output goes, and ask; "v" shows every line."""
    with person_terminal() as terminal:
        if not show_whole(terminal, _rendered(page, whole=False)):
            return False
        while True:
            answer = (terminal.ask("write this? [y/N, v shows every line] ") or "").strip().lower()
            if answer != "v":
                return answer in YES
            if not show_whole(terminal, _rendered(page, whole=True)):
                return False


def _rendered(page: Page, *, whole: bool) -> str:
    text = StringIO()
    page(open_screen(Output(text, is_terminal=True)), whole)
    return text.getvalue()


def show_whole(terminal: PersonTerminal, text: str) -> bool:
    """Show *text*, whose lines may be styled; return whether the person saw the last page.

    This is not `PAGER`: a pager may end early, so it is unknown what it has shown.
    """
    rows = list(styled_rows(text.removesuffix("\n"), max(terminal.columns, 2)))
    size = max(terminal.rows - 1, 1)  # The last row is for the prompt.
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
    """Yield the lines of *text* in rows of at most *cells* cells, at least 2.

    A style continues in the next row of a broken line.
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

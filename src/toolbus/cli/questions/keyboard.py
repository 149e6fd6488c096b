"""Lines that a person types at the terminal, read without blocking the event loop."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from toolbus.presence.person import person_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.cli.output.stream import Output
    from toolbus.presence.person import PersonTerminal

INTERRUPT = "\x03"
"""The line returned for Ctrl-C; it cannot be typed."""


class Keyboard:
    """Prompts at *terminal* without blocking the loop; a lost terminal returns no lines."""

    def __init__(self, terminal: PersonTerminal) -> None:
        self.terminal = terminal
        self._line: asyncio.Future[str | None] | None = None

    @property
    def columns(self) -> int:
        """The width of the terminal; 80 if unknown."""
        return self.terminal.columns

    @property
    def rows(self) -> int:
        """The height of the terminal; 24 if unknown."""
        return self.terminal.rows

    def write(self, text: str) -> None:
        """Write *text* unchanged."""
        with suppress(OSError):
            self.terminal.write(text)

    async def ask(self, prompt: str) -> str | None:
        """Return the line typed after *prompt*, None at the end, `INTERRUPT` for Ctrl-C."""
        loop = asyncio.get_running_loop()
        try:
            self.terminal.begin(prompt)
        except OSError:
            return None
        self._line = loop.create_future()
        loop.add_reader(self.terminal, self._read)
        try:
            return await self._line
        except asyncio.CancelledError:
            self.write("\n")  # The next text begins on a new line.
            raise
        finally:
            loop.remove_reader(self.terminal)
            self._line = None

    def interrupt(self) -> bool:
        """Answer the open prompt with Ctrl-C; return whether there is one."""
        if self._line is None or self._line.done():
            return False
        self.write("\n")
        self._line.set_result(INTERRUPT)
        return True

    def _read(self) -> None:
        line = None
        with suppress(OSError):
            line = self.terminal.read_line()
        if line is None:
            self.write("\n")  # The input ended without a newline.
        if self._line is not None and not self._line.done():
            self._line.set_result(line)


def is_at_terminal(output: Output) -> bool:
    """Return whether a person is at standard input and reads *output*."""
    return sys.stdin is not None and sys.stdin.isatty() and output.is_terminal


@contextmanager
def open_keyboard(output: Output) -> Iterator[Keyboard | None]:
    """Yield the keyboard of the person at the terminal of *output*; None without a terminal.

    Raises `NotInteractiveError` at a terminal below an agent.
    """
    if not is_at_terminal(output):
        yield None
        return
    with person_terminal() as terminal:
        yield Keyboard(terminal)

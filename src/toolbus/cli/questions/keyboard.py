"""Answers that a person types at their terminal, while the event loop goes on."""

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
"""The line that stands for Ctrl-C, which nobody can type as one."""


class Keyboard:
    """Asks at *terminal* without holding up the loop; one that is gone says nothing more."""

    def __init__(self, terminal: PersonTerminal) -> None:
        self._terminal = terminal
        self._line: asyncio.Future[str | None] | None = None

    @property
    def terminal(self) -> PersonTerminal:
        """The terminal at which it asks."""
        return self._terminal

    @property
    def columns(self) -> int:
        """How wide the terminal is; 80 if it does not say."""
        return self._terminal.columns

    @property
    def rows(self) -> int:
        """How many rows the terminal has; 24 if it does not say."""
        return self._terminal.rows

    def write(self, text: str) -> None:
        """Write *text* as it is."""
        with suppress(OSError):
            self._terminal.write(text)

    async def ask(self, prompt: str) -> str | None:
        """Return the line that is typed after *prompt*, None at its end, `INTERRUPT` for Ctrl-C."""
        loop = asyncio.get_running_loop()
        try:
            self._terminal.begin(prompt)
        except OSError:
            return None
        self._line = loop.create_future()
        loop.add_reader(self._terminal, self._read)
        try:
            return await self._line
        except asyncio.CancelledError:
            self.write("\n")  # What is said next begins a line.
            raise
        finally:
            loop.remove_reader(self._terminal)
            self._line = None

    def interrupt(self) -> bool:
        """Answer what is asked with Ctrl-C, and return whether something is."""
        if self._line is None or self._line.done():
            return False
        self.write("\n")
        self._line.set_result(INTERRUPT)
        return True

    def _read(self) -> None:
        line = None
        with suppress(OSError):
            line = self._terminal.read_line()
        if line is None:
            self.write("\n")  # Nobody typed the end of this line.
        if self._line is not None and not self._line.done():
            self._line.set_result(line)


def is_at_terminal(output: Output) -> bool:
    """Tell whether somebody types here, and reads *output*."""
    return sys.stdin is not None and sys.stdin.isatty() and output.is_terminal


@contextmanager
def open_keyboard(output: Output) -> Iterator[Keyboard | None]:
    """Give that of the person at whose terminal *output* is; None if it is at none.

    Raises `NotInteractiveError` if it is a terminal in which an agent runs.
    """
    if not is_at_terminal(output):
        yield None
        return
    with person_terminal() as terminal:
        yield Keyboard(terminal)

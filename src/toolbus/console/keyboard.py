"""Answers that a person types at a terminal, while the event loop goes on."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolbus.terminal.output import Output

_LONGEST = 4_096
"""Bytes of a line; a terminal has no longer ones."""


class Keyboard:
    """The terminal of the descriptor *descriptor*; what is asked there is written to *output*."""

    def __init__(self, descriptor: int, output: Output) -> None:
        self._descriptor, self._output = descriptor, output
        self._line: asyncio.Future[str | None] | None = None

    @property
    def columns(self) -> int:
        """How wide the terminal is; 80 if it does not say."""
        return os.get_terminal_size(self._descriptor).columns or 80

    @property
    def rows(self) -> int:
        """How many rows the terminal has; 24 if it does not say."""
        return os.get_terminal_size(self._descriptor).lines or 24

    async def ask(self, prompt: str) -> str | None:
        """Return the line that is typed after *prompt*; None if the person ends or interrupts it.

        What was typed before the question could be seen is no answer to it.
        """
        loop = asyncio.get_running_loop()
        self._line = loop.create_future()
        termios.tcflush(self._descriptor, termios.TCIFLUSH)
        loop.add_reader(self._descriptor, self._read)
        self._output.write(prompt)
        try:
            return await self._line
        finally:
            loop.remove_reader(self._descriptor)
            self._line = None

    def interrupt(self) -> bool:
        """End the question that waits, and return whether there was one."""
        if self._line is None or self._line.done():
            return False
        self._output.write("\n")
        self._line.set_result(None)
        return True

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _LONGEST)
        except OSError:
            data = b""  # The terminal is gone.
        if self._line is not None and not self._line.done():
            text = data.decode(errors="replace")
            self._line.set_result(text.rstrip("\r\n") if text else None)


def find_keyboard(output: Output) -> Keyboard | None:
    """Return that of the terminal where *output* is, None if nobody can be asked there."""
    if not (sys.stdin.isatty() and output.is_terminal):
        return None
    return Keyboard(sys.stdin.fileno(), output)

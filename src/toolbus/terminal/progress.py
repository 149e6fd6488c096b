"""How far a long command is, on a terminal; nowhere else."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.terminal.output import Output

_CELLS = 24
_PAUSE = 0.1
"""Seconds between two drawings."""


class ProgressLine:
    """A line at the bottom of *output*, drawn again and again; `hide` it before other text."""

    def __init__(self, output: Output, *, clock: Callable[[], float] = monotonic) -> None:
        self._output, self._clock, self._length = output, clock, 0
        # Nothing is drawn for a short input, nor where nobody looks.
        self._next = clock() + 5 * _PAUSE if output.is_terminal else float("inf")

    def show(self, text: str, done: float | None = None) -> None:
        """Draw *text*, if it is time, behind a bar of how much is *done*, from 0 to 1, if known."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + _PAUSE
        if done is not None:
            full = round(done * _CELLS)
            text = f"[{'#' * full}{'.' * (_CELLS - full)}] {done:4.0%}  {text}"
        text = "".join([letter if letter.isprintable() else "?" for letter in text])
        self._output.write(f"\r{text:<{self._length}}")
        self._length = len(text)

    def hide(self) -> None:
        """Take the line away."""
        if self._length:
            self._output.write(f"\r{' ' * self._length}\r")
            self._length = 0

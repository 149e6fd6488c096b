"""How far a long replay is, on a terminal; nowhere else."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.terminal.output import Output

_CELLS = 24
_PAUSE = 0.1
"""Seconds between two drawings."""


class Progress:
    """A line at the bottom of *output*, drawn again and again; `hide` it before other text."""

    def __init__(self, output: Output, *, clock: Callable[[], float] = monotonic) -> None:
        self._output, self._clock = output, clock
        self._wanted, self._shown = output.is_terminal, 0
        # Nothing is drawn for a short input.
        self._next = clock() + 5 * _PAUSE

    def show(self, name: str, done: float | None, messages: int) -> None:
        """Draw the line, if it is time: the part of *name* that is *done*, and a count."""
        if not self._wanted or self._clock() < self._next:
            return
        self._next = self._clock() + _PAUSE
        count = f"{messages:,} messages  {name[-30:]}"
        if done is None:
            text = count
        else:
            full = round(done * _CELLS)
            text = f"[{'#' * full}{'.' * (_CELLS - full)}] {done:4.0%}  {count}"
        text = "".join([one if one.isprintable() else "?" for one in text])
        pad = " " * max(0, self._shown - len(text))
        self._output.write(f"\r{text}{pad}")
        self._shown = len(text)

    def hide(self) -> None:
        """Take the line away."""
        if self._shown:
            self._output.write(f"\r{' ' * self._shown}\r")
            self._shown = 0

"""The output stream of a command, and a progress line."""

from __future__ import annotations

import select
import sys
from contextlib import contextmanager
from errno import EPIPE
from threading import Timer
from time import monotonic
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CELLS = 24
_PAUSE = 0.1
"""Seconds between two drawings."""
# ASCII for streams without these characters.
_PLAIN = str.maketrans(
    {"…": "~", "│": "|", "·": "-", "→": "->", "✓": "+", "✗": "x", "─": "-", "µ": "u"}
)


class Output:
    """A writer to *stream* that discards text after a write failed; `lost` is the reason.

    Handlers print while an agent works, and a reader that has left (`| head`) must not disturb that
    work. *is_terminal*: a person is likely to read.
    """

    def __init__(self, stream: TextIO, *, is_terminal: bool | None = None) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty() if is_terminal is None else is_terminal
        self.lost: OSError | None = None

    def rest(self, seconds: float) -> None:
        """Wait *seconds*, or until the reader leaves; `lost` is set then."""
        poll = select.poll()
        # Without a requested event, poll reports only that the other end is closed.
        poll.register(self._stream, 0)
        if poll.poll(seconds * 1e3):
            self.lost = self.lost or BrokenPipeError(EPIPE, "the reader has left")

    def write(self, text: str) -> None:
        """Write *text* and flush."""
        if self.lost is not None:
            return
        try:
            self._stream.write(self._encodable(text))
            self._stream.flush()
        except OSError as error:
            self.lost = error

    def _encodable(self, text: str) -> str:
        encoding = self._stream.encoding or "utf-8"
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            plain = text.translate(_PLAIN)
            return plain.encode(encoding, "replace").decode(encoding)
        return text


class ProgressLine:
    """A line at the bottom of *output*, redrawn in place; `hide` it before other text.

    The end of a `with` block hides it, too.
    """

    def __init__(self, output: Output, *, clock: Callable[[], float] = monotonic) -> None:
        self._output, self._clock, self._length = output, clock, 0
        # Nothing is drawn for a short input, nor without a terminal.
        self._next = clock() + 5 * _PAUSE if output.is_terminal else float("inf")

    def show(self, text: str, done: float | None = None) -> None:
        """Draw *text*, at most every 0.1 s, after a bar for *done*, from 0 to 1, if known."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + _PAUSE
        if done is not None:
            full = round(done * _CELLS)
            text = f"[{'#' * full}{'.' * (_CELLS - full)}] {done:4.0%}  {text}"
        text = "".join([char if char.isprintable() else "?" for char in text])
        self._output.write(f"\r{text:<{self._length}}")
        self._length = len(text)

    def hide(self) -> None:
        """Erase the line."""
        if self._length:
            self._output.write(f"\r{' ' * self._length}\r")
            self._length = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()


@contextmanager
def busy_line(text: str) -> Iterator[None]:
    """Show *text* on a terminal's standard error while the block takes longer than a second."""
    with ProgressLine(Output(sys.stderr)) as line:
        timer = Timer(1.0, line.show, [f"{text} …"])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

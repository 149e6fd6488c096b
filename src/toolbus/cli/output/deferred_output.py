"""Standard error of a run: what others write there waits for a question and a line of text."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from threading import Lock, Thread
from typing import TYPE_CHECKING, TextIO

from toolbus.cli.output.stream import Output
from toolbus.settings.spans import sanitize

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST = 10_000
"""Characters of a line; a longer one is several."""


class DeferredOutput(Output):
    """Writes to *stream*, but not into a question or a line of text; any thread may write."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lock, self._waiting = Lock(), list[str]()
        self._holders = 0

    def write(self, text: str) -> None:
        """Write *text* at once, or when nobody holds it any more."""
        with self._lock:
            if self._holders:
                self._waiting.append(text)
            else:
                super().write(text)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let all that is written in this block wait until its end."""
        self.hold()
        try:
            yield
        finally:
            self.release()

    def hold(self) -> None:
        """Let all that is written wait until as many have called `release`."""
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        """Write what waits, unless somebody else holds it."""
        with self._lock:
            self._holders -= 1
            if not self._holders:
                super().write("".join(self._waiting))
                self._waiting.clear()


class OutputLogHandler(logging.Handler):
    """Writes log records to *output*, without what steers a terminal: they may quote anybody."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        """Write *record*, a line and perhaps a traceback."""
        lines = f"toolbus: {self.format(record)}".split("\n")
        self._output.write("".join([f"{sanitize(line)}\n" for line in lines]))


def relay_lines(output: Output) -> TextIO:
    """Return a file whose lines go to *output* without what steers a terminal.

    It is for the standard error of a process; the reading ends when the last copy is closed.
    """
    reading, writing = os.pipe()

    def relay() -> None:
        with open(reading, encoding="utf-8", errors="replace") as lines:  # noqa: PTH123
            while line := lines.readline(_LONGEST):
                output.write(f"{sanitize(line.rstrip())}\n")

    Thread(target=relay, name="toolbus-stderr", daemon=True).start()
    return open(writing, "w", encoding="utf-8")  # noqa: PTH123 - a descriptor

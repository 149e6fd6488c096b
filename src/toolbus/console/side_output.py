"""Standard error of a run: what others write there waits while a person is asked."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from threading import Lock, Thread
from typing import TYPE_CHECKING, TextIO

from toolbus.terminal.output import Output
from toolbus.terminal.spans import sanitize

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST = 10_000
"""Characters of a line; a longer one is several."""


class SideOutput(Output):
    """Writes to *stream*, but not between the lines of a question; any thread may write."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lock, self._waiting = Lock(), list[str]()
        self._is_held = False

    def write(self, text: str) -> None:
        """Write *text* at once, or after the question."""
        with self._lock:
            if self._is_held:
                self._waiting.append(text)
            else:
                super().write(text)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let all that is written in this block wait until its end."""
        with self._lock:
            self._is_held = True
        try:
            yield
        finally:
            with self._lock:
                self._is_held = False
                super().write("".join(self._waiting))
                self._waiting.clear()


class SideLog(logging.Handler):
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

"""Output beside a run's text: lines are deferred while a question or a line is open."""

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
"""The most characters of a line; a longer one becomes several."""


class DeferredOutput(Output):
    """An output to *stream* that defers text during a question or an open line; thread-safe."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lock, self._waiting = Lock(), list[str]()
        self._holders = 0

    def write(self, text: str) -> None:
        """Write *text* now, or after the last `release`."""
        with self._lock:
            if self._holders:
                self._waiting.append(text)
            else:
                super().write(text)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Defer all text until the end of the block."""
        self.hold()
        try:
            yield
        finally:
            self.release()

    def hold(self) -> None:
        """Defer all text until each `hold` has its `release`."""
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        """Write the deferred text after the last `release`."""
        with self._lock:
            self._holders -= 1
            if not self._holders:
                super().write("".join(self._waiting))
                self._waiting.clear()


class OutputLogHandler(logging.Handler):
    """A log handler that writes to *output*, without control characters of quoted text."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        """Write the lines of *record*, with its traceback if any."""
        lines = f"toolbus: {self.format(record)}".split("\n")
        self._output.write("".join([f"{sanitize(line)}\n" for line in lines]))


def relay_lines(output: Output) -> TextIO:
    """Return a file whose lines go to *output* without control characters.

    It serves as standard error of a process; reading ends when its last copy is closed.
    """
    reading, writing = os.pipe()

    def relay() -> None:
        with open(reading, encoding="utf-8", errors="replace") as lines:  # noqa: PTH123
            while line := lines.readline(_LONGEST):
                output.write(f"{sanitize(line.rstrip())}\n")

    Thread(target=relay, name="toolbus-stderr", daemon=True).start()
    return open(writing, "w", encoding="utf-8")  # noqa: PTH123 - a descriptor

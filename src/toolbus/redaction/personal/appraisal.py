"""The appraisal of candidates in one record: what it may take, and what libraries said of them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolbus.redaction.limits import ScanLimits, UnexaminedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_CHARS, MAX_SECONDS = 8_000_000, 5.0

_REMEMBERED = 50_000


class Appraisal:
    """Counts what is read, watches the clock, and asks libraries about each candidate once."""

    def __init__(self, limits: ScanLimits | None = None) -> None:
        self._limits = limits or ScanLimits(MAX_CHARS, MAX_SECONDS)
        self._since, self._spent = self._limits.clock(), 0.0
        self._chars = 0
        self._answers: dict[tuple[Callable[[str], Any], str], Any] = {}

    def read(self, text: str) -> None:
        """Count *text*; raises `UnexaminedError` if it is too much."""
        self._chars += len(text)
        if self._chars > self._limits.chars:
            raise UnexaminedError(f"it is too large: more than {self._limits.chars:,} characters")

    def check(self) -> None:
        """Raise `UnexaminedError` if the time is up."""
        self._limits.check(self._spent + self._limits.clock() - self._since, self._chars)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stop the clock: others have their turn."""
        self._spent += self._limits.clock() - self._since
        try:
            yield
        finally:
            self._since = self._limits.clock()

    def ask(self, question: Callable[[str], Any], candidate: str) -> Any:
        """Return what *question* answers to *candidate*, which it is asked once."""
        key = (question, candidate)
        if key not in self._answers:
            self.check()
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            self._answers[key] = question(candidate)
        return self._answers[key]

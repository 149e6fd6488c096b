"""One examination of a record: what it may take, and what the libraries have said in it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from toolbus.errors import ToolbusError

MAX_CHARS, MAX_SECONDS = 8_000_000, 5.0

_REMEMBERED = 50_000


class PersonalDataUnexaminedError(ToolbusError):
    """A record was not examined to its end, for *reason*: it must not pass."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason


class ExaminationLimits(Struct, frozen=True):
    """What one examination may take: *chars* of text and *seconds* by *clock*."""

    chars: int = MAX_CHARS
    seconds: float = MAX_SECONDS
    clock: Callable[[], float] = time.monotonic


class Examination:
    """Counts what is read, watches the clock, and asks about each candidate once."""

    def __init__(self, limits: ExaminationLimits | None = None) -> None:
        self._limits = limits or ExaminationLimits()
        self._until = self._limits.clock() + self._limits.seconds
        self._chars = 0
        self._answers: dict[tuple[Callable[[str], Any], str], Any] = {}

    def read(self, text: str) -> None:
        """Count *text*; raises `PersonalDataUnexaminedError` if it is too much."""
        self._chars += len(text)
        if self._chars > self._limits.chars:
            limit = self._limits.chars
            raise PersonalDataUnexaminedError(f"it is too large: more than {limit:,} characters")
        self.check()

    def check(self) -> None:
        """Raise `PersonalDataUnexaminedError` if the time is up."""
        if self._limits.clock() > self._until:
            seconds = self._limits.seconds
            reason = f"to look through it takes longer than {seconds:g} seconds"
            raise PersonalDataUnexaminedError(reason)

    def ask(self, question: Callable[[str], Any], candidate: str) -> Any:
        """Return what *question* answers to *candidate*, which it is asked once."""
        key = (question, candidate)
        if key not in self._answers:
            self.check()
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            self._answers[key] = question(candidate)
        return self._answers[key]

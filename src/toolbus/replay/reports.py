"""What a replay writes while it goes on, for a person or for a program."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING

from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output
from toolbus.messages.records import encode
from toolbus.replay.findings import ReplayTotals
from toolbus.replay.printing import FindingPrinter, print_totals
from toolbus.settings.spans import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.cli.output.stream import ProgressLine
    from toolbus.replay.findings import ReplayFinding
    from toolbus.settings.spans import Style

_MAX_PROBLEMS = 20
"""How many unreadable lines are named; the others are counted."""

_MAX_DIFFERENCES = 200
_MAX_KINDS, _MAX_KIND_LENGTH = 100, 60


class ReplayReport(ABC):
    """What both kinds of report count."""

    def __init__(self, output: Output, progress: ProgressLine) -> None:
        self._output, self.progress = output, progress
        self.totals = ReplayTotals()
        self.asides: Counter[str] = Counter()
        self.problems = self._sources = 0

    @property
    def lost(self) -> bool:
        """Whether nobody reads any more."""
        return self._output.lost is not None

    @abstractmethod
    def begin(self, target: str, idle: Sequence[str]) -> None:
        """Write what handlers are used, and the *idle* events, whose handlers do not run."""

    @abstractmethod
    def add(self, finding: ReplayFinding) -> None:
        """Write a finding."""

    def aside(self, kind: str) -> None:
        """Count something that is no message."""
        # Whoever wrote the file chose the kinds, and how many there are.
        known = kind in self.asides or len(self.asides) < _MAX_KINDS
        self.asides[kind[:_MAX_KIND_LENGTH] if known else "other kinds"] += 1

    def problem(self, source: str, line: int, reason: str) -> None:
        """Count a *line* that could not be read, and name it among the first on stderr.

        The line 0 stands for the whole *source*.
        """
        self.problems += 1
        self._sources += not line
        where = f"{source}:{line}" if line else source
        if self.problems <= _MAX_PROBLEMS:
            self._warn(f"{where} cannot be read: {reason}")

    @abstractmethod
    def end_session(self, session: str, outcomes: Counter[str]) -> None:
        """Write what came of a session."""

    @abstractmethod
    def end(self, differences: Sequence[str] | None, file: str = "") -> None:
        """Write the totals, and how they differ from the expectation in *file*, if there is one."""

    def _end_problems(self) -> None:
        self.progress.hide()
        if (remaining := self.problems - _MAX_PROBLEMS) > 0:
            self._warn(f"{remaining:,} more lines cannot be read")

    def _warn(self, text: str) -> None:
        self.progress.hide()
        shown = "".join([letter if letter.isprintable() else "�" for letter in text])
        Output(sys.stderr).write(f"toolbus: {shown}\n")


class TextReport(ReplayReport):
    """Findings for a person, the first *limit* of them, all if that is None."""

    def __init__(self, output: Output, progress: ProgressLine, limit: int | None) -> None:
        super().__init__(output, progress)
        self._screen = open_screen(output)
        self._printer = FindingPrinter(self._screen, limit)

    def begin(self, target: str, idle: Sequence[str]) -> None:
        """Say which handlers run, and which do not."""
        self._screen.line("replay through ", Span(target, "strong"))
        if idle:
            text = f"not replayed: the handlers of {', '.join(idle)}"
            self._screen.prose(text, style="dim")
        self._screen.line()

    def add(self, finding: ReplayFinding) -> None:
        """Write a finding."""
        self.progress.hide()
        self._printer.add(finding)

    def end_session(self, session: str, outcomes: Counter[str]) -> None:
        """Write what came of a session, if anything did."""
        if outcomes:
            self.progress.hide()
            self._printer.end_session(session, outcomes)

    def end(self, differences: Sequence[str] | None, file: str = "") -> None:
        """Write the totals and the verdict."""
        self._end_problems()
        self._printer.end()
        print_totals(self._screen, self.totals)
        if self.asides:
            counts = [f"{count:,} {kind}" for kind, count in sorted(self.asides.items())]
            text = f"left aside, being no messages: {', '.join(counts)}"
            self._screen.prose(text, style="dim")
        if self.problems:
            kinds = ((self._sources, "source"), (self.problems - self._sources, "line"))
            unread = [f"{n:,} {kind}{'s' * (n != 1)}" for n, kind in kinds if n]
            self._screen.line(Span(f"{' and '.join(unread)} could not be read", "bad"))
        if differences:
            self._write_differences(differences, file)
        elif differences is not None:
            self._screen.line(Span(f"as expected in {file}", "good"))

    def _write_differences(self, differences: Sequence[str], file: str) -> None:
        self._screen.line()
        self._screen.line(Span(f"not as expected in {file}", "bad"))
        for line in differences[:_MAX_DIFFERENCES]:
            style: Style = "bad" if line.startswith("  -") else "good" if line[0] == " " else ""
            self._screen.whole(line, style=style)
        if (remaining := len(differences) - _MAX_DIFFERENCES) > 0:
            self._screen.line(Span(f"… and {remaining:,} more lines", "dim"))
        self._screen.line("if that is right, add --update")


class JsonReport(ReplayReport):
    """One JSON document, written as the findings come."""

    def __init__(self, output: Output, progress: ProgressLine) -> None:
        super().__init__(output, progress)
        self._separator = ""

    def begin(self, target: str, idle: Sequence[str]) -> None:
        """Open the document."""
        head = f'{{"target":{_json(target)},"not_replayed":{_json(idle)},"findings":['
        self._output.write(head)

    def add(self, finding: ReplayFinding) -> None:
        """Write a finding, on a line of its own."""
        self._output.write(f"{self._separator}\n{_json(finding)}")
        self._separator = ","

    def end_session(self, session: str, outcomes: Counter[str]) -> None:
        """Write nothing: the findings name their session."""

    def end(self, differences: Sequence[str] | None, file: str = "") -> None:
        """Close the document."""
        self._end_problems()
        tail = f'\n],"totals":{_json(self.totals)},"left_aside":{_json(self.asides)}'
        if differences is not None:
            tail += f',"expectation":{_json(file)},"differences":{_json(differences)}'
        self._output.write(f"{tail}}}\n")


def _json(value: object) -> str:
    return encode(value).decode()

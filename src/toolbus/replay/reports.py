"""What a replay writes while it goes on, for a person or for a program."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING

from toolbus.messages.records import encode
from toolbus.replay.findings import Totals
from toolbus.replay.printing import Printer, print_totals
from toolbus.terminal.output import Output
from toolbus.terminal.screen import open_screen
from toolbus.terminal.spans import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.replay.findings import Finding
    from toolbus.replay.progress import Progress
    from toolbus.terminal.spans import Style

_MOST_PROBLEMS = 20
"""How many unreadable lines are named; the others are counted."""


_MOST_DIFFERENCES = 200
_MOST_KINDS, _LONGEST_KIND = 100, 60


class Report(ABC):
    """What both kinds of report count."""

    def __init__(self, output: Output, progress: Progress) -> None:
        self._output, self.progress = output, progress
        self.totals = Totals()
        self.asides: Counter[str] = Counter()
        self.problems = 0

    @property
    def lost(self) -> bool:
        """Whether nobody reads any more."""
        return self._output.lost is not None

    @abstractmethod
    def begin(self, target: str, idle: Sequence[str]) -> None:
        """Write what handlers are used, and the *idle* events, whose handlers do not run."""

    @abstractmethod
    def add(self, finding: Finding) -> None:
        """Write a finding."""

    def aside(self, kind: str) -> None:
        """Count something that is no message."""
        # Whoever wrote the file chose the kinds, and how many there are.
        known = kind in self.asides or len(self.asides) < _MOST_KINDS
        self.asides[kind[:_LONGEST_KIND] if known else "other kinds"] += 1

    def problem(self, where: str, reason: str) -> None:
        """Count a line that could not be read, and name it among the first on stderr."""
        self.problems += 1
        if self.problems <= _MOST_PROBLEMS:
            self._say(f"{where} cannot be read: {reason}")

    @abstractmethod
    def end_session(self, session: str, outcomes: Counter[str]) -> None:
        """Write what came of a session."""

    @abstractmethod
    def end(self, differences: Sequence[str] | None, file: str = "") -> None:
        """Write the totals, and how they differ from the expectation in *file*, if there is one."""

    def _end_problems(self) -> None:
        self.progress.hide()
        if (more := self.problems - _MOST_PROBLEMS) > 0:
            self._say(f"{more:,} more lines cannot be read")

    def _say(self, text: str) -> None:
        self.progress.hide()
        shown = "".join([one if one.isprintable() else "�" for one in text])
        Output(sys.stderr).write(f"toolbus: {shown}\n")


class TextReport(Report):
    """Findings for a person, the first *most* of them."""

    def __init__(self, output: Output, most: int | None, progress: Progress) -> None:
        super().__init__(output, progress)
        self._screen = open_screen(output)
        self._printer = Printer(self._screen, most)

    def begin(self, target: str, idle: Sequence[str]) -> None:
        """Say which handlers run, and which do not."""
        self._screen.line("replay through ", Span(target, "strong"))
        if idle:
            text = f"not replayed: the handlers of {', '.join(idle)}"
            self._screen.prose(text, style="dim")
        self._screen.line()

    def add(self, finding: Finding) -> None:
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
            kinds = ", ".join(
                [f"{number:,} {kind}" for kind, number in sorted(self.asides.items())]
            )
            self._screen.prose(f"left aside, being no messages: {kinds}", style="dim")
        if self.problems:
            noun = "line" if self.problems == 1 else "lines"
            text = f"{self.problems:,} {noun} could not be read"
            self._screen.line(Span(text, "bad"))
        if differences:
            self._screen.line()
            self._screen.line(Span(f"not as expected in {file}", "bad"))
            for line in differences[:_MOST_DIFFERENCES]:
                style: Style = "bad" if line.startswith("  -") else "good" if line[0] == " " else ""
                self._screen.line(Span(line, style))
            if (more := len(differences) - _MOST_DIFFERENCES) > 0:
                self._screen.line(Span(f"… and {more:,} more lines", "dim"))
            self._screen.line("if that is right, add --update")
        elif differences is not None:
            self._screen.line(Span(f"as expected in {file}", "good"))


class JsonReport(Report):
    """One JSON document, written piece by piece."""

    def __init__(self, output: Output, most: int | None, progress: Progress) -> None:  # noqa: ARG002
        super().__init__(output, progress)
        self._separator = ""

    def begin(self, target: str, idle: Sequence[str]) -> None:
        """Open the document."""
        head = f'{{"target":{_json(target)},"not_replayed":{_json(idle)},"findings":['
        self._output.write(head)

    def add(self, finding: Finding) -> None:
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

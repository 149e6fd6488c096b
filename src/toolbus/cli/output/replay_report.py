"""The report of a replay while it runs, as text or as one JSON document."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from math import inf
from typing import TYPE_CHECKING

from toolbus.bus.ledger.records import sign_of
from toolbus.cli.output.blocks import count_things, json_of, write_difference
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output
from toolbus.replay.findings import OUTCOMES, ReplayTotals
from toolbus.settings.spans import Span, sanitize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.cli.output.stream import ProgressLine
    from toolbus.replay.findings import Outcome, ReplayFinding
    from toolbus.settings.spans import Style

_MAX_PROBLEMS = 20
"""The number of unreadable lines reported one by one; the rest is counted."""

_MAX_CHANGES, _MAX_DIFFERENCES = 8, 200
_MAX_KINDS, _MAX_KIND_LENGTH = 100, 60


class ReplayReport(ABC):
    """The counts of both reports, and the problems, which go to standard error."""

    def __init__(self, output: Output, progress: ProgressLine) -> None:
        self._output, self.progress = output, progress
        self.totals = ReplayTotals()
        self.skipped: Counter[str] = Counter()
        self.problems = self._sources = 0

    @property
    def lost(self) -> bool:
        """Whether the reader of the output has left."""
        return self._output.lost is not None

    @abstractmethod
    def begin(self, target: str, idle: Sequence[str]) -> None:
        """Write the *target*, and the *idle* events, whose handlers do not run."""

    @abstractmethod
    def add(self, finding: ReplayFinding) -> None:
        """Write a finding."""

    def skip(self, kind: str) -> None:
        """Count a line without a message."""
        # The kinds come from the file, so their number and length are bounded here.
        known = kind in self.skipped or len(self.skipped) < _MAX_KINDS
        self.skipped[kind[:_MAX_KIND_LENGTH] if known else "other kinds"] += 1

    def problem(self, source: str, line: int, reason: str) -> None:
        """Count an unreadable *line* and report it on standard error, unless there are too many.

        Line 0 stands for the whole *source*.
        """
        self.problems += 1
        self._sources += not line
        where = f"{source}:{line}" if line else source
        if self.problems <= _MAX_PROBLEMS:
            self._warn(f"{where} cannot be read: {reason}")

    @abstractmethod
    def end_session(self, session: str, outcomes: Counter[str]) -> None:
        """Write the *outcomes* of a session."""

    @abstractmethod
    def end(self, differences: Sequence[str] | None, file: str = "") -> None:
        """Write the totals, and the *differences* from the expectation in *file*, if any."""

    def _end_problems(self) -> None:
        self.progress.hide()
        if (remaining := self.problems - _MAX_PROBLEMS) > 0:
            self._warn(f"{remaining:,} more lines cannot be read")

    def _warn(self, text: str) -> None:
        self.progress.hide()
        Output(sys.stderr).write(f"toolbus: {sanitize(text)}\n")


class TextReport(ReplayReport):
    """The first *limit* findings by session, all if it is None, each with its differences."""

    def __init__(self, output: Output, progress: ProgressLine, limit: int | None) -> None:
        super().__init__(output, progress)
        self._screen, self._limit = open_screen(output), inf if limit is None else limit
        self._count, self._session = 0, ""

    def begin(self, target: str, idle: Sequence[str]) -> None:
        """Write the target, and the events whose handlers do not run."""
        self._screen.line("replay through ", Span(target, "strong"))
        if idle:
            self._screen.prose(f"not replayed: the handlers of {', '.join(idle)}", style="dim")
        self._screen.line()

    def add(self, finding: ReplayFinding) -> None:
        """Write a finding, below its session's name if it is the session's first."""
        if self._begin_entry(finding.session):
            self._write(finding)

    def _begin_entry(self, session: str) -> bool:
        """Count an entry of *session* and return whether to write it; a new session has a title."""
        self.progress.hide()
        self._count += 1
        if self._count > self._limit:
            return False
        if session != self._session or self._count == 1:
            self._session = session
            if self._count > 1:
                self._screen.line()
            self._screen.line("session ", Span(session, "strong"))
        return True

    def _write(self, finding: ReplayFinding) -> None:
        style = style_of(finding.outcome)
        subject = finding.role if finding.role == "call" else f"{finding.role} message"
        self._screen.line(
            Span(f"{finding.outcome:<9}", style),
            f" {subject} ",
            Span(finding.tool, "strong"),
            f"{' ' * bool(finding.tool)}{finding.subject}",
            indent=1,
        )
        if finding.by:
            self._screen.prose(f"by {', '.join(finding.by)}", indent=3, style="dim")
        if finding.reason:
            self._screen.write_reason(finding.reason, indent=3)
        if finding.reads is not None and finding.reads != finding.reason:
            self._screen.line("the model would read: ", Span(finding.reads, "good"), indent=3)
        for change in finding.changes[:_MAX_CHANGES]:
            write_difference(self._screen, change, indent=3)
        if (remaining := len(finding.changes) - _MAX_CHANGES) > 0:
            self._screen.line(Span(f"… and {remaining} more fields", "dim"), indent=3)

    def end_session(self, session: str, outcomes: Counter[str]) -> None:
        """Write the *outcomes* below the findings of *session*, if those are the latest."""
        if outcomes and self._count <= self._limit and session == self._session:
            self.progress.hide()
            self._screen.line(Span(count_outcomes(outcomes), "dim"), indent=1)

    def end(self, differences: Sequence[str] | None, file: str = "") -> None:
        """Write the totals and the verdict."""
        self._end_problems()
        if (remaining := self._count - self._limit) > 0:
            self._screen.line()
            self._screen.line(Span(f"… and {remaining:,.0f} more; --all shows them", "dim"))
        if self._count:
            self._screen.line()
        self._write_totals()
        if differences:
            self._write_differences(differences, file)
        elif differences is not None:
            self._screen.line(Span(f"as expected in {file}", "good"))

    def _write_totals(self) -> None:
        screen, totals = self._screen, self.totals
        read = [
            count_things(totals.sessions, "session"),
            count_things(totals.messages, "message"),
            count_things(totals.calls, "call"),
        ]
        unchanged = "nothing would change" if totals.messages else "nothing was replayed"
        outcomes = count_outcomes(totals.outcomes) or unchanged
        screen.line(Span(", ".join(read), "strong"), right=[outcomes])
        if totals.unanswered:
            screen.line(Span(f"calls without a recorded result: {totals.unanswered:,}", "dim"))
        if totals.results_dropped:
            text = f"recorded results of calls that would not be made: {totals.results_dropped:,}"
            screen.line(Span(text, "dim"))
        if self.skipped:
            counts = [f"{count:,} {kind}" for kind, count in sorted(self.skipped.items())]
            screen.prose(f"skipped, not messages: {', '.join(counts)}", style="dim")
        if self.problems:
            kinds = ((self._sources, "source"), (self.problems - self._sources, "line"))
            unread = [count_things(number, kind) for number, kind in kinds if number]
            screen.line(Span(f"{' and '.join(unread)} could not be read", "bad"))

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
    """One JSON document, written while the findings come; *entries* is their name in it."""

    entries = "findings"

    def __init__(self, output: Output, progress: ProgressLine) -> None:
        super().__init__(output, progress)
        self._separator = ""

    def begin(self, target: str, idle: Sequence[str]) -> None:
        """Open the document."""
        head = f'{{"target":{json_of(target)},"not_replayed":{json_of(idle)},"{self.entries}":['
        self._output.write(head)

    def add(self, finding: ReplayFinding) -> None:
        """Write a finding on its own line."""
        self._write_entry(finding)

    def _write_entry(self, entry: object) -> None:
        self._output.write(f"{self._separator}\n{json_of(entry)}")
        self._separator = ","

    def end_session(self, session: str, outcomes: Counter[str]) -> None:
        """Write nothing: each finding names its session."""

    def end(self, differences: Sequence[str] | None, file: str = "") -> None:
        """Close the document."""
        self._end_problems()
        tail = f'\n],"totals":{json_of(self.totals)},"left_aside":{json_of(self.skipped)}'
        if differences is not None:
            tail += f',"expectation":{json_of(file)},"differences":{json_of(differences)}'
        self._output.write(f"{tail}}}\n")


def count_outcomes(outcomes: Counter[str]) -> str:
    """Return the counts of *outcomes* in words, "" if there are none."""
    return ", ".join([f"{outcomes[name]:,} {name}" for name in OUTCOMES if outcomes[name]])


def style_of(outcome: Outcome) -> Style:
    """Return the style of the word *outcome*."""
    match outcome:
        case "permitted":
            return "good"
        case "unjudged":
            return "changed"
        case "refused":
            return "dim"
    return sign_of(outcome).style

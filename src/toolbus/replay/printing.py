"""Findings for a person: session by session, each with a diff."""

from __future__ import annotations

from difflib import unified_diff
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from msgspec import UNSET

from toolbus.bus.ledger.records import sign_of
from toolbus.messages.records import encode
from toolbus.replay.findings import OUTCOMES
from toolbus.settings.spans import Span

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from toolbus.cli.output.screen import Screen
    from toolbus.replay.findings import Outcome, ReplayFinding, ReplayTotals
    from toolbus.settings.differences import Difference
    from toolbus.settings.spans import Style

_MAX_CHANGES = 8
_MAX_LINES = 24
_LEAD = 20
"""How many characters before a difference are shown."""

_MAX_DIFFED = 500
"""Lines of a text of which a diff is made; that takes time with the square of them."""


class FindingPrinter:
    """Writes findings to *screen*, the first *limit* of them, all if that is None."""

    def __init__(self, screen: Screen, limit: int | None) -> None:
        self._screen, self._limit = screen, inf if limit is None else limit
        self._count, self._session = 0, ""

    def add(self, finding: ReplayFinding) -> None:
        """Write a finding, below the name of its session."""
        self._count += 1
        if self._count > self._limit:
            return
        if finding.session != self._session or self._count == 1:
            self._session = finding.session
            if self._count > 1:
                self._screen.line()
            self._screen.line("session ", Span(finding.session, "strong"))
        _print(self._screen, finding)

    def end_session(self, session: str, outcomes: Counter[str]) -> None:
        """Write what came of a session, if its findings were the last that were written."""
        if outcomes and self._count <= self._limit and session == self._session:
            self._screen.line(Span(count_outcomes(outcomes), "dim"), indent=1)

    def end(self) -> None:
        """Say how much was left out."""
        if self._count > self._limit:
            self._screen.line()
            remaining = self._count - self._limit
            self._screen.line(Span(f"… and {remaining:,} more; --all shows them", "dim"))
        if self._count:
            self._screen.line()


def print_totals(screen: Screen, totals: ReplayTotals) -> None:
    """Write how much was replayed, and what came of it."""
    counts = (
        (totals.sessions, "session"),
        (totals.messages, "message"),
        (totals.calls, "call"),
    )
    read = ", ".join([f"{number:,} {name}{'s' * (number != 1)}" for number, name in counts])
    unchanged = "nothing would change" if totals.messages else "nothing was replayed"
    screen.line(Span(read, "strong"), right=[count_outcomes(totals.outcomes) or unchanged])
    if totals.unanswered:
        screen.line(Span(f"calls without a recorded result: {totals.unanswered:,}", "dim"))
    if totals.results_dropped:
        text = f"recorded results of calls that would not be made: {totals.results_dropped:,}"
        screen.line(Span(text, "dim"))


def count_outcomes(outcomes: Counter[str]) -> str:
    """Return the counts of *outcomes* in words, "" if there are none."""
    return ", ".join([f"{outcomes[name]:,} {name}" for name in OUTCOMES if outcomes[name]])


def _print(screen: Screen, finding: ReplayFinding) -> None:
    style = _style_of(finding.outcome)
    what = finding.role if finding.role == "call" else f"{finding.role} message"
    screen.line(
        Span(f"{finding.outcome:<9}", style),
        f" {what} ",
        Span(finding.tool, "strong"),
        f"{' ' * bool(finding.tool)}{finding.subject}",
        indent=1,
    )
    if finding.by:
        screen.prose(f"by {', '.join(finding.by)}", indent=3, style="dim")
    if finding.reason:
        screen.prose(finding.reason, indent=3)
    if finding.reads is not None and finding.reads != finding.reason:
        screen.line("the model would read: ", Span(finding.reads, "good"), indent=3)
    for change in finding.changes[:_MAX_CHANGES]:
        _print_change(screen, change)
    if (remaining := len(finding.changes) - _MAX_CHANGES) > 0:
        screen.line(Span(f"… and {remaining} more fields", "dim"), indent=3)


def _style_of(outcome: Outcome) -> Style:
    match outcome:
        case "permitted":
            return "good"
        case "unjudged":
            return "changed"
        case "refused":
            return "dim"
    return sign_of(outcome).style


def _print_change(screen: Screen, change: Difference) -> None:
    screen.line(Span(change.path, "dim"), indent=3)
    before, after = change.before, change.after
    if isinstance(before, str) and isinstance(after, str) and "\n" in before + after:
        for line in _diff(before, after):
            style: Style = "bad" if line[0] == "-" else "good" if line[0] == "+" else "dim"
            screen.line(Span(line, style), indent=4)
        return
    start = _first_difference(_text_of(before), _text_of(after))
    for sign, value in (("-", before), ("+", after)):
        if value is not UNSET:
            style = "bad" if sign == "-" else "good"
            screen.line(Span(f"{sign} {_excerpt(_text_of(value), start)}", style), indent=4)


def _diff(before: str, after: str) -> Iterator[str]:
    """Give the lines of a diff, or the first that differ of texts that are too long for one."""
    old, new = before.splitlines(), after.splitlines()
    start = _first_difference(old, new)
    first = max(0, start - 1)
    old, new = old[first:], new[first:]
    if max(len(old), len(new)) > _MAX_DIFFED:
        yield f"@@ line {start + 1}, of {len(old) + first} and {len(new) + first} @@"
        yield from [f"- {line}" for line in old[1:4]]
        yield from [f"+ {line}" for line in new[1:4]]
        return
    lines = list(islice(unified_diff(old, new, n=1, lineterm=""), 2, None))
    if not lines:
        yield "  (only the ends of lines differ)"
    yield from lines[:_MAX_LINES]
    if len(lines) > _MAX_LINES:
        yield f"  … and {len(lines) - _MAX_LINES} more lines"


def _first_difference(before: Sequence[str], after: Sequence[str]) -> int:
    """Return the index at which two texts, or lists of lines, begin to differ."""
    pairs = zip(before, after, strict=False)
    shorter = min(len(before), len(after))
    return next((index for index, (old, new) in enumerate(pairs) if old != new), shorter)


def _excerpt(text: str, start: int) -> str:
    """Return *text* from a little before the first difference on."""
    return text if start <= _LEAD else f"…{text[start - _LEAD + 1 :]}"


def _text_of(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is UNSET else encode(value).decode()

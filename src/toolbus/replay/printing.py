"""Findings for a person: session by session, each with a diff."""

from __future__ import annotations

from difflib import unified_diff
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import UNSET

from toolbus.bus.ledger.wording import sign_of
from toolbus.messages.records import encode
from toolbus.replay.findings import OUTCOMES
from toolbus.terminal.spans import Span

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from toolbus.replay.findings import Change, Finding, Totals
    from toolbus.terminal.screen import Screen
    from toolbus.terminal.spans import Style

_MOST_CHANGES = 8
_MOST_LINES = 24
_LEAD = 20
"""How many characters before a difference are shown."""

_MOST_DIFFED = 500
"""Lines of a text of which a diff is made; that takes time with the square of them."""


class Printer:
    """Writes findings to *screen*, the first *most* of them with all that is to say."""

    def __init__(self, screen: Screen, most: int | None) -> None:
        self._screen, self._most = screen, most
        self._printed, self._session = 0, ""

    def add(self, finding: Finding) -> None:
        """Write a finding, below the name of its session."""
        self._printed += 1
        if self._most is not None and self._printed > self._most:
            return
        if finding.session != self._session or self._printed == 1:
            self._session = finding.session
            if self._printed > 1:
                self._screen.line()
            self._screen.line("session ", Span(finding.session, "strong"))
        _print(self._screen, finding)

    def end_session(self, session: str, outcomes: Counter[str]) -> None:
        """Write what came of a session, if its findings were the last that were written."""
        whole = self._most is None or self._printed <= self._most
        if outcomes and whole and session == self._session:
            self._screen.line(Span(worded(outcomes), "dim"), indent=1)

    def end(self) -> None:
        """Say how much was left out."""
        if self._most is not None and self._printed > self._most:
            self._screen.line()
            more = self._printed - self._most
            self._screen.line(Span(f"… and {more:,} more; --all shows them", "dim"))
        if self._printed:
            self._screen.line()


def print_totals(screen: Screen, totals: Totals) -> None:
    """Write how much was replayed, and what came of it."""
    counts = (
        (totals.sessions, "session"),
        (totals.messages, "message"),
        (totals.calls, "call"),
    )
    read = ", ".join([f"{number:,} {name}{'s' * (number != 1)}" for number, name in counts])
    screen.line(Span(read, "strong"), right=[worded(totals.outcomes) or "nothing would change"])
    if totals.unanswered:
        screen.line(Span(f"calls without a recorded result: {totals.unanswered:,}", "dim"))
    if totals.results_dropped:
        text = f"recorded results of calls that would not be made: {totals.results_dropped:,}"
        screen.line(Span(text, "dim"))


def worded(outcomes: Counter[str]) -> str:
    """Return the counts of *outcomes* in words, "" if there are none."""
    return ", ".join([f"{outcomes[one]:,} {one}" for one in OUTCOMES if outcomes[one]])


def _print(screen: Screen, finding: Finding) -> None:
    style = "good" if finding.outcome == "permitted" else sign_of(finding.outcome).style
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
    for change in finding.changes[:_MOST_CHANGES]:
        _print_change(screen, change)
    if (more := len(finding.changes) - _MOST_CHANGES) > 0:
        screen.line(Span(f"… and {more} more fields", "dim"), indent=3)


def _print_change(screen: Screen, change: Change) -> None:
    screen.line(Span(change.path, "dim"), indent=3)
    before, after = change.before, change.after
    if isinstance(before, str) and isinstance(after, str) and "\n" in before + after:
        for line in _diff(before, after):
            style: Style = "bad" if line[0] == "-" else "good" if line[0] == "+" else "dim"
            screen.line(Span(line, style), indent=4)
        return
    start = _first_difference(before, after)
    for sign, value in (("-", before), ("+", after)):
        if value is not UNSET:
            style = "bad" if sign == "-" else "good"
            screen.line(Span(f"{sign} {_excerpt(value, start)}", style), indent=4)


def _diff(before: str, after: str) -> Iterator[str]:
    """Give the lines of a diff, or the first that differ of texts that are too long for one."""
    old, new = before.splitlines(), after.splitlines()
    start = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
    start = min(len(old), len(new)) if start is None else start
    first = max(0, start - 1)
    old, new = old[first:], new[first:]
    if max(len(old), len(new)) > _MOST_DIFFED:
        yield f"@@ line {start + 1}, of {len(old) + first} and {len(new) + first} @@"
        yield from [f"- {line}" for line in old[1:4]]
        yield from [f"+ {line}" for line in new[1:4]]
        return
    lines = list(islice(unified_diff(old, new, n=1, lineterm=""), 2, None))
    if not lines:
        yield "  (only the ends of lines differ)"
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"  … and {len(lines) - _MOST_LINES} more lines"


def _first_difference(before: object, after: object) -> int:
    old, new = _shown(before), _shown(after)
    pairs = zip(old, new, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


def _excerpt(value: object, start: int) -> str:
    """Return *value* from a little before the first difference on."""
    text = _shown(value)
    return text if start <= _LEAD else f"…{text[start - _LEAD + 1 :]}"


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is UNSET else encode(value).decode()

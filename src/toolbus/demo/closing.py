"""The end of the demo: what was expected, what it was good for, where to look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.demo.account import CallStory
from toolbus.demo.verdict import Check, Totals
from toolbus.terminal.spans import Span

if TYPE_CHECKING:
    from toolbus.terminal.screen import Screen


class Report(Struct, frozen=True, kw_only=True):
    """All that a run has shown, for people (`show`) and for programs (as JSON)."""

    ok: bool
    missing: tuple[str, ...]
    seed: int
    without: tuple[str, ...]
    folder: str
    repository: str
    recording: str
    transcript: str
    session_id: str
    prompt: str
    answer: str
    turns: int
    duration_ns: int
    calls: tuple[CallStory, ...]
    checks: tuple[Check, ...]
    totals: Totals
    next: tuple[tuple[str, ...], ...]


def show(report: Report, screen: Screen) -> None:
    """Show the end of the run that *report* tells of."""
    screen.line()
    screen.prose(report.answer, style="dim")
    screen.line()
    _show_checks(report, screen)
    screen.line()
    _show_totals(report.totals, screen)
    screen.line()
    _show_places(report, screen)
    screen.line()
    _show_missing(report, screen)


def _show_checks(report: Report, screen: Screen) -> None:
    screen.line(
        Span("what happened", "strong"),
        right=[
            f"{len(report.calls)} calls in {report.turns} turns, {report.duration_ns / 1e9:.1f} s"
        ],
    )
    rows: list[tuple[Span | str, ...]] = []
    for check in report.checks:
        sign = Span("✓", "good") if check.happened else Span("✗", "bad")
        calls = ", ".join(map(str, check.calls))
        word = "call" if len(check.calls) == 1 else "calls"
        rows.append(
            (
                sign,
                check.expected,
                check.component,
                Span(f"{word} {calls}" if calls else "", "dim"),
            )
        )
    screen.table(rows, indent=2)


def _show_totals(totals: Totals, screen: Screen) -> None:
    leaks = [
        Span(str(leaked), "bad" if leaked else "good")
        for leaked in (totals.credentials_read, totals.credentials_stored)
    ]
    screen.table(
        [
            (
                Span("what it was good for", "strong"),
                "tools returned",
                "model read",
                "store holds",
            ),
            ("characters", f"{totals.characters_returned:,}", f"{totals.characters_read:,}", ""),
            (
                f"credentials, of {totals.credentials_planted}",
                str(totals.credentials_returned),
                *leaks,
            ),
        ],
        numbers=True,
    )


def _show_places(report: Report, screen: Screen) -> None:
    screen.line(Span("what to look at", "strong"))
    places = [
        ("transcript", report.transcript),
        ("recording", report.recording),
        ("repository", report.repository),
    ]
    for name, place in places:
        screen.whole(f"{name:<12}{place}", indent=2)
    screen.line()
    screen.line(Span("what to run next", "strong"))
    for words in report.next:
        screen.command(*words)


def _show_missing(report: Report, screen: Screen) -> None:
    totals = report.totals
    if totals.credentials_read or totals.credentials_stored:
        told = f"{totals.credentials_read} credentials reached the model"
        screen.prose(f"{told}, {totals.credentials_stored} the transcript's file", style="bad")
    if report.missing:
        screen.prose(f"missing: {', '.join(report.missing)}", style="bad")
    else:
        screen.line(Span("every intervention happened", "good"))

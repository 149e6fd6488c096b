"""The run on the screen: turns and calls while they happen, at the end what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.bus.ledger.records import sign_of
from toolbus.cli.output.descriptions import describe
from toolbus.cli.output.durations import duration_of
from toolbus.settings.spans import Span

if TYPE_CHECKING:
    from toolbus.cli.demo.account import CallStory, Intervention
    from toolbus.cli.output.screen import Screen
    from toolbus.messages.records import AssistantMessage

_INDENT = 5


class DemoPrinter:
    """Shows turns and calls on *screen*; a listener for an `Account`."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def show_turn(self, number: int, message: AssistantMessage) -> None:
        """Show what the model said, and how many calls it wants."""
        count = len(message.tool_calls)
        right = f"{count} calls at once" if count > 1 else "1 call"
        self._screen.line()
        head = (Span(f"turn {number}", "strong"), Span(f"  {message.text}", "dim"))
        self._screen.line(*head, right=[right])

    def show_call(self, call: CallStory) -> None:
        """Show a call, and below it what handlers did to it."""
        status = Span(f"{call.status:<12}", "good" if call.status == "ok" else "bad")
        duration = Span(f"{duration_of(call.duration_ns):>8}", "dim")
        lines = [text for text in map(str, call.arguments.values()) if "\n" not in text]
        head = (f"{call.number:>3}  ", Span(call.tool, "strong"), f" {' '.join(lines)}")
        self._screen.line(*head, right=[status, duration])
        for change in call.deeds:
            self._show_intervention(change, call)
        settled = {change.did for change in call.deeds} & {"denied", "answered"}
        if call.status != "ok" and not settled:
            end = " ".join(call.text.splitlines()[-2:])
            self._screen.prose(f"! {end}", indent=_INDENT, style="bad")

    def _show_intervention(self, change: Intervention, call: CallStory) -> None:
        text = f" {change.handler} {describe(change.did, change.event)}"
        # Where a text has shrunk by half or more, that is what the change was for.
        if change.did == "changed" and change.characters_after * 2 <= change.characters_before:
            text += f": {change.characters_before:,} → {change.characters_after:,} characters"
        sign, took = sign_of(change.did), Span(duration_of(change.duration_ns), "dim")
        self._screen.line(sign, Span(text, sign.style), right=[took], indent=_INDENT)
        if change.reason:
            self._screen.prose(change.reason, indent=_INDENT + 2)
        if change.did == "asked":
            yes = Span("yes, said the approver", "good")
            no = Span("no, said the approver", "bad")
            self._screen.line(yes if call.approved else no, indent=_INDENT + 2)
        self._screen.compare(change.rows, indent=_INDENT + 2)


def show_report(report: dict[str, Any], screen: Screen) -> None:
    """Show the end of the run that *report* tells of, as `--json` writes it."""
    calls, totals = report["calls"], report["totals"]
    screen.line()
    screen.prose(report["answer"], style="dim")
    screen.line()
    facts = f"{len(calls)} calls in {report['turns']} turns, {report['duration_ns'] / 1e9:.1f} s"
    screen.line(Span("what happened", "strong"), right=[facts])
    screen.table([_row(**check) for check in report["checks"]], indent=2)
    screen.line()
    leaks = [totals["credentials_read"], totals["credentials_stored"]]
    planted = f"credentials, of {totals['credentials_planted']}"
    sizes = [f"{totals[f'characters_{verb}']:,}" for verb in ("returned", "read")]
    rows: list[tuple[Span | str, ...]] = [
        (Span("what it was good for", "strong"), "tools returned", "model read", "store holds"),
        ("characters", *sizes, ""),
        (
            planted,
            str(totals["credentials_returned"]),
            *[Span(str(count), "bad" if count else "good") for count in leaks],
        ),
    ]
    screen.table(rows, numbers=True)
    screen.line()
    screen.line(Span("what to look at", "strong"))
    for name in ("transcript", "recording", "repository"):
        screen.whole(f"{name:<12}{report[name]}", indent=2)
    screen.line()
    screen.line(Span("what to run next", "strong"))
    for words in report["next"]:
        screen.command(*words)
    screen.line()
    if any(leaks):
        text = f"{leaks[0]} credentials reached the model, {leaks[1]} the transcript's file"
        screen.prose(text, style="bad")
    if report["live"] is not None:
        if report["status"] != "ok":
            screen.prose(f"the run ended as {report['status']}", style="bad")
        if report["missing"]:
            text = f"{report['live']} did not bring about: {', '.join(report['missing'])}"
            screen.prose(text, style="dim")
    elif report["missing"]:
        screen.prose(f"missing: {', '.join(report['missing'])}", style="bad")
    else:
        screen.line(Span("every intervention happened", "good"))


def _row(
    *, expected: str, component: str, happened: bool, calls: tuple[int, ...]
) -> tuple[Span | str, ...]:
    sign = Span("✓", "good") if happened else Span("✗", "bad")
    numbers = f"call{'s' * (len(calls) > 1)} {', '.join(map(str, calls))}" if calls else ""
    return sign, expected, component, Span(numbers, "dim")

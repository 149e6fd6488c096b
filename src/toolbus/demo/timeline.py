"""The run on the screen, while it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE, TOOL_CALL_ERROR
from toolbus.terminal.durations import duration_of
from toolbus.terminal.spans import Span, Style

if TYPE_CHECKING:
    from toolbus.demo.account import CallStory, Deed
    from toolbus.messages.records import AssistantMessage
    from toolbus.terminal.screen import Screen

_INDENT = 5
_THINGS = {
    TOOL_CALL_BEFORE.name: "the call",
    TOOL_CALL_ERROR.name: "the failure",
    MESSAGE_APPEND_BEFORE.name: "the result",
}


class Timeline:
    """Shows turns and calls on *screen*; an audience for an `Account`."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def turn(self, number: int, message: AssistantMessage) -> None:
        """Show what the model said, and how many calls it wants."""
        count = len(message.tool_calls)
        wants = f"{count} calls at once" if count > 1 else "1 call"
        self._screen.line()
        self._screen.line(
            Span(f"turn {number}", "strong"), Span(f"  {message.text}", "dim"), right=[wants]
        )

    def call(self, story: CallStory) -> None:
        """Show a call, and below it what handlers did to it."""
        style: Style = "good" if story.status == "ok" else "bad"
        status = Span(f"{story.status:<12}", style)
        duration = Span(f"{duration_of(story.duration_ns):>8}", "dim")
        wish = " ".join([one for one in map(str, story.arguments.values()) if "\n" not in one])
        head = (f"{story.number:>3}  ", Span(story.tool, "strong"), f" {wish}")
        self._screen.line(*head, right=[status, duration])
        for deed in story.deeds:
            self._deed(story, deed)
        settled = any(deed.did in {"denied", "answered"} for deed in story.deeds)
        if story.status != "ok" and not settled:
            said = " ".join(story.text.splitlines()[-2:])
            self._screen.prose(f"! {said}", indent=_INDENT, style="bad")

    def _deed(self, story: CallStory, deed: Deed) -> None:
        took = [Span(duration_of(deed.duration_ns), "dim")]
        thing = _THINGS[deed.event]
        match deed.did:
            case "changed":
                self._say("~", "changed", f"{deed.handler} changed {thing}{_sizes(deed)}", took)
            case "answered":
                self._say("~", "changed", f"{deed.handler} answered {thing}", took)
            case "denied":
                self._say("✗", "bad", f"{deed.handler} refused {thing}", took)
            case "asked":
                self._say("?", "asked", f"{deed.handler} asked a person", took)
            case _:
                self._say("!", "bad", f"{deed.handler}: {deed.did}", took)
        if deed.reason:
            self._screen.prose(deed.reason, indent=_INDENT + 2)
        if deed.did == "asked":
            self._screen.line(_answer(story), indent=_INDENT + 2)
        self._screen.compare(deed.rows, indent=_INDENT + 2)

    def _say(self, sign: str, style: Style, text: str, right: list[Span]) -> None:
        self._screen.line(Span(f"{sign} {text}", style), right=right, indent=_INDENT)


def _sizes(deed: Deed) -> str:
    """Tell by how much a text has shrunk, where that is what the change was for."""
    if deed.characters_after * 2 > deed.characters_before:
        return ""
    return f": {deed.characters_before:,} → {deed.characters_after:,} characters"


def _answer(story: CallStory) -> Span:
    if story.approved:
        return Span("yes, said the approver (the demo's script)", "good")
    return Span("no, said the approver", "bad")

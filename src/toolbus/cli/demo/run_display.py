"""The display of a run: each turn and each call on the screen as it happens."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from toolbus.bus.ledger.records import is_notable, sign_of
from toolbus.cli.output.blocks import write_invocation
from toolbus.cli.output.screen import Screen, excerpt
from toolbus.events.catalogue import MESSAGE_APPEND_AFTER, TOOL_CALL_AFTER
from toolbus.history.descriptions import describe
from toolbus.messages.records import AssistantMessage, ToolCall, ToolMessage
from toolbus.settings.spans import Span

if TYPE_CHECKING:
    from toolbus.bus.ledger.records import DispatchRecord, HandlerEntry
    from toolbus.events.catalogue import ToolCallOutcome

_INDENT = 5


class RunDisplay:
    """A sink for `bus.tap(…, values=True)` that shows a run on *screen*.

    *outcomes* are the ended calls in the order of the transcript, *interventions* the ids of the
    calls in which a component acted, by its name.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._records: defaultdict[str, list[DispatchRecord]] = defaultdict(list)
        self.outcomes: list[ToolCallOutcome] = []
        self.interventions: defaultdict[str, list[str]] = defaultdict(list)

    def __call__(self, record: DispatchRecord) -> None:
        """Collect the records of each call; show a turn as it begins and a call as it ends."""
        if record.call_id:
            self._records[record.call_id].append(record)
        if record.event != MESSAGE_APPEND_AFTER.name:
            return
        if isinstance(record.value, ToolMessage):
            self._show_call(self._records.pop(record.call_id))
        elif isinstance(record.value, AssistantMessage) and record.value.tool_calls:
            turn = Span(f"turn {record.scope.turn}", "strong")
            self._screen.line()
            self._screen.line(turn, Span(f"  {record.value.text}", "dim"))

    def _show_call(self, records: list[DispatchRecord]) -> None:
        """Show a call from its *records*, and below it what handlers did to it."""
        (outcome,) = [each.value for each in records if each.event == TOOL_CALL_AFTER.name]
        self.outcomes.append(outcome)
        call, exit_status = outcome.requested, outcome.response.metadata.get("exit_status")
        status = Span(outcome.status, "good" if outcome.status == "ok" else "bad")
        if exit_status:
            status = Span(f"exit status {exit_status}", "bad")
        values = [text for text in map(str, call.arguments.values()) if "\n" not in text]
        head = ("  ", Span(call.name, "strong"), f" {' '.join(values)}")
        self._screen.line(*head, right=[status])
        for record in records:
            for entry in record.entries:
                if is_notable(entry.status):
                    self.interventions[entry.name.partition(".")[0]].append(call.id)
                    _show_intervention(self._screen, record, entry)


def _show_intervention(screen: Screen, record: DispatchRecord, entry: HandlerEntry) -> None:
    text = f"{entry.name} {describe(entry.status, record.event)}"
    write_invocation(screen, entry, [Span(text, sign_of(entry.status).style)], indent=_INDENT)
    rows = excerpt(_text_of(entry.value_before), _text_of(entry.value_after))
    screen.compare(rows, indent=_INDENT + 2)


def _text_of(value: Any) -> str:
    """Return the part of *value* that a person compares."""
    match value:
        case ToolMessage(text=text):
            return text
        case ToolCall(arguments=arguments):
            return "\n".join(map(str, arguments.values()))
    return ""

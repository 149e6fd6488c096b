"""What handlers did in a dispatch, as its context and, if there is one, its record tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.bus.ledger.wording import FAILURES, describe_actors
from toolbus.messages.records import changed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolbus.bus.bus import EventBus
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.events.catalogue import Event
    from toolbus.replay.findings import Outcome

_OF_ADAPTERS = ("._on_tool_call_before_adapter", "._on_message_append_before_adapter")


class Deed(NamedTuple):
    """How a dispatch ended, why, and by whom."""

    outcome: Outcome
    reason: str | None = None
    by: tuple[str, ...] = ()


def only_adapters(bus: EventBus, events: Iterable[Event]) -> bool:
    """Tell whether all handlers of *events* are those that components bring for their adapters."""
    names = [one.name for event in events for one in bus.handlers(event)]
    return not bus.dry_run and all(name.endswith(_OF_ADAPTERS) for name in names)


def deed_of_adapters(context: EventContext[Any]) -> Deed | None:
    """Return what was done where all handlers are those of adapters, None if nothing was.

    Their steps tell what a record of the ledger would, which takes longer to write; only a
    refusal has none, and its reason names the adapter.
    """
    if context.rejected:
        return Deed("rejected", context.rejected.reason, (context.rejected.handler,))
    if context.denied:
        return Deed("denied", context.denied.reason, _adapters(context))
    before, after = context.original, context.value
    if after is not before and changed(before, after):
        return Deed("changed", None, _adapters(context))
    for step in context.steps:
        if step.failed:
            return Deed("failed", None, _adapters(context))
    return None


def _adapters(context: EventContext[Any]) -> tuple[str, ...]:
    """Return the names of the adapters that acted, in order."""
    return tuple(
        [
            f"{step.name} ({step.failed})" if step.failed else step.name
            for step in context.steps
            if step.failed or step.after is not step.before
        ]
    )


def deed_of_record(record: DispatchRecord) -> Deed | None:
    """Return what *record* says that was done, None if all was left as it was.

    On a bus in a dry run that is what would have been done.
    """
    outcome = _outcome(record)
    return (
        None if outcome is None else Deed(outcome, _reason(record), describe_actors(record.entries))
    )


def _outcome(record: DispatchRecord) -> Outcome | None:
    match record.outcome:
        case "answered" | "denied" | "asked" | "rejected" | "raised":
            return record.outcome
    statuses = {entry.status for entry in record.entries}
    if "denied" in statuses:
        return "denied"
    if "asked" in statuses:
        return "asked"
    if record.outcome == "changed":
        return "changed"
    return None if FAILURES.isdisjoint(statuses) else "failed"


def _reason(record: DispatchRecord) -> str | None:
    """Return why it was refused or asked; in a dry run that is with the handlers alone."""
    said = [
        one.reason for one in record.entries if one.status in {"denied", "asked"} and one.reason
    ]
    return record.reason or "\n".join(said) or None

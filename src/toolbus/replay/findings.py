"""The findings of a replay: the effects of handlers on calls and messages, and their counts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from msgspec import Struct, field

from toolbus.bus.ledger.records import FAILURES, is_notable
from toolbus.settings.differences import Difference

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolbus.bus.ledger.records import DispatchRecord, HandlerEntry

Outcome = Literal[
    "changed",
    "answered",
    "denied",
    "asked",
    "rejected",
    "raised",
    "failed",
    "permitted",
    "unjudged",
    "refused",
]
"""The effect of the handlers on a call or a message.

"rejected": a handler broke the arguments or the result; "raised": a handler with the policy
"raise" raised, which ends a live run; "failed": a handler failed open; "permitted": the recording
denied a call that these handlers do not deny; "unjudged": no handler saw the call, since the
recording lacks some of its arguments; "refused": a person said no in the recording.
"""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class ReplayFinding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The effect of the handlers on one call or message.

    *subject* is the id of the call or message, *role* the message's role or "call"; *by* names the
    acting handlers and adapters, *reads* is the text that the model would read instead of a result.
    """

    session: str
    role: str
    subject: str
    tool: str = ""
    outcome: Outcome
    reason: str | None = None
    by: tuple[str, ...] = ()
    changes: tuple[Difference, ...] = ()
    reads: str | None = None


class ReplayTotals(Struct, kw_only=True):
    """The counts of a replay: its input, and the findings by outcome."""

    sessions: int = 0
    messages: int = 0
    calls: int = 0
    results_dropped: int = 0
    unanswered: int = 0
    unreadable: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)


class DispatchSummary(NamedTuple):
    """The outcome of a dispatch, its reason, and the acting handlers."""

    outcome: Outcome
    reason: str | None = None
    by: tuple[str, ...] = ()


def summarize(record: DispatchRecord) -> DispatchSummary | None:
    """Return the outcome of *record*, None if nothing was changed.

    On a bus in a dry run it is the outcome that a live run would have.
    """
    outcome = _outcome(record)
    if outcome is None:
        return None
    # In a dry run only the handlers have the reason of a refusal.
    refusals = [entry for entry in record.entries if entry.status in {"denied", "asked"}]
    reason = (
        record.reason or "\n".join([entry.reason for entry in refusals if entry.reason]) or None
    )
    return DispatchSummary(outcome, reason, describe_actors(record.entries))


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


def describe_actors(entries: Iterable[HandlerEntry]) -> tuple[str, ...]:
    """Return the names of the handlers that acted, with the reasons of failures.

    An example is `("normalise", "audit (raised an error)")`.
    """
    return tuple(
        [
            f"{entry.name} ({entry.reason or entry.status})"
            if entry.status in FAILURES
            else entry.name
            for entry in entries
            if is_notable(entry.status)
        ]
    )

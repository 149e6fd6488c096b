"""What a replay finds: what handlers did to a call or message, and how often of each kind."""

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
"""What became of a call or a message.

"rejected": a handler broke the arguments or the result; "raised": a handler with the policy
"raise" did, and a live run would have ended; "failed": one failed open; "permitted": a call that
the recording denied, and these handlers do not; "unjudged": what they say of a call says nothing,
for the recording has not all of its arguments; "refused": a person said no in the recording.
"""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class ReplayFinding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the handlers did to one call or message.

    *subject* is the id of the call or message, *role* the message's role or "call"; *by* names the
    handlers and adapters that acted, *reads* is what the model would read in place of a result.
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
    """How much was replayed, and what came of it."""

    sessions: int = 0
    messages: int = 0
    calls: int = 0
    results_dropped: int = 0
    unanswered: int = 0
    unreadable: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)


class DispatchSummary(NamedTuple):
    """How a dispatch ended, why, and by whom."""

    outcome: Outcome
    reason: str | None = None
    by: tuple[str, ...] = ()


def summarize(record: DispatchRecord) -> DispatchSummary | None:
    """Return what *record* says that was done, None if all was left as it was.

    On a bus in a dry run that is what would have been done.
    """
    outcome = _outcome(record)
    if outcome is None:
        return None
    # In a dry run a refusal's reason is with the handlers alone.
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
    """Return the names of the handlers that did something, with the reasons of those that failed.

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

"""What a record of the ledger says that the handlers did."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolbus.ledger import DispatchRecord
    from toolbus.replaying.findings import Outcome

_ACTED = frozenset({"changed", "answered", "denied", "asked", "rejected"})
_FAILED = frozenset({"failed", "timeout", "contract"})


def outcome_of(record: DispatchRecord) -> Outcome | None:
    """Return what the handlers did, None if they left all as it was.

    On a bus in a dry run that is what they would have done.
    """
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
    return None if _FAILED.isdisjoint(statuses) else "failed"


def reason_of(record: DispatchRecord) -> str | None:
    """Return why it was refused or asked; in a dry run that is with the handlers alone."""
    said = [
        one.reason for one in record.entries if one.status in {"denied", "asked"} and one.reason
    ]
    return record.reason or "\n".join(said) or None


def actors_of(record: DispatchRecord) -> tuple[str, ...]:
    """Return the names of the handlers that acted, in order."""
    names: list[str] = []
    for entry in record.entries:
        if entry.status in _ACTED:
            names.append(entry.name)
        elif entry.status in _FAILED:
            names.append(f"{entry.name} ({entry.reason or entry.status})")
    return tuple(names)

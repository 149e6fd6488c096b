"""Words of the reports: sessions, times, and what a handler did."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from toolbus.bus.ledger.records import FAILURES
from toolbus.components.components import LATE
from toolbus.events.catalogue import (
    MCP_REQUEST_BEFORE,
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    MODEL_CALL_BEFORE,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOLS_PROVIDE,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.bus.ledger.records import HandlerEntry, HandlerStatus
    from toolbus.store.store_reader import SessionRow

_SUBJECTS = {
    TOOL_CALL_BEFORE.name: "the call",
    TOOL_CALL_ERROR.name: "the failure",
    MESSAGE_APPEND_BEFORE.name: "the message",
    MESSAGE_PERSIST_BEFORE.name: "the stored copy",
    MODEL_CALL_BEFORE.name: "the request",
    TOOLS_PROVIDE.name: "the tools",
    MCP_REQUEST_BEFORE.name: "the request",
}
"""By event the value that its handlers act on."""

_VERBS: dict[HandlerStatus, str] = {
    "asked": "required approval of",
    "failed": "failed at",
    "timeout": "timed out at",
    "contract": "broke its contract at",
    "rejected": "broke",
}
"""The verbs of the statuses that are not verbs themselves."""


_LAST_SECOND = 253_402_300_799
"""The end of the year 9999, the last time that has a date here."""


def describe(status: HandlerStatus, event: str, subject_id: str = "") -> str:
    """Return what a handler of *event* did, such as "changed the call call-1"."""
    if event not in _SUBJECTS:
        return f"{status} at {event}"
    return f"{_VERBS.get(status, status)} {_SUBJECTS[event]} {subject_id}".rstrip()


def describe_change(fields: Sequence[str], before: int, after: int) -> str:
    """Return a change in words, such as "arguments: 74 → 67 bytes"."""
    names = f"{', '.join(fields)}: " if fields else ""
    return f"{names}{before:,} → {after:,} bytes"


def describe_priority(priority: int) -> str:
    """Return *priority* as a number, or "late" for a handler behind all others."""
    return f"{priority:>4}" if priority > LATE // 2 else "late"


def describe_idleness(entry: HandlerEntry, earlier: Sequence[HandlerEntry]) -> str | None:
    """Return why a handler did not run, given the *earlier* entries; None if it ran."""
    if entry.status == "skipped":
        return "another sender, a false `when`, or disabled"
    if entry.status != "not_run":
        return None
    final = {"denied", "answered", "rejected", *FAILURES}
    ends = [previous for previous in earlier if previous.status in final]
    if not ends:
        return "the dispatch had ended"
    return f"{ends[-1].name} had ended the dispatch: {ends[-1].status}"


def session_facts(session: SessionRow) -> dict[str, object]:
    """Return the fields of a session for JSON."""
    return {name: value for name, value in session._asdict().items() if name != "key"}


def utc_time(time_ns: int) -> str:
    """Return a time since the epoch in UTC, to the second; a damaged row may have any number."""
    seconds = max(0, min(time_ns // 10**9, _LAST_SECOND))
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"

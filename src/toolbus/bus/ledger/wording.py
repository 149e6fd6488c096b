"""What a handler did, in words and signs: the one place from which every report takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.events.catalogue import (
    MCP_REQUEST_BEFORE,
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    MODEL_CALL_BEFORE,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOLS_PROVIDE,
)
from toolbus.settings.spans import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.bus.ledger.records import HandlerEntry, HandlerStatus, Outcome

FAILURES: frozenset[HandlerStatus] = frozenset({"failed", "timeout", "contract"})
"""How a handler can fail; what that does to the dispatch is a matter of its policy."""

_SUBJECTS = {
    TOOL_CALL_BEFORE.name: "the call",
    TOOL_CALL_ERROR.name: "the failure",
    MESSAGE_APPEND_BEFORE.name: "the message",
    MESSAGE_PERSIST_BEFORE.name: "the stored copy",
    MODEL_CALL_BEFORE.name: "the request",
    TOOLS_PROVIDE.name: "the tools",
    MCP_REQUEST_BEFORE.name: "the request",
}
"""What the handlers of an event act on."""

_VERBS: dict[HandlerStatus, str] = {
    "asked": "asked a person about",
    "failed": "failed at",
    "timeout": "timed out at",
    "contract": "broke its contract at",
    "rejected": "broke",
}
"""Where the status alone is no verb that takes the subject."""

_SIGNS: dict[HandlerStatus | Outcome, Span] = {
    "changed": Span("~", "changed"),
    "answered": Span("=", "changed"),
    "denied": Span("✗", "bad"),
    "asked": Span("?", "asked"),
    "failed": Span("!", "bad"),
    "timeout": Span("!", "bad"),
    "contract": Span("!", "bad"),
    "rejected": Span("!", "bad"),
    "raised": Span("!", "bad"),
}


def is_notable(status: HandlerStatus) -> bool:
    """Tell whether a handler of that *status* changed, refused or broke something."""
    return status in _SIGNS


def sign_of(status: HandlerStatus | Outcome) -> Span:
    """Return the sign of what a handler or a dispatch did, a dot if it left all as it was."""
    return _SIGNS.get(status, Span("·", "dim"))


def describe(status: HandlerStatus, event: str, subject_id: str = "") -> str:
    """Return what a handler of *event* did, such as "changed the call call-1"."""
    if event not in _SUBJECTS:
        return f"{status} at {event}"
    return f"{_VERBS.get(status, status)} {_SUBJECTS[event]} {subject_id}".rstrip()


def describe_change(fields: Sequence[str], before: int, after: int, unit: str = "bytes") -> str:
    """Return what a change was, such as "arguments: 74 → 67 bytes"."""
    names = f"{', '.join(fields)}: " if fields else ""
    return f"{names}{before:,} → {after:,} {unit}"


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


def describe_idleness(entry: HandlerEntry, earlier: Sequence[HandlerEntry]) -> str | None:
    """Return why a handler did not run, given the *earlier* entries; None if it did."""
    if entry.status == "skipped":
        return "another sender, its `when` said no, or it was disabled"
    if entry.status != "not_run":
        return None
    final = {"denied", "answered", "rejected", *FAILURES}
    ends = [previous for previous in earlier if previous.status in final]
    if not ends:
        return "the dispatch had ended"
    return f"{ends[-1].name} had ended the dispatch: {ends[-1].status}"

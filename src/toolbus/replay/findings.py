"""What a replay finds: what handlers did to a call or message, and how often of each kind."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, Struct, UnsetType, field, to_builtins

from toolbus.messages.records import changed

if TYPE_CHECKING:
    from collections.abc import Iterator

Outcome = Literal[
    "changed", "answered", "denied", "asked", "rejected", "raised", "failed", "permitted"
]
"""What became of a call or a message.

"rejected": a handler broke the arguments or the result; "raised": a handler with the policy
"raise" did, and a live run would have ended; "failed": one failed open; "permitted": a call that
the recording denied, and these handlers do not.
"""

OUTCOMES: tuple[Outcome, ...] = (
    "changed",
    "answered",
    "denied",
    "asked",
    "rejected",
    "raised",
    "failed",
    "permitted",
)


class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A JSON value at *path* before and after; one that is not there is left out."""

    path: str
    before: Any = UNSET
    after: Any = UNSET


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the handlers did to one call or message.

    *subject* is the id of the call or message, *role* says which; *by* names the handlers and
    adapters that acted, and *reads* is what the model would have read in place of a result.
    """

    session: str
    role: str
    subject: str
    tool: str = ""
    outcome: Outcome
    reason: str | None = None
    by: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    reads: str | None = None


class Totals(Struct, kw_only=True):
    """How much was replayed, and what came of it."""

    sessions: int = 0
    messages: int = 0
    calls: int = 0
    results_dropped: int = 0
    unanswered: int = 0
    unreadable: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)


def differences(before: Any, after: Any) -> tuple[Change, ...]:
    """Return what differs between two records or JSON values, field by field."""
    return tuple(_walk(to_builtins(before), to_builtins(after), ""))


def _walk(before: Any, after: Any, path: str) -> Iterator[Change]:
    match before, after:
        case dict(), dict():
            for key in {**before, **after}:
                step = f"{path}.{key}" if path else str(key)
                yield from _walk(before.get(key, UNSET), after.get(key, UNSET), step)
        case list() | tuple(), list() | tuple():
            for at in range(max(len(before), len(after))):
                old = before[at] if at < len(before) else UNSET
                new = after[at] if at < len(after) else UNSET
                yield from _walk(old, new, f"{path}[{at}]")
        case (UnsetType(), _) | (_, UnsetType()):
            if before is not after:
                yield Change(path=path, before=before, after=after)
        case _ if changed(before, after):
            yield Change(path=path, before=before, after=after)

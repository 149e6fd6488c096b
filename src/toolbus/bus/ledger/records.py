"""The ledger's records of dispatches and handlers, and the signs for them in reports."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from toolbus.events.catalogue import Scope
from toolbus.settings.spans import Span

HandlerKind = Literal["observer", "transformer", "guard"]
HandlerStatus = Literal[
    "ran",
    "changed",
    "answered",
    "denied",
    "asked",
    "failed",
    "timeout",
    "contract",
    "rejected",
    "queued",
    "skipped",
    "not_run",
]
Outcome = Literal[
    "observed", "unchanged", "changed", "answered", "denied", "asked", "rejected", "raised"
]

FAILURES: frozenset[HandlerStatus] = frozenset({"failed", "timeout", "contract"})
"""The failures of a handler; their effect on the dispatch depends on its policy."""

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


class Cause(Struct, frozen=True):
    """The reason of a handler's status, for all readers, and its *detail*, for operators only."""

    reason: str | None = None
    detail: str | None = None


NO_CAUSE = Cause()


class HandlerEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The entry of one handler, or of one adapter of a handler, in one dispatch.

    *before* and *after* are digests, the sizes bytes of the encoded values, *fields* the names of
    the changed fields; the values are present only if the tap asked for them. *detail* is for
    operators: of a denial, or a failed handler's error; a store has only its digest. A *composite*
    handler only runs parts, which have entries of their own.
    """

    name: str
    priority: int
    kind: HandlerKind
    status: HandlerStatus
    reason: str | None = None
    detail: str | None = None
    detail_digest: str = ""
    duration_ns: int = 0
    fields: tuple[str, ...] = ()
    before: str | None = None
    after: str | None = None
    size_before: int = 0
    size_after: int = 0
    value_before: Any = None
    value_after: Any = None
    composite: bool = False


class DispatchRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One dispatch: its scope, the entry of every registered handler, and the outcome.

    *subject* is the id of the message or call in the value, *call_id* the tool call's;
    *started_ns* is wall-clock time since the epoch, durations are monotonic. *original* is the
    digest of the dispatched value, *size* the bytes of its encoding. The *value* itself and the
    *result* of the handlers (a value or an answer) are present only if the tap asked for values.
    """

    event: str
    scope: Scope
    subject: str = ""
    call_id: str = ""
    started_ns: int
    duration_ns: int
    outcome: Outcome
    reason: str | None = None
    original: str
    size: int = 0
    entries: tuple[HandlerEntry, ...] = ()
    value: Any = None
    result: Any = None

    def without_values(self) -> DispatchRecord:
        """Return this record with digests of values only, the same object if it has no values."""
        if self.value is self.result is None and not any(map(_has_values, self.entries)):
            return self
        bare = [replace(entry, value_before=None, value_after=None) for entry in self.entries]
        return replace(self, entries=tuple(bare), value=None, result=None)

    def without_details(self) -> DispatchRecord:
        """Return this record with digests of details only, the same object if it has none."""
        if all(entry.detail is None for entry in self.entries):
            return self
        bare = [replace(entry, detail=None) for entry in self.entries]
        return replace(self, entries=tuple(bare))


def _has_values(entry: HandlerEntry) -> bool:
    return not (entry.value_before is entry.value_after is None)


def is_notable(status: HandlerStatus) -> bool:
    """Return whether a handler of that *status* changed, refused or broke something."""
    return status in _SIGNS


def sign_of(status: HandlerStatus | Outcome) -> Span:
    """Return the sign of a handler's or dispatch's status, a dot for an unchanged value."""
    return _SIGNS.get(status, Span("·", "dim"))

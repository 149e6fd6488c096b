"""Records of what handlers did, and the trace that writes them during a dispatch."""

from __future__ import annotations

from hashlib import blake2b
from secrets import token_bytes
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import fields, replace

from toolbus.events import ModelReply, Scope, ToolCallFailure, ToolCallOutcome, ToolCallPersist
from toolbus.messages import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    changed,
    encode,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


class HandlerEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one handler, or one adapter of a handler, did in one dispatch.

    *before* and *after* are digests, *fields* the names of what changed between them; the
    values themselves are there only if the tap asked for them.
    """

    name: str
    priority: int
    kind: HandlerKind
    status: HandlerStatus
    reason: str | None = None
    duration_ns: int = 0
    fields: tuple[str, ...] = ()
    before: str | None = None
    after: str | None = None
    value_before: Any = None
    value_after: Any = None


class DispatchRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One dispatch: who spoke, what every registered handler did, and how it ended.

    *subject* is the id of the message or call in question, *call_id* the tool call's;
    *started_ns* is wall-clock time since the epoch, durations are monotonic.
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
    entries: tuple[HandlerEntry, ...] = ()

    def without_values(self) -> DispatchRecord:
        """Return this record with digests only."""
        bare = [replace(entry, value_before=None, value_after=None) for entry in self.entries]
        return replace(self, entries=tuple(bare))


class Named(Protocol):
    """What the ledger needs to know of a handler."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def priority(self) -> int:
        """Its place in the order; higher runs first."""

    @property
    def kind(self) -> HandlerKind:
        """What it may do."""


class StepTaken(Protocol):
    """What the ledger needs to know of one step of a handler."""

    @property
    def name(self) -> str:
        """The adapter's name."""

    @property
    def before(self) -> object:
        """The value that it got."""

    @property
    def after(self) -> object:
        """The value that it left."""

    @property
    def failed(self) -> str | None:
        """Why it failed, or None."""

    @property
    def ended_ns(self) -> int:
        """When it was done, by `perf_counter_ns`."""


class Digests:
    """Keyed digests: equal for equal values, and no way to guess a short secret from one."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or token_bytes(32)

    def of(self, value: object) -> str:
        """Return the digest of the encoded *value*, or "" of one that has no encoding."""
        try:
            data = encode(value)
        except (TypeError, ValueError, RecursionError):
            return ""
        return blake2b(data, digest_size=16, key=self._key).hexdigest()


class Trace:
    """The record of one dispatch in the making."""

    __slots__ = ("_digests", "_entries", "_event", "_original", "_scope", "_since", "_started")

    def __init__(self, event: str, value: object, scope: Scope, digests: Digests) -> None:
        self._event, self._scope, self._digests = event, scope, digests
        self._original = (value, digests.of(value))
        self._entries: list[HandlerEntry] = []
        self._started, self._since = time_ns(), perf_counter_ns()

    def add(
        self,
        handler: Named,
        status: HandlerStatus,
        since_ns: int = 0,
        *,
        reason: str | None = None,
        name: str | None = None,
        change: tuple[object, object] | None = None,
        duration_ns: int | None = None,
    ) -> None:
        """Note what *handler* did since *since_ns*; *name* is that of its adapter, if one acted."""
        if duration_ns is None:
            duration_ns = perf_counter_ns() - since_ns if since_ns else 0
        entry = HandlerEntry(
            name=name or handler.name,
            priority=handler.priority,
            kind=handler.kind,
            status=status,
            reason=reason,
            duration_ns=duration_ns,
        )
        self._entries.append(entry if change is None else self._with_change(entry, *change))

    def add_steps(
        self,
        handler: Named,
        steps: Sequence[StepTaken],
        status: HandlerStatus,
        since_ns: int,
        reason: str | None,
    ) -> None:
        """Note each of the *steps* under its own name, and *handler* if it failed itself."""
        for step in steps:
            moved = changed(step.before, step.after)
            done: HandlerStatus = "failed" if step.failed else "changed" if moved else "ran"
            if status == "rejected" and step is steps[-1]:
                done = status
            self.add(
                handler,
                done,
                reason=step.failed or (reason if done == "rejected" else None),
                name=step.name,
                change=(step.before, step.after) if moved else None,
                duration_ns=step.ended_ns - since_ns,
            )
            since_ns = step.ended_ns
        if status not in {"ran", "changed", "rejected"}:
            self.add(handler, status, since_ns, reason=reason)

    def missing(self, handlers: Iterable[Named]) -> None:
        """Note that *handlers* did not get their turn."""
        for handler in handlers:
            self.add(handler, "not_run")

    def finish(self, outcome: Outcome, reason: str | None = None) -> DispatchRecord:
        """Return the record."""
        value, digest = self._original
        subject, call_id = _ids(value)
        return DispatchRecord(
            event=self._event,
            scope=self._scope,
            subject=subject,
            call_id=call_id,
            started_ns=self._started,
            duration_ns=perf_counter_ns() - self._since,
            outcome=outcome,
            reason=reason,
            original=digest,
            entries=tuple(self._entries),
        )

    def _with_change(self, entry: HandlerEntry, before: object, after: object) -> HandlerEntry:
        return replace(
            entry,
            fields=changed_fields(before, after),
            before=self._digests.of(before),
            after=self._digests.of(after),
            value_before=before,
            value_after=after,
        )


def changed_fields(before: object, after: object) -> tuple[str, ...]:
    """Return the names of the fields in which two records of one type differ."""
    if type(before) is not type(after) or not isinstance(before, Struct):
        return ()
    names = [field.name for field in fields(before)]
    pairs = [(name, getattr(before, name), getattr(after, name)) for name in names]
    return tuple([name for name, old, new in pairs if changed(old, new)])


def _ids(value: object) -> tuple[str, str]:
    """Return the id of the message or call that *value* is about, and the tool call's id."""
    match value:
        case ToolMessage(id=own, tool_call_id=call_id):
            return own, call_id
        case SystemMessage(id=own) | UserMessage(id=own) | AssistantMessage(id=own):
            return own, ""
        case ToolCallOutcome(requested=call) | ToolCallFailure(call=call) | (ToolCall() as call):
            return call.id, call.id
        case ToolCallPersist(tool_message_id=own, tool_call_id=call_id):
            return own, call_id
        case ModelReply(message=message):
            return message.id, ""
    return "", ""

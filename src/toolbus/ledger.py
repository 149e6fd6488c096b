"""Records of what handlers did, and the trace that writes them during a dispatch."""

from __future__ import annotations

import os
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from toolbus.events import Scope
from toolbus.messages import changed, encode
from toolbus.subjects import ids_of

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

    *before* and *after* are digests, the sizes bytes of the encoded values, *fields* the names
    of what changed between them; the values are there only if the tap asked for them.
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
    size_before: int = 0
    size_after: int = 0
    value_before: Any = None
    value_after: Any = None


class DispatchRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One dispatch: who spoke, what every registered handler did, and how it ended.

    *subject* is the id of the message or call in question, *call_id* the tool call's;
    *started_ns* is wall-clock time since the epoch, durations are monotonic. *original* is the
    digest of the value that was dispatched, *size* the bytes of its encoding; *value* itself, and
    the *result* that the handlers left (a value or an answer), are there only if the tap asked
    for values.
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
        """Return this record with digests only, the same object if it has no values."""
        if self.value is None and self.result is None and not any(map(_has_values, self.entries)):
            return self
        bare = [replace(entry, value_before=None, value_after=None) for entry in self.entries]
        return replace(self, entries=tuple(bare), value=None, result=None)


class Named(Protocol):
    """What the ledger needs to know of a handler."""

    name: str
    priority: int
    kind: HandlerKind


class StepTaken(Protocol):
    """What the ledger needs to know of one step of a handler; *failed* says why it failed."""

    name: str
    before: object
    after: object
    failed: str | None
    ended_ns: int


class Digests:
    """Keyed digests: equal for equal values, and no way to guess a short secret from one."""

    __slots__ = ("_keyed",)

    def __init__(self, key: bytes | None = None) -> None:
        from hashlib import blake2b  # noqa: PLC0415 - slow to import, needed with a tap only

        self._keyed = blake2b(digest_size=16, key=key or os.urandom(32))

    def of(self, value: object) -> str:
        """Return the digest of the encoded *value*, or "" of one that has no encoding."""
        return self.weigh(value)[0]

    def weigh(self, value: object) -> tuple[str, int]:
        """Return the digest of the encoded *value* and its bytes, ("", 0) without an encoding."""
        try:
            data = encode(value)
        except (TypeError, ValueError, RecursionError):
            return "", 0
        # A copy has the key in it already.
        digest = self._keyed.copy()
        digest.update(data)
        return digest.hexdigest(), len(data)


class Trace:
    """The record of one dispatch in the making; *turns* counts the handlers that are in it.

    Without *digests* those of the record are "".
    """

    def __init__(self, event: str, value: object, scope: Scope, digests: Digests | None) -> None:
        self._event, self._scope, self._digests = event, scope, digests
        self._original = self._latest = (value, *self._weighed(value))
        self._entries: list[HandlerEntry] = []
        self._started, self._since = time_ns(), perf_counter_ns()
        self.turns = 0

    def ran(self, handler: Named, since_ns: int, status: HandlerStatus = "ran") -> None:
        """Note that *handler* had its turn from *since_ns* on and changed nothing."""
        self.turns += 1
        self._entries.append(
            HandlerEntry(
                name=handler.name,
                priority=handler.priority,
                kind=handler.kind,
                status=status,
                duration_ns=perf_counter_ns() - since_ns,
            )
        )

    def add(
        self,
        handler: Named,
        status: HandlerStatus,
        since_ns: int = 0,
        *,
        reason: str | None = None,
        name: str | None = None,
        change: tuple[object, object] | None = None,
    ) -> None:
        """Note what *handler* did since *since_ns*; *name* is that of its adapter, if one acted.

        A *change* between values that are encoded alike is none.
        """
        self.turns += 1
        duration_ns = perf_counter_ns() - since_ns if since_ns else 0
        self._enter(handler, name or handler.name, status, reason, change, duration_ns)

    def add_steps(
        self,
        handler: Named,
        steps: Sequence[StepTaken],
        status: HandlerStatus,
        since_ns: int,
        reason: str | None,
        *,
        change: tuple[object, object] | None = None,
    ) -> None:
        """Note each of the *steps* under its own name, and what *handler* did besides.

        *change* is what the handler made of all; "rejected" without one is the last step's.
        """
        self.turns += 1
        step_rejected = status == "rejected" and change is None
        for step in steps:
            moved = (step.before, step.after) if step.after is not step.before else None
            done: HandlerStatus = "failed" if step.failed else "changed" if moved else "ran"
            if step_rejected and step is steps[-1]:
                done = status
            why = step.failed or (reason if done == "rejected" else None)
            self._enter(handler, step.name, done, why, moved, step.ended_ns - since_ns)
            since_ns = step.ended_ns
        duration_ns, left = perf_counter_ns() - since_ns, steps[-1].after
        if not step_rejected and status not in {"ran", "changed"}:
            self._enter(handler, handler.name, status, reason, change, duration_ns)
            return
        # It made another value of what the steps left, or dropped that.
        end = change[1] if change else steps[0].before if status == "ran" else left
        if end is not left:
            self._enter(handler, handler.name, "changed", None, (left, end), duration_ns)

    def missing(self, handlers: Iterable[Named]) -> None:
        """Note that *handlers* did not get their turn."""
        for handler in handlers:
            self.add(handler, "not_run")

    def finish(self, outcome: Outcome, reason: str | None = None) -> DispatchRecord:
        """Return the record."""
        value, digest, size = self._original
        subject, call_id = ids_of(value)
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
            size=size,
            entries=tuple(self._entries),
        )

    def _enter(  # noqa: PLR0917 - private, and each of its calls is one line
        self,
        handler: Named,
        name: str,
        status: HandlerStatus,
        reason: str | None,
        change: tuple[object, object] | None,
        duration_ns: int,
    ) -> None:
        moved = change is not None and changed(*change)
        entry = HandlerEntry(
            name=name,
            priority=handler.priority,
            kind=handler.kind,
            status="ran" if status == "changed" and not moved else status,
            reason=reason,
            duration_ns=duration_ns,
        )
        self._entries.append(self._with_change(entry, *change) if change and moved else entry)

    def _with_change(self, entry: HandlerEntry, before: object, after: object) -> HandlerEntry:
        digest_before, size_before = self._weigh(before)
        digest_after, size_after = self._weigh(after)
        return replace(
            entry,
            fields=changed_fields(before, after),
            before=digest_before,
            after=digest_after,
            size_before=size_before,
            size_after=size_after,
            value_before=before,
            value_after=after,
        )

    def _weigh(self, value: object) -> tuple[str, int]:
        # What one handler left is what the next one gets, so most digests are known.
        if value is not self._latest[0]:
            self._latest = (value, *self._weighed(value))
        return self._latest[1:]

    def _weighed(self, value: object) -> tuple[str, int]:
        return self._digests.weigh(value) if self._digests else ("", 0)


def _has_values(entry: HandlerEntry) -> bool:
    return entry.value_before is not None or entry.value_after is not None


def changed_fields(before: object, after: object) -> tuple[str, ...]:
    """Return the names of the fields in which two records of one type differ."""
    if type(before) is not type(after) or not isinstance(before, Struct):
        return ()
    # Not `msgspec.structs.fields`: that evaluates annotations, and those of users may be for
    # type checkers only.
    names = before.__struct_fields__
    pairs = [(name, getattr(before, name), getattr(after, name)) for name in names]
    return tuple([name for name, old, new in pairs if changed(old, new)])

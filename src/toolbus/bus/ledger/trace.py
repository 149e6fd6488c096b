"""The trace of one dispatch, which becomes a record, and the digests in it."""

from __future__ import annotations

import os
from functools import lru_cache
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from toolbus.bus.ledger.records import NO_CAUSE, Cause, DispatchRecord, HandlerEntry
from toolbus.events.subjects import ids_of
from toolbus.messages.records import changed, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.bus.dispatch.bindings import Binding
    from toolbus.bus.dispatch.details import HandlerStep, PartNote
    from toolbus.bus.ledger.records import HandlerKind, HandlerStatus, Outcome
    from toolbus.events.catalogue import Scope


class Digests:
    """Keyed digests: equal for equal values, useless for guessing a short secret."""

    __slots__ = ("_keyed",)

    def __init__(self, key: bytes | None = None) -> None:
        from hashlib import blake2b  # noqa: PLC0415 - slow to import, needed with a tap only

        self._keyed = blake2b(digest_size=16, key=key or os.urandom(32))

    def digest_and_size(self, value: object) -> tuple[str, int]:
        """Return digest and size in bytes of the encoded *value*, ("", 0) without an encoding."""
        try:
            data = encode(value)
        except (TypeError, ValueError, RecursionError):
            return "", 0
        # A copy includes the key.
        digest = self._keyed.copy()
        digest.update(data)
        return digest.hexdigest(), len(data)


class Trace:
    """The unfinished record of one dispatch to *handlers*, for the taps *readers*.

    *values* includes the values themselves. Without *digests* all digests are "".
    """

    def __init__(
        self,
        event: str,
        value: object,
        scope: Scope,
        digests: Digests | None,
        *,
        handlers: Sequence[Binding] = (),
        values: bool = True,
        readers: tuple[Any, ...] = (),
    ) -> None:
        self._event, self._scope, self._digests = event, scope, digests
        self._handlers, self.values = handlers, values
        self.readers = readers
        self._original = self._latest = (value, *self._measure_anew(value))
        self._entries: list[HandlerEntry] = []
        self._started, self._started_ns = time_ns(), perf_counter_ns()
        self._turns, self._turn_ns = 0, self._started_ns

    def add(
        self,
        handler: Binding,
        status: HandlerStatus,
        *,
        cause: Cause = NO_CAUSE,
        change: tuple[object, object] | None = None,
        steps: Sequence[HandlerStep] = (),
        notes: Iterable[PartNote] = (),
    ) -> None:
        """Add the entry of *handler*, whose turn ends now, with its *cause*.

        Each of its *steps* has an entry of its own; "rejected" without a *change* applies to the
        last step. A change between equally encoded values is not a change. The *notes* of its
        parts precede all that, with no duration.
        """
        while self._handlers[self._turns] is not handler:
            self._add_missed_turn()
        self._turns += 1
        for part in notes:
            make = _idle_entry if part.status == "not_run" else _entry_of
            self._entries.append(make(handler.priority, handler.kind, part))
        if steps:
            self._add_steps(handler, status, cause, change, steps)
        else:
            self._add_entry(handler, None, status, perf_counter_ns(), cause, change)

    def differs(self, value: object) -> bool:
        """Return whether the encoding of *value* differs from the dispatched value's."""
        original, digest, _ = self._original
        return value is not original and _differ(original, value, digest, self._measure(value)[0])

    def finish(
        self, outcome: Outcome, reason: str | None = None, result: object = None
    ) -> DispatchRecord:
        """Return the record with *result*; handlers without a turn so far will have none."""
        while self._turns < len(self._handlers):
            self._add_missed_turn()
        value, digest, size = self._original
        subject, call_id = ids_of(value)
        return DispatchRecord(
            event=self._event,
            scope=self._scope,
            subject=subject,
            call_id=call_id,
            started_ns=self._started,
            duration_ns=perf_counter_ns() - self._started_ns,
            outcome=outcome,
            reason=reason,
            original=digest,
            size=size,
            entries=tuple(self._entries),
            value=value if self.values else None,
            result=result if self.values else None,
        )

    def _add_missed_turn(self) -> None:
        handler = self._handlers[self._turns]
        self._turns += 1
        self._add_entry(handler, None, "not_run", self._turn_ns)

    def _add_steps(
        self,
        handler: Binding,
        status: HandlerStatus,
        cause: Cause,
        change: tuple[object, object] | None,
        steps: Sequence[HandlerStep],
    ) -> None:
        blamed = steps[-1] if status == "rejected" and change is None else None
        for step in steps:
            self._add_step(handler, step, cause if step is blamed else None)
        if blamed is not None:
            return
        if status in {"ran", "changed"}:
            # The handler may have replaced the value of its last step, or dropped it.
            stepped, result = steps[-1].after, _result_of(status, change, steps)
            if result is stepped:
                return
            status, cause, change = "changed", NO_CAUSE, (stepped, result)
        self._add_entry(handler, None, status, perf_counter_ns(), cause, change)

    def _add_step(self, handler: Binding, step: HandlerStep, rejected: Cause | None) -> None:
        status: HandlerStatus = "rejected" if rejected else "failed" if step.failed else "changed"
        cause = Cause(step.failed, step.detail) if step.failed else rejected or NO_CAUSE
        moved: tuple[object, object] | None = (step.before, step.after)
        if step.after is step.before:
            status, moved = ("ran" if status == "changed" else status), None
        self._add_entry(handler, step.name, status, step.ended_ns, cause, moved)

    def _add_entry(  # noqa: PLR0917 - private, and each of its calls is one line
        self,
        handler: Binding,
        part: str | None,
        status: HandlerStatus,
        ended_ns: int,
        cause: Cause = NO_CAUSE,
        change: tuple[object, object] | None = None,
    ) -> None:
        """Add the entry of *handler*, or of its *part*."""
        duration_ns, self._turn_ns = ended_ns - self._turn_ns, ended_ns
        entry = HandlerEntry(
            name=handler.name if part is None else part,
            priority=handler.priority,
            kind=handler.kind,
            status=status,
            reason=cause.reason,
            detail=cause.detail,
            detail_digest="" if cause.detail is None else self._measure_anew(cause.detail)[0],
            duration_ns=duration_ns,
            composite=handler.composite and part is None,
        )
        self._entries.append(entry if change is None else self._with_change(entry, *change))

    def _with_change(self, entry: HandlerEntry, before: object, after: object) -> HandlerEntry:
        """Return *entry* with the change, if the encodings differ."""
        (old, size_before), (new, size_after) = self._measure(before), self._measure(after)
        if not _differ(before, after, old, new):
            return replace(entry, status="ran") if entry.status == "changed" else entry
        return replace(
            entry,
            fields=changed_fields(before, after),
            before=old,
            after=new,
            size_before=size_before,
            size_after=size_after,
            value_before=before if self.values else None,
            value_after=after if self.values else None,
        )

    def _measure(self, value: object) -> tuple[str, int]:
        # The output of a handler is the input of the next one, so most digests are known.
        for known in (self._latest, self._original):
            if value is known[0]:
                return known[1:]
        self._latest = (value, *self._measure_anew(value))
        return self._latest[1:]

    def _measure_anew(self, value: object) -> tuple[str, int]:
        return self._digests.digest_and_size(value) if self._digests else ("", 0)


def _entry_of(priority: int, kind: HandlerKind, part: PartNote) -> HandlerEntry:
    return HandlerEntry(
        name=part.name, priority=priority, kind=kind, status=part.status, reason=part.reason
    )


# Shared by all dispatches: most of many rules are idle each time.
_idle_entry = lru_cache(maxsize=1_000)(_entry_of)


def _result_of(
    status: HandlerStatus, change: tuple[object, object] | None, steps: Sequence[HandlerStep]
) -> object:
    """Return the last value of a handler with *steps* that "ran" or "changed" the value."""
    if change is not None:
        return change[1]
    return steps[0].before if status == "ran" else steps[-1].after


def _differ(before: object, after: object, old: str, new: str) -> bool:
    """Return whether the encodings differ; *old* and *new* are the digests or ""."""
    return before is not after and (old != new if old else changed(before, after))


def changed_fields(before: object, after: object) -> tuple[str, ...]:
    """Return the names of the fields in which two records of one type differ."""
    if type(before) is not type(after) or not isinstance(before, Struct):
        return ()
    # Not `msgspec.structs.fields`, which evaluates annotations: users' may be for type checkers.
    names = before.__struct_fields__
    pairs = [(name, getattr(before, name), getattr(after, name)) for name in names]
    return tuple([name for name, old, new in pairs if changed(old, new)])

"""The emissions of a host: interceptors as handlers of an event, their combined verdict, a record.

Each interceptor is a transformer of `INTERCEPTION`, so the ledger has an entry for each. The
section numbers refer to AGENT-HOOKS-0.1.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from toolbus.bridges.agent_hooks.contract import (
    ALLOW,
    Context,
    ContractError,
    Verdict,
    check_context,
    context_of,
    host_error,
    transformed,
)
from toolbus.errors import FreezeError
from toolbus.events.catalogue import Deny, TransformEvent
from toolbus.messages.codec import changed
from toolbus.messages.fields import freeze_objects
from toolbus.messages.immutable import JsonObject
from toolbus.tasks.loops import set_context

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolbus.bridges.agent_hooks.contract import Point
    from toolbus.bridges.agent_hooks.seams import BoundInterceptor, HostOptions
    from toolbus.bus.bus import EventBus
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import Scope

Record = dict[str, Any]
logger = logging.getLogger("toolbus")


class Interception(Struct, frozen=True):
    """The value of `INTERCEPTION`: the *context* for the next interceptor."""

    context: JsonObject

    def __post_init__(self) -> None:
        freeze_objects(self, "context")


INTERCEPTION: TransformEvent[Interception, Interception | Deny] = TransformEvent(
    "agent_hooks:interception", Interception
)


class Emission:
    """The way of a *context* through the interceptors of *options* that are bound to its point.

    At the end *verdict* is the combined verdict, and *context* the value to go on with.
    """

    def __init__(self, context: Context, options: HostOptions) -> None:
        self.original = self.context = context
        point = context["interception_point"]
        self.active = [each for each in options.interceptors if each.runs_at(point)]
        self.verdict, self.is_over = ALLOW, False
        self.verdicts: list[Verdict] = []
        self.decided_by: int | None = None
        self.resolved_by: Literal["approval", "rejection"] | None = None
        self._composition, self._seam = options.composition, options.seam
        # Else a transform is only checked, and nothing waits for an approval, 8.
        self._applies = options.mode == "enforce"
        self._unified: list[Verdict] = []

    def awaits(self, interceptor: BoundInterceptor) -> bool:
        """Return whether *interceptor* is asked: the composition may be over."""
        return not self.is_over and interceptor.runs_at(self.context["interception_point"])

    async def hear(
        self, interceptor: BoundInterceptor, ctx: EventContext[Interception]
    ) -> Interception | Deny | None:
        """Ask *interceptor*, as a handler of `INTERCEPTION`; return its effect on the dispatch."""
        before, profile = self.context, self._composition.profile
        seen = self.original if self._composition.is_parallel else before
        place, verdict = len(self.verdicts), await interceptor.judge(seen)
        self.verdicts.append(verdict)
        self._unified.append(verdict)
        if profile == "sequential/first_deny" and not verdict.permits:
            await self._lift(place, verdict)
        elif verdict.transform is not None and not self._composition.is_parallel:
            folded = self._fold(place, verdict)
            if profile == "sequential/run_all":
                self.verdicts[place] = folded
        if self.is_over and not self.verdict.permits:
            return Deny(self.verdict.text)
        return None if self.context is before else replace(ctx.value, context=self.context)

    async def finish(self) -> None:
        """Combine the verdicts, once all interceptors were asked."""
        if not self.is_over and self._composition.profile != "sequential/first_deny":
            self._combine()
            if (lifted := await self._consult(self.verdict)) is not None:
                self._substitute(lifted)
        self.verdict = _with_unions(self.verdict, self._unified)

    def reject(self, error: ContractError) -> None:
        """Deny for *error* of the host itself, without the interceptors."""
        self._end(host_error(error), None)

    def _end(self, verdict: Verdict, place: int | None) -> Verdict:
        self.verdict, self.decided_by, self.is_over = verdict, place, True
        return verdict

    async def _lift(self, place: int, verdict: Verdict) -> None:
        """Put the resolver's verdict in place of *verdict*, a first denial, or end with it, 7.4."""
        lifted = await self._consult(verdict)
        if lifted is None or not lifted.permits:
            is_ours = lifted is not None and lifted.is_of_host
            self._end(lifted or verdict, None if is_ours else place)
            return
        if lifted.transform is not None:
            self._fold(place, lifted)
        if not self.is_over:
            self._unified.append(lifted)
            if self._composition.knob == "stop":
                self._end(lifted, place)

    def _fold(self, place: int | None, verdict: Verdict) -> Verdict:
        """Apply a transform; a failed transform denies, and ends the composition."""
        assert verdict.transform is not None  # noqa: S101 - the caller checked it
        try:
            context = transformed(self.context, verdict.transform)
        except ContractError as error:
            self._unified.clear()  # It carries nothing of the others.
            return self._end(host_error(error), None)
        if self._applies:
            self.context = context
        self.verdict, self.decided_by = verdict, place
        return verdict

    async def _consult(self, verdict: Verdict) -> Verdict | None:
        lifted = await self._seam.consult(self.context, verdict) if self._applies else None
        if lifted is not None:
            self.resolved_by = "approval" if lifted.permits else "rejection"
        return lifted

    def _substitute(self, lifted: Verdict) -> None:
        """Put *lifted* in place of the combined denial, 7.6."""
        if lifted.permits:
            self._unified.append(lifted)
        place = None if lifted.is_of_host else self.decided_by
        self.verdict, self.decided_by = lifted, place
        if lifted.transform is not None:
            self._fold(place, lifted)
            self.decided_by = place

    def _combine(self) -> None:
        """Set the strictest verdict, 7.3 and 7.5."""
        denials, changes = self._places("deny"), self._places("transform")
        if self._composition.profile == "parallel/unanimous" and (denials or changes):
            self._deny_together("composition_disagreement")
        elif denials:
            plain = [place for place in denials if not self.verdicts[place].is_liftable]
            self.decided_by = (plain or denials)[0]
            self.verdict = self.verdicts[self.decided_by]
        elif not changes:
            self.verdict = self.verdicts[0]
        elif self._composition.is_parallel and len(changes) > 1:
            self._deny_together("transform_conflict")
        elif self._composition.is_parallel:
            self._fold(changes[0], self.verdicts[changes[0]])

    def _places(self, decision: str) -> list[int]:
        return [place for place, each in enumerate(self.verdicts) if each.decision == decision]

    def _deny_together(self, reason: str) -> None:
        is_liftable = self._composition.knob == "approval"
        self.verdict = host_error(ContractError(reason), liftable=is_liftable)
        self.decided_by = None

    def facts(self) -> dict[str, Any]:
        """Return the optional parts of its record, 10.3."""
        summaries = [
            {"index": place, "decision": each.decision}
            | ({} if each.reason is None else {"reason": each.reason})
            | ({} if name is None else {"name": name})
            for place, (each, (_, name, *_)) in enumerate(
                zip(self.verdicts, self.active, strict=False)
            )
        ]
        parts: dict[str, Any] = {"verdicts": summaries} if summaries else {}
        if summaries and self._composition.profile == "sequential/first_deny":
            parts["fold_truncated"] = len(summaries) < len(self.active)
        return parts if self.resolved_by is None else {**parts, "resolved_by": self.resolved_by}


def _with_unions(combined: Verdict, verdicts: Sequence[Verdict]) -> Verdict:
    """Return *combined* with the warnings of all *verdicts* and the labels of permits, 7.3."""
    warnings = dict.fromkeys([each for verdict in verdicts for each in verdict.warnings or ()])
    labels: dict[str, None] = {}
    for verdict in verdicts if combined.permits else ():
        if verdict.permits:
            labels |= dict.fromkeys(verdict.result_labels or ())
    return replace(
        combined,
        warnings=tuple(warnings) or combined.warnings,
        result_labels=tuple(labels) or combined.result_labels,
    )


EMISSION: ContextVar[Emission] = ContextVar("toolbus_agent_hooks_emission")
"""The emission in whose dispatch this code runs."""


class Emitted(NamedTuple):
    """The end of an emission: its combined *verdict*, and the *target* to go on with."""

    verdict: Verdict
    target: Any
    proceeds: bool
    is_changed: bool


class HookEmitter:
    """Emits contexts to interceptors on a bus; *sink* gets each record at once."""

    def __init__(self, options: HostOptions, sink: Callable[[Record], object] | None) -> None:
        self.options, self._sink = options, sink
        self.records: deque[Record] = deque(maxlen=options.max_records)
        self._sequences: defaultdict[str, count[int]] = defaultdict(count)

    async def emit(self, bus: EventBus, scope: Scope, point: Point, **members: Any) -> Emitted:
        """Put a context of *point* to the interceptors, and record the end."""
        emission, identity = self._begin(scope, point, members), None
        try:
            identity = self._identify(emission.context)
            await self._dispatch(bus, scope, emission)
        except ContractError as error:
            emission.reject(error)
        except asyncio.CancelledError:
            # The record stays without a gap, and the action does not go on.
            emission.reject(ContractError("interceptor_failed", "CancelledError"))
            self._keep(emission, identity)
            raise
        return self._keep(emission, identity)

    def reject(self, scope: Scope, point: Point, error: ContractError, **members: Any) -> None:
        """Record a denial at *point* for *error* of the host itself."""
        emission = self._begin(scope, point, members)
        emission.reject(error)
        self._keep(emission, None)

    def forget(self, session_id: str) -> None:
        """Forget the sequence of an ended session."""
        self._sequences.pop(session_id, None)

    def _begin(self, scope: Scope, point: Point, members: dict[str, Any]) -> Emission:
        sequence = next(self._sequences[scope.session_id])
        return Emission(context_of(point, scope, sequence, **members), self.options)

    def _identify(self, context: Context) -> str | None:
        provider = self.options.seam.identity
        return None if provider is None else provider.identify(context)

    async def _dispatch(self, bus: EventBus, scope: Scope, emission: Emission) -> None:
        if not emission.active:
            raise ContractError("no_interceptor")
        try:
            value = Interception(emission.context)
        except FreezeError as error:
            raise ContractError("context_invalid", str(error)) from None
        with set_context(EMISSION, emission):
            end = await bus.apply(INTERCEPTION, value, scope=scope)
            if end.denied is not None and not emission.is_over:
                emission.reject(ContractError("interceptor_failed", end.denied.reason))
            await emission.finish()

    def _keep(self, emission: Emission, identity: str | None) -> Emitted:
        """Record the end of *emission*, whose context had *identity* at first; return it."""
        enforced = None
        try:
            check_context(emission.context)
            enforced = None if identity is None else self._identify(emission.context)
        except ContractError as error:
            # A transform has left no valid value, so nothing can go on with it.
            if emission.verdict.permits:
                emission.reject(error)
        record = self._record(emission, identity, enforced)
        self.records.append(record)
        try:
            if self._sink is not None:
                self._sink(record)
        except Exception:
            logger.exception("a record of agent-hooks could not be delivered")
        proceeds = self.options.mode == "evaluate_only" or emission.verdict.permits
        target = emission.context["target"]
        # Not by `==`, to which 1 and true are the same.
        is_changed = changed(emission.original["target"], target)
        return Emitted(emission.verdict, target, proceeds, is_changed)

    def _record(self, emission: Emission, identity: str | None, enforced: str | None) -> Record:
        """Return the record of *emission*, without any payload, 10.3."""
        context, options = emission.context, self.options
        provider, version = options.seam.identity, options.declaration
        record: Record = {
            "interception_point": context["interception_point"],
            "mode": options.mode,
            "verdict": emission.verdict.for_record(),
            "input_identity": identity,
            "enforced_identity": enforced,
            "identity_provider": None if provider is None else provider.name,
            "session_id": context["session"]["id"],
            "sequence": context["sequence"],
            "timestamp": context["timestamp"],
            "decided_by": emission.decided_by,
            "composition": options.composition.to_wire(),
            "interceptors_registered": len(emission.active),
        }
        return record | ({} if version is None else {"declaration": version}) | emission.facts()

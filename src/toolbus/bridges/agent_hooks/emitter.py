"""The emissions of a host: its sessions, its sequence, and a record for each emission."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from toolbus.bridges.agent_hooks.composition import (
    INTERCEPTION,
    Composition,
    Emission,
    Interception,
)
from toolbus.bridges.agent_hooks.mapping import ContractError, Verdict, check_context, context_of
from toolbus.bridges.agent_hooks.seams import ApproverResolver, BoundInterceptor, Seam
from toolbus.errors import FreezeError
from toolbus.messages.codec import changed

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bridges.agent_hooks.mapping import Point
    from toolbus.bridges.agent_hooks.seams import Context
    from toolbus.bus.bus import EventBus
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import Deny, Scope

Record = dict[str, Any]
logger = logging.getLogger("toolbus")
MAX_RECORDS = 1_000
"""The most records that stay in memory by default, as many as an agent keeps of its ledger."""


class HostOptions(Struct, frozen=True, kw_only=True):
    """The configuration of a host, by code or by a declaration, whose version it then has."""

    interceptors: tuple[BoundInterceptor, ...] = ()
    composition: Composition = Composition()
    mode: Literal["enforce", "evaluate_only"] = "enforce"
    seam: Seam = Seam()
    max_records: int | None = MAX_RECORDS
    declaration: str | None = None


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
        self._running: dict[str, Emission] = {}

    def attach(self, bus: EventBus) -> None:
        """Let an approver in place of a resolver ask its questions on *bus*."""
        seam = self.options.seam
        if seam.resolver is None or callable(getattr(seam.resolver, "resolve", None)):
            return
        asking = seam._replace(resolver=ApproverResolver(seam.resolver, bus), timeout=None)
        self.options = replace(self.options, seam=asking)

    def is_asked(self, interceptor: BoundInterceptor, ctx: EventContext[Interception]) -> bool:
        """Return whether *interceptor* gets this context: the composition may be over."""
        is_over = self._running[ctx.value.id].is_over
        return interceptor.runs_at(ctx.value.point) and not is_over

    async def hear(
        self, interceptor: BoundInterceptor, ctx: EventContext[Interception]
    ) -> Interception | Deny | None:
        """Ask *interceptor*, as a handler of `INTERCEPTION`."""
        return await self._running[ctx.value.id].hear(interceptor, ctx)

    async def emit(self, bus: EventBus, scope: Scope, point: Point, **members: Any) -> Emitted:
        """Put a context of *point* to the interceptors, and record the end."""
        context, emission = self._begin(scope, point, members)
        identity = self._identity_of(context, emission)
        try:
            if not emission.is_over:
                await self._dispatch(bus, scope, emission)
        except asyncio.CancelledError:
            # The record stays without a gap, and the action does not go on.
            emission.reject(ContractError("interceptor_failed", "CancelledError"))
            self._keep(emission, identity)
            raise
        return self._keep(emission, identity)

    def reject(self, scope: Scope, point: Point, error: ContractError, **members: Any) -> Emitted:
        """Record a denial at *point* for *error* of the host itself."""
        _, emission = self._begin(scope, point, members)
        emission.reject(error)
        return self._keep(emission, None)

    def forget(self, session_id: str) -> None:
        """Forget the sequence of an ended session."""
        self._sequences.pop(session_id, None)

    def _begin(
        self, scope: Scope, point: Point, members: dict[str, Any]
    ) -> tuple[Context, Emission]:
        options, sequence = self.options, next(self._sequences[scope.session_id])
        context = context_of(point, scope, sequence, **members)
        active = [each for each in options.interceptors if each.runs_at(point)]
        applies = options.mode == "enforce"
        emission = Emission(context, active, options.composition, options.seam, applies=applies)
        return context, emission

    def _identity_of(self, context: Context, emission: Emission) -> str | None:
        """Return the identity of *context*; without a valid identity the emission is over."""
        provider = self.options.seam.identity
        try:
            identity = None if provider is None else provider.identify(context)
        except ContractError as error:
            emission.reject(error)
            return None
        if not emission.active:
            emission.reject(ContractError("no_interceptor"))
        return identity

    async def _dispatch(self, bus: EventBus, scope: Scope, emission: Emission) -> None:
        context = emission.context
        key = f"{scope.session_id}/{context['sequence']}"
        try:
            value = Interception(key, context["interception_point"], context)
        except FreezeError as error:
            emission.reject(ContractError("context_invalid", str(error)))
            return
        self._running[key], emission.is_dispatched = emission, True
        try:
            end = await bus.apply(INTERCEPTION, value, scope=scope)
            if end.denied is not None and not emission.is_over:
                emission.reject(ContractError("interceptor_failed", end.denied.reason))
            await emission.finish()
        finally:
            del self._running[key]

    def _keep(self, emission: Emission, identity: str | None) -> Emitted:
        """Record the end of *emission*, whose context had *identity* at first; return it."""
        try:
            check_context(emission.context)
        except ContractError as error:
            # A transform has left no valid value, so nothing can go on with it.
            identity = None
            if emission.verdict.permits:
                emission.reject(error)
        enforced = None if identity is None else self._enforced(emission)
        record = self._record(emission, identity, enforced)
        self.records.append(record)
        self._deliver(record)
        proceeds = self.options.mode == "evaluate_only" or emission.verdict.permits
        target = emission.context["target"]
        # Not by `==`, to which 1 and true are the same.
        is_changed = changed(emission.original["target"], target)
        return Emitted(emission.verdict, target, proceeds, is_changed)

    def _deliver(self, record: Record) -> None:
        """Give *record* to the sink, whose failure changes no verdict."""
        if self._sink is None:
            return
        try:
            self._sink(record)
        except Exception:
            logger.exception("a record of agent-hooks could not be delivered")

    def _enforced(self, emission: Emission) -> str | None:
        """Return the identity of the final context; without it a permit becomes a denial."""
        provider = self.options.seam.identity
        try:
            return None if provider is None else provider.identify(emission.context)
        except ContractError as error:
            if emission.verdict.permits:
                emission.reject(error)
            return None

    def _record(self, emission: Emission, identity: str | None, enforced: str | None) -> Record:
        """Return the record of *emission*, without any payload, 10.3."""
        context, options = emission.context, self.options
        provider = options.seam.identity
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
        optional = {
            "declaration": options.declaration,
            "verdicts": emission.summaries or None,
            "fold_truncated": emission.is_truncated,
            "resolved_by": emission.resolved_by,
        }
        return record | {name: value for name, value in optional.items() if value is not None}

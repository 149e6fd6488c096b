"""The composition of interceptors at a point: handlers of an event, and their combined verdict.

Each interceptor is a transformer of `INTERCEPTION`, so the ledger has an entry for each. The
section numbers refer to AGENT-HOOKS-0.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from toolbus.bridges.agent_hooks.mapping import (
    ALLOW,
    ContractError,
    Verdict,
    host_error,
    transformed,
)
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import Deny, TransformEvent
from toolbus.messages.fields import freeze_objects
from toolbus.messages.immutable import JsonObject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.bridges.agent_hooks.seams import BoundInterceptor, Context, Seam
    from toolbus.bus.dispatch.contexts import EventContext

KNOBS: dict[str, dict[str, tuple[str, str]]] = {
    "sequential/first_deny": {"on_approval": ("stop", "resume")},
    "sequential/run_all": {},
    "parallel/strictest": {"on_transform_conflict": ("deny", "approval")},
    "parallel/unanimous": {"on_disagreement": ("deny", "approval")},
}
"""The knob of each profile, 7.2, and its values, the default first."""


class Interception(Struct, frozen=True):
    """The value of `INTERCEPTION`: the *context* for the next interceptor."""

    id: str
    point: str
    context: JsonObject

    def __post_init__(self) -> None:
        freeze_objects(self, "context")


INTERCEPTION: TransformEvent[Interception, Interception | Deny] = TransformEvent(
    "agent_hooks:interception", Interception
)


class Composition(NamedTuple):
    """A profile of section 7.2 and the value of its knob, "" for a profile without a knob."""

    profile: str = "sequential/first_deny"
    knob: str = "stop"

    @classmethod
    def read(cls, composition: Any) -> Composition:
        """Return the composition in a profile's name, a dict, or an object of the SDK.

        Raises `RegistrationError` for an unknown one.
        """
        wire = {"profile": composition} if isinstance(composition, str) else composition
        wire = wire if isinstance(wire, Mapping) else wire.to_wire()
        knobs = KNOBS.get(wire["profile"])
        if knobs is None:
            reason = f"unknown; known profiles: {', '.join(KNOBS)}"
            raise RegistrationError(f"composition {wire['profile']!r}", reason)
        for name, values in knobs.items():
            value = wire.get(name, values[0])
            if value not in values:
                raise RegistrationError(f"composition {name}={value!r}", f"expected {values}")
            return cls(wire["profile"], value)
        return cls(wire["profile"], "")

    @property
    def is_parallel(self) -> bool:
        """Whether each interceptor gets the original context."""
        return self.profile.startswith("parallel/")

    def to_wire(self) -> dict[str, str]:
        """Return the composition for a record."""
        knobs = dict.fromkeys(KNOBS[self.profile], self.knob)
        return {"profile": self.profile, **knobs}


class Emission:
    """The way of a *context* through the interceptors *active* at its point.

    At the end *verdict* is the combined verdict, and *context* the value to go on with. With
    *applies* a transform is applied, else only checked, 8.
    """

    def __init__(
        self,
        context: Context,
        active: Sequence[BoundInterceptor],
        composition: Composition,
        seam: Seam,
        *,
        applies: bool = True,
    ) -> None:
        self.context, self.verdict = context, ALLOW
        self.is_over = self._is_broken = False
        self.is_dispatched = False
        self.decided_by: int | None = None
        self.resolved_by: Literal["approval", "rejection"] | None = None
        self.verdicts: list[Verdict] = []
        self.original, self.active = context, active
        self._composition, self._seam, self._applies = composition, seam, applies
        self._unified: list[Verdict] = []

    @property
    def is_truncated(self) -> bool | None:
        """Whether an interceptor was not asked; None for a profile that asks all."""
        if self._composition.profile != "sequential/first_deny" or not self.is_dispatched:
            return None
        return len(self.verdicts) < len(self.active)

    @property
    def summaries(self) -> list[dict[str, Any]]:
        """The verdicts of the interceptors for a record, without payload."""
        summaries = []
        for place, verdict in enumerate(self.verdicts):
            optional = {"reason": verdict.reason, "name": self.active[place].name}
            parts = {name: value for name, value in optional.items() if value is not None}
            summaries.append({"index": place, "decision": verdict.decision, **parts})
        return summaries

    async def hear(
        self, interceptor: BoundInterceptor, ctx: EventContext[Interception]
    ) -> Interception | Deny | None:
        """Ask *interceptor*, as a handler of `INTERCEPTION`; return its effect on the dispatch."""
        before, verdict = self.context, await interceptor.judge(self._seen)
        self.verdicts.append(verdict)
        self._unified.append(verdict)
        await self._apply(len(self.verdicts) - 1, verdict)
        if self.is_over and not self.verdict.permits:
            return Deny(self.verdict.text)
        if self.context is before:
            return None
        return replace(ctx.value, context=self.context)

    async def _apply(self, place: int, verdict: Verdict) -> None:
        """Apply a verdict with an immediate effect: a first denial, or a visible transform."""
        profile = self._composition.profile
        if profile == "sequential/first_deny" and not verdict.permits:
            await self._lift(place, verdict)
        elif verdict.transform is not None and not self._composition.is_parallel:
            folded = self._fold(place, verdict)
            if profile == "sequential/run_all":
                self.verdicts[place] = folded

    @property
    def _seen(self) -> Context:
        """The context for the next interceptor."""
        return self.original if self._composition.is_parallel else self.context

    async def _lift(self, place: int, verdict: Verdict) -> None:
        """Put the resolver's verdict in place of *verdict*, a first denial, or end with it, 7.4."""
        lifted = await self._consult(verdict)
        if lifted is None or not lifted.permits:
            is_ours = lifted is not None and _is_host_error(lifted)
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
            self._is_broken = True
            return self._end(host_error(error), None)
        if self._applies:
            self.context = context
        self.verdict, self.decided_by = verdict, place
        return verdict

    async def _consult(self, verdict: Verdict) -> Verdict | None:
        # Nothing waits for an approval where nothing is enforced, 8.
        lifted = await self._seam.consult(self.context, verdict) if self._applies else None
        if lifted is not None:
            self.resolved_by = "approval" if lifted.permits else "rejection"
        return lifted

    def _end(self, verdict: Verdict, place: int | None) -> Verdict:
        self.verdict, self.decided_by, self.is_over = verdict, place, True
        return verdict

    def reject(self, error: ContractError) -> None:
        """Deny for *error* of the host itself, without the interceptors."""
        self._end(host_error(error), None)

    async def finish(self) -> None:
        """Combine the verdicts, once all interceptors were asked."""
        if not self.is_over and self._composition.profile != "sequential/first_deny":
            combined = self._combine()
            if combined.is_liftable and (lifted := await self._consult(combined)) is not None:
                self._substitute(lifted)
        # A transform that failed to apply carries nothing of the others.
        if not self._is_broken:
            self.verdict = _with_unions(self.verdict, self._unified)

    def _substitute(self, lifted: Verdict) -> None:
        """Put *lifted* in place of the combined denial, 7.6."""
        if lifted.permits:
            self._unified.append(lifted)
        place = None if _is_host_error(lifted) else self.decided_by
        self.verdict, self.decided_by = lifted, place
        if lifted.transform is not None:
            self._fold(place, lifted)
            self.decided_by = place

    def _combine(self) -> Verdict:
        """Set and return the strictest verdict, 7.3 and 7.5."""
        denials, changes = self._places("deny"), self._places("transform")
        if self._composition.profile == "parallel/unanimous" and (denials or changes):
            self._deny_together("composition_disagreement")
        elif denials:
            plain = [place for place in denials if not self.verdicts[place].is_liftable]
            self.decided_by = (plain or denials)[0]
            self.verdict = self.verdicts[self.decided_by]
        elif not changes:
            self.verdict = self.verdicts[0]
        elif self._composition.is_parallel:
            self._apply_only(changes)
        return self.verdict

    def _places(self, decision: str) -> list[int]:
        return [place for place, each in enumerate(self.verdicts) if each.decision == decision]

    def _apply_only(self, places: Sequence[int]) -> None:
        """Apply the only transform of *places*, which all saw the same context."""
        if len(places) > 1:
            self._deny_together("transform_conflict")
        else:
            self._fold(places[0], self.verdicts[places[0]])

    def _deny_together(self, reason: str) -> None:
        is_liftable = self._composition.knob == "approval"
        self.verdict = host_error(ContractError(reason), liftable=is_liftable)
        self.decided_by = None


def _is_host_error(verdict: Verdict) -> bool:
    return (verdict.reason or "").startswith("host_error:")


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

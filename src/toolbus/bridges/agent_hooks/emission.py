"""An emission of a host: its context, the interceptors' verdicts, and the combined one.

The section numbers refer to AGENT-HOOKS-0.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from toolbus.bridges.agent_hooks.contract import (
    ALLOW,
    Context,
    ContractError,
    Verdict,
    host_error,
    transformed,
)
from toolbus.bus.dispatch.details import PartNote
from toolbus.messages.codec import changed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.bridges.agent_hooks.seams import BoundInterceptor, HostOptions

Record = dict[str, Any]


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
        self._profile, self._knob = options.composition
        self._is_parallel = self._profile.startswith("parallel/")
        self._seam = options.seam
        # Else a transform is only checked, and nothing waits for an approval, 8.
        self._applies = options.mode == "enforce"
        self._unified: list[Verdict] = []

    @property
    def target(self) -> Any:
        """The target to go on with."""
        return self.context["target"]

    @property
    def proceeds(self) -> bool:
        """Whether the action goes on."""
        return self.verdict.permits or not self._applies

    @property
    def is_changed(self) -> bool:
        """Whether interceptors have changed the target; not by `==`, to which 1 and true agree."""
        return changed(self.original["target"], self.target)

    async def compose(self) -> None:
        """Ask the interceptors one after the other, and combine their verdicts."""
        if not self.active:
            raise ContractError("no_interceptor")
        for place, interceptor in enumerate(self.active):
            if not self.is_over:
                await self._ask(place, interceptor)
        if not self.is_over and self._profile != "sequential/first_deny":
            self._combine()
            if (lifted := await self._consult(self.verdict)) is not None:
                self._substitute(lifted)
        self.verdict = _with_unions(self.verdict, self._unified)

    async def _ask(self, place: int, interceptor: BoundInterceptor) -> None:
        verdict = await interceptor.judge(self.original if self._is_parallel else self.context)
        self.verdicts.append(verdict)
        self._unified.append(verdict)
        if self._profile == "sequential/first_deny" and not verdict.permits:
            await self._lift(place, verdict)
        elif verdict.transform is not None and not self._is_parallel:
            folded = self._fold(place, verdict)
            if self._profile == "sequential/run_all":
                self.verdicts[place] = folded

    def notes(self) -> list[PartNote]:
        """Return an entry for each interceptor that was asked, for the ledger."""
        return [
            PartNote(bound.label, verdict.status, verdict.reason)
            for verdict, bound in zip(self.verdicts, self.active, strict=False)
        ]

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
            if self._knob == "stop":
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
        if self._profile == "parallel/unanimous" and (denials or changes):
            self._deny_together("composition_disagreement")
        elif denials:
            self.decided_by = min(denials, key=lambda place: self.verdicts[place].is_liftable)
            self.verdict = self.verdicts[self.decided_by]
        elif not changes:
            self.verdict = self.verdicts[0]
        elif self._is_parallel and len(changes) > 1:
            self._deny_together("transform_conflict")
        elif self._is_parallel:
            self._fold(changes[0], self.verdicts[changes[0]])

    def _places(self, decision: str) -> list[int]:
        return [place for place, each in enumerate(self.verdicts) if each.decision == decision]

    def _deny_together(self, reason: str) -> None:
        is_liftable = self._knob == "approval"
        self.verdict = host_error(ContractError(reason), liftable=is_liftable)
        self.decided_by = None

    def record(self, options: HostOptions) -> Record:
        """Return its record without any payload, 10.3; the identities are not known here."""
        context, names = self.context, [each.name for each in self.active]
        optional: dict[str, Any] = {
            "declaration": options.declaration,
            "verdicts": [
                {"index": place, **verdict.summary(names[place])}
                for place, verdict in enumerate(self.verdicts)
            ]
            or None,
            "resolved_by": self.resolved_by,
        }
        if self.verdicts and self._profile == "sequential/first_deny":
            optional["fold_truncated"] = len(self.verdicts) < len(self.active)
        return {
            "interception_point": context["interception_point"],
            "mode": options.mode,
            "verdict": self.verdict.for_record(),
            "session_id": context["session"]["id"],
            "sequence": context["sequence"],
            "timestamp": context["timestamp"],
            "decided_by": self.decided_by,
            "composition": options.composition.to_wire(),
            "interceptors_registered": len(self.active),
            **{name: value for name, value in optional.items() if value is not None},
        }


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

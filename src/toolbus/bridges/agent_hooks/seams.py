"""The seams of a host with other code: interceptors, approvals, and a declaration of both."""
# ruff: noqa: SLF001 - see `declared_options`

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from copy import deepcopy
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct

from toolbus.bridges.agent_hooks.contract import (
    JCS,
    Context,
    ContractError,
    IdentityProvider,
    Verdict,
    host_error,
    read_verdict,
)
from toolbus.bridges.agent_hooks.wire_records import read_call
from toolbus.bus.dispatch.deadlines import within
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import Ask, Deny, Scope
from toolbus.messages.immutable import thaw
from toolbus.settings.extras import needs_extra
from toolbus.tools.calls.approver import gate_of
from toolbus.tools.calls.gate import ApprovalRequest, CallGate, Pending

try:
    import agent_hooks
except ImportError:
    agent_hooks = None  # Only a declaration needs the SDK.

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent_hooks import HostRegistry

    from toolbus.bus.bus import EventBus
    from toolbus.tools.calls.approver import Approver

KNOBS: dict[str, dict[str, tuple[str, str]]] = {
    "sequential/first_deny": {"on_approval": ("resume", "stop")},
    "sequential/run_all": {},
    "parallel/strictest": {"on_transform_conflict": ("deny", "approval")},
    "parallel/unanimous": {"on_disagreement": ("deny", "approval")},
}
"""The knob of each profile, 7.2, and its values, the default first.

By default an approval of one denial leaves the other interceptors their say; the SDK's is "stop".
"""
MAX_RECORDS = 1_000
"""The most records that stay in memory by default, as many as an agent keeps of its ledger."""


class Composition(NamedTuple):
    """A profile of section 7.2 and the value of its knob, "" for a profile without a knob."""

    profile: str = "sequential/first_deny"
    knob: str = "resume"

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

    def to_wire(self) -> dict[str, str]:
        """Return the composition for a record."""
        knobs = dict.fromkeys(KNOBS[self.profile], self.knob)
        return {"profile": self.profile, **knobs}


# --- interceptors ---------------------------------------------------------------------------------


class BoundInterceptor(NamedTuple):
    """An *interceptor* under a *name*, for *points*, None for all; *timeout* in seconds."""

    interceptor: Any
    name: str | None = None
    points: frozenset[str] | None = None
    timeout: float | None = 5.0

    @property
    def label(self) -> str:
        """Its name in the ledger."""
        return self.name or type(self.interceptor).__name__

    def runs_at(self, point: str) -> bool:
        """Return whether it is asked at *point*."""
        return self.points is None or point in self.points

    async def judge(self, context: Context) -> Verdict:
        """Return its verdict on a private copy of *context*; a failure denies, 6.3."""
        try:
            intercept = self.interceptor.intercept
            return read_verdict(await call_within(self.timeout, intercept, thaw(context)))
        except ContractError as error:
            return host_error(error)
        except TimeoutError:
            return host_error(ContractError("interceptor_timeout"))
        except Exception as error:  # noqa: BLE001 - a crashed guard denies
            return host_error(ContractError("interceptor_failed", type(error).__name__))


def bind_all(interceptors: Any, timeout: float | None) -> tuple[BoundInterceptor, ...]:
    """Return *interceptors*, a mapping from names or an iterable, bound to all points."""
    pairs: Iterable[tuple[str | None, Any]]
    is_named = isinstance(interceptors, Mapping)
    pairs = interceptors.items() if is_named else [(None, each) for each in interceptors]
    bound = []
    for name, each in pairs:
        if not callable(getattr(each, "intercept", None)):
            reason = "expected an object with a method `intercept(context)`"
            raise RegistrationError(f"interceptor {each!r}", reason)
        bound.append(BoundInterceptor(each, name, None, timeout))
    return tuple(bound)


async def call_within(seconds: float | None, function: Callable[[Any], Any], value: Any) -> Any:
    """Return the result of *function*, sync or async; raises `DeadlineError` after *seconds*."""
    result = function(value)
    is_late: bool = isawaitable(result)
    return await within(seconds, result) if is_late else result


# --- approvals ------------------------------------------------------------------------------------


class Consultation(NamedTuple):
    """A question to the resolver of approvals; its members are named as in the SDK's request, 9."""

    context_identity: str | None
    interception_point: str
    verdict: Verdict
    context: Context


class Resolution(NamedTuple):
    """The answer to a `Consultation`; its members are named as in the SDK's resolution, 9."""

    outcome: Literal["approve", "reject"]
    context_identity: str | None
    verdict: dict[str, Any]


class ApproverResolver:
    """A resolver that asks *approver*, the approver of an agent or a gate, on *bus*.

    As everywhere, a person is asked about calls and prompts only.
    """

    def __init__(self, approver: Approver | CallGate, bus: EventBus) -> None:
        self._gate, self._bus = gate_of(approver), bus

    async def resolve(self, request: Consultation) -> Resolution:
        """Return the decision about a call or a prompt; a question that waits refuses for now."""
        reason = "no person can be asked at this point"
        if request.interception_point in {"pre_tool_call", "input"}:
            reason = await self._refusal(request)
        if not reason:
            return Resolution("approve", request.context_identity, {"decision": "allow"})
        refused = {"decision": "deny", "reason": request.verdict.reason, "message": reason}
        return Resolution("reject", request.context_identity, refused)

    async def _refusal(self, request: Consultation) -> str:
        """Return the reason against the call or the prompt, "" if it is approved."""
        context, ask = request.context, Ask(request.verdict.text)
        scope = Scope(agent_id=context["agent"]["id"], session_id=context["session"]["id"])
        call = read_call(context["tool_call"]) if "tool_call" in context else None
        text = "" if call else str(context["input"]["content"])
        guards = ("agent-hooks",)
        asked = ApprovalRequest(
            ask, call, scope, self._bus, requested=call, guards=guards, text=text
        )
        decision = await self._gate.ask(asked)
        if isinstance(decision, Pending):
            return decision.text
        if isinstance(decision, Deny):
            return decision.reason
        refusal = await decision.take(call)
        await decision.end()
        return "" if refusal is None else refusal.reason


class ApprovalSeam(NamedTuple):
    """A *resolver*, None without one, and a *redactor* of the contexts that it sees."""

    resolver: Any = None
    redactor: Callable[[Context], Context] | None = None
    timeout: float | None = 5.0
    identity: IdentityProvider | None = IdentityProvider()

    def on(self, bus: EventBus) -> ApprovalSeam:
        """Return the seam with a resolver on *bus* in place of an approver, without a timeout."""
        if self.resolver is None or callable(getattr(self.resolver, "resolve", None)):
            return self
        return self._replace(resolver=ApproverResolver(self.resolver, bus), timeout=None)

    async def consult(self, context: Context, verdict: Verdict) -> Verdict | None:
        """Return the verdict in place of *verdict*, a liftable denial; None without a question."""
        point = context["interception_point"]
        if not verdict.is_liftable or self.resolver is None or point == "agent_shutdown":
            return None
        try:
            shown = deepcopy(context)
            if self.redactor is not None:
                shown = self.redactor(shown)
            identity = None if self.identity is None else self.identity.identify(shown)
            question = Consultation(identity, point, verdict, shown)
            resolution = await call_within(self.timeout, self.resolver.resolve, question)
            return _resolved(resolution, identity)
        except ContractError as error:
            return host_error(error)
        except Exception as error:  # noqa: BLE001 - a failed resolver denies
            detail = "timeout" if isinstance(error, TimeoutError) else type(error).__name__
            return host_error(ContractError("approval_resolver_failed", detail))


def _resolved(resolution: Any, identity: str | None) -> Verdict:
    """Return the verdict of *resolution*; raises `ContractError` for a breach of section 9."""
    if resolution.context_identity != identity:
        raise ContractError("approval_identity_mismatch")
    if resolution.outcome == "unresolved" or resolution.verdict is None:
        raise ContractError("approval_unresolved")
    try:
        verdict = read_verdict(resolution.verdict)
    except ContractError as error:
        raise ContractError("verdict_invalid", error.detail) from None
    if verdict.permits != (resolution.outcome == "approve"):
        raise ContractError("verdict_invalid", "the outcome and the verdict disagree")
    return verdict


# --- the configuration ----------------------------------------------------------------------------


class HostOptions(Struct, frozen=True, kw_only=True):
    """The configuration of a host, by code or by a declaration, whose version it then has."""

    interceptors: tuple[BoundInterceptor, ...] = ()
    composition: Composition = Composition()
    mode: Literal["enforce", "evaluate_only"] = "enforce"
    seam: ApprovalSeam = ApprovalSeam()
    max_records: int | None = MAX_RECORDS
    declaration: str | None = None


def declared_options(document: Any, registry: HostRegistry) -> HostOptions:
    """Return the configuration of *document*: a dict, JSON text or a path.

    Raises the SDK's `DeclarationError` for a document that *registry* cannot honour. Its loader
    reads the document, and makes the interceptors; the composition and the records are ours.
    """
    if agent_hooks is None:
        purpose = "a host declaration needs agent-hooks-sdk"
        raise ImportError(needs_extra(purpose, "agent-hooks"), name="agent_hooks")
    made = agent_hooks.InterceptionEmitter
    if isinstance(document, os.PathLike):
        emitter = made.from_declaration_path(document, registry)
    elif isinstance(document, str):
        emitter = made.from_declaration_json(document, registry)
    else:
        emitter = made.from_declaration_value(document, registry)
    # agent-hooks-sdk 0.1.0b3: only private members have the objects that were made.
    identity = emitter._identity
    if identity == JCS:
        identity = IdentityProvider()
    elif identity is not None:
        identity = IdentityProvider(identity.name, identity.fn)
    seam = ApprovalSeam(
        emitter._resolver, emitter._approval_redactor, emitter._resolver_timeout, identity
    )
    return HostOptions(
        interceptors=tuple([_bound(each) for each in emitter._interceptors]),
        composition=Composition.read(emitter.composition),
        mode=emitter.mode.value,
        seam=seam,
        max_records=emitter._max_records,
        declaration=emitter.declaration.version,
    )


def _bound(each: Any) -> BoundInterceptor:
    points = frozenset([point.value for point in each.at])
    return BoundInterceptor(each.interceptor, each.name, points, each.timeout)

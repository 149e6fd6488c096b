"""The seams of a host with other code: interceptors, identities, and approvals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from copy import deepcopy
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toolbus.bridges.agent_hooks.identities import identity_of
from toolbus.bridges.agent_hooks.mapping import (
    ALLOW,
    ContractError,
    Verdict,
    host_error,
    read_verdict,
)
from toolbus.bridges.agent_hooks.wire_records import read_call
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import Ask, Deny, Scope
from toolbus.messages.immutable import thaw
from toolbus.tools.calls.approver import gate_of
from toolbus.tools.calls.gate import ApprovalRequest, CallGate, Pending

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolbus.bus.bus import EventBus
    from toolbus.tools.calls.approver import Approver

Context = dict[str, Any]
JCS = "jcs-sha256"


class BoundInterceptor(NamedTuple):
    """An *interceptor* under a *name*, for *points*, None for all; *timeout* in seconds."""

    interceptor: Any
    name: str | None = None
    points: frozenset[str] | None = None
    timeout: float | None = 5.0

    def runs_at(self, point: str) -> bool:
        """Return whether it is asked at *point*."""
        return self.points is None or point in self.points

    async def judge(self, context: Mapping[str, Any]) -> Verdict:
        """Return its verdict on a private copy of *context*; a failure denies, 6.3."""
        try:
            answer = self.interceptor.intercept(thaw(context))
            if isawaitable(answer):
                async with asyncio.timeout(self.timeout):
                    answer = await answer
            return read_verdict(answer)
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


class IdentityProvider(NamedTuple):
    """The function that names a context in records and approvals, 10.1."""

    name: str = JCS
    function: Callable[[Context], str] = identity_of

    def identify(self, context: Context) -> str:
        """Return the identity of *context*; raises `ContractError`."""
        try:
            return self.function(context)
        except ContractError:
            raise
        except Exception as error:  # noqa: BLE001 - a provider's failure denies
            raise ContractError("context_invalid", type(error).__name__) from None


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
    verdict: Verdict


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
            return Resolution("approve", request.context_identity, ALLOW)
        refused = Verdict("deny", request.verdict.reason, reason)
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


class Seam(NamedTuple):
    """The seam of approvals: a *resolver*, None without one, and a *redactor* of its contexts."""

    resolver: Any = None
    redactor: Callable[[Context], Context] | None = None
    timeout: float | None = 5.0
    identity: IdentityProvider | None = IdentityProvider()

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
            resolution = self.resolver.resolve(Consultation(identity, point, verdict, shown))
            if isawaitable(resolution):
                async with asyncio.timeout(self.timeout):
                    resolution = await resolution
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

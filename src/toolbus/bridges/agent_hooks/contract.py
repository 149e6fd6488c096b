"""The wire form of agent-hooks 0.1: points, verdicts, contexts, transforms and identities.

The section numbers refer to AGENT-HOOKS-0.1. Neither side of the contract needs its SDK: an
interceptor gets and returns a plain dict.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import msgspec
from msgspec import Struct

from toolbus.messages.codec import encode
from toolbus.messages.immutable import thaw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from toolbus.bus.ledger.records import HandlerStatus
    from toolbus.events.catalogue import Scope

Context = dict[str, Any]
SPEC, FRAMEWORK = "agent-hooks/0.1", "toolbus"
Point = Literal[
    "agent_startup",
    "input",
    "pre_model_call",
    "post_model_call",
    "pre_tool_call",
    "post_tool_call",
    "output",
    "agent_shutdown",
]
POINTS: tuple[Point, ...] = get_args(Point)
TARGETS: dict[str, tuple[str, ...]] = {
    "agent_startup": ("agent_init",),
    "input": ("input",),
    "pre_model_call": ("messages",),
    "post_model_call": ("response",),
    "pre_tool_call": ("tool_call", "args"),
    "post_tool_call": ("tool_result", "value"),
    "output": ("output",),
    "agent_shutdown": ("summary",),
}
"""The member of a context that its `target` repeats, 4.3."""
PARTS: dict[str, dict[str, type]] = {
    "agent_init": {"tools_registered": list},
    "input": {"content": object, "role": str},
    "model": {"id": str},
    "response": {"content": object, "tool_calls": list, "finish_reason": str},
    "tool_call": {"id": str, "name": str, "args": dict},
    "tool_result": {"value": object, "is_error": bool},
    "output": {"content": object},
    "summary": {"reason": str},
}
"""The required parts of the members of contexts, 4.2."""
_SEALED = {"agent_startup", "agent_shutdown"}
_PATH = re.compile(r"\$(?:target|policy_target)((?:\.[\w-]+|\[\d+\]|\[\"[\w-]+\"\])*)", re.ASCII)
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]|\[\"([\w-]+)\"\]", re.ASCII)
_HOST_ERROR = "host_error:"
_MAX_EVIDENCE, _MAX_TEXT = 10_240, 256
"""The most bytes of evidence, and of a message in a record."""


class ContractError(Exception):
    """A breach of the contract: the reserved *reason* of section 11, and a *detail*."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason, self.detail = _HOST_ERROR + reason, detail
        super().__init__(reason, detail)


# --- verdicts ------------------------------------------------------------------------------------


def is_reserved(reason: str | None) -> bool:
    """Return whether only a host may give *reason*, 11."""
    return (reason or "").startswith(_HOST_ERROR)


class _Closed(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A wire object without other members."""


class Concern(_Closed, frozen=True):
    """A recorded concern without an effect, 5.1."""

    reason: str | None = None
    message: str | None = None


class Transform(_Closed, frozen=True):
    """The replacement of the value at *path*, 5.2."""

    path: str
    value: Any = None


class Evidence(_Closed, frozen=True):
    """A pointer to a proof elsewhere, 5.3; nothing here follows it."""

    artefact: str | None = None
    verification_pointers: dict[str, str] | None = None


class Verdict(_Closed, frozen=True):
    """The result of an interceptor; a denial with an *approval* may be lifted by a person."""

    decision: Literal["allow", "deny", "transform"]
    reason: str | None = None
    message: str | None = None
    warnings: tuple[Concern, ...] | None = None
    approval: dict[str, Any] | None = None
    transform: Transform | None = None
    evidence: Evidence | None = None
    result_labels: tuple[str, ...] | None = None

    @property
    def permits(self) -> bool:
        """Whether the action goes on."""
        return self.decision != "deny"

    @property
    def is_liftable(self) -> bool:
        """Whether a person may lift the denial."""
        return self.decision == "deny" and self.approval is not None

    @property
    def is_of_host(self) -> bool:
        """Whether the host itself denies, 11."""
        return is_reserved(self.reason)

    @property
    def status(self) -> HandlerStatus:
        """The status of the interceptor in the ledger."""
        return "failed" if self.is_of_host else _STATUSES[self.decision]

    @property
    def text(self) -> str:
        """The reason and the message, for a model."""
        return ": ".join([each for each in (self.reason, self.message) if each]) or "denied"

    def summary(self, name: str | None) -> dict[str, Any]:
        """Return the decision and the reason of the interceptor *name* for a record, 10.3."""
        parts = {"decision": self.decision, "reason": self.reason, "name": name}
        return {key: part for key, part in parts.items() if part is not None}

    def for_record(self) -> dict[str, Any]:
        """Return the verdict without payload, 10.3: no value, no approval's parameters."""
        # With lists for arrays, as readers of JSON have them.
        wire: dict[str, Any] = msgspec.json.decode(encode(self))
        if self.transform is not None:
            wire["transform"] = {"path": self.transform.path}
        if self.approval is not None:
            wire["approval"] = {}
        for part in (wire, *wire.get("warnings", ())):
            text = (part.get("message") or "").encode()
            if len(text) > _MAX_TEXT:
                part["message"] = text[:_MAX_TEXT].decode(errors="ignore") + "…"
        return wire


ALLOW = Verdict("allow")
_STATUSES: dict[str, HandlerStatus] = {"allow": "ran", "deny": "denied", "transform": "changed"}


def host_error(error: ContractError, *, liftable: bool = False) -> Verdict:
    """Return the denial of the host for *error*, 11."""
    approval: dict[str, Any] | None = {} if liftable else None
    return Verdict("deny", error.reason, error.detail or None, approval=approval)


def read_verdict(answer: Any) -> Verdict:
    """Return the verdict in *answer*, a dict or an object of the SDK; raises `ContractError`."""
    try:
        # A private copy: its maker may keep the original, and change it once it was judged.
        wire = thaw(answer if isinstance(answer, dict) else answer.to_wire())
        verdict = msgspec.convert(wire, Verdict)
    except Exception as error:  # noqa: BLE001 - any other object is none
        raise ContractError("verdict_invalid", str(error)) from None
    for problem in _problems(verdict):
        raise ContractError("verdict_invalid", problem)
    if verdict.transform is not None:
        steps_of(verdict.transform.path)
    return verdict


def _problems(verdict: Verdict) -> Iterator[str]:
    """Yield the problems of *verdict* with section 5, beyond its types."""
    reasons = [verdict.reason, *[each.reason for each in verdict.warnings or ()]]
    if any(map(is_reserved, reasons)):
        yield "host_error: is reserved for hosts"
    if (verdict.transform is not None) != (verdict.decision == "transform"):
        yield "a transform has a body, and no other verdict"
    if verdict.approval is not None and verdict.decision != "deny":
        yield "only a denial has an approval"
    if verdict.evidence is not None and len(encode(verdict.evidence)) > _MAX_EVIDENCE:
        yield f"evidence above {_MAX_EVIDENCE} bytes"


# --- contexts ------------------------------------------------------------------------------------


def context_of(point: Point, scope: Scope, sequence: int, **members: Any) -> Context:
    """Return the context of *point* for interceptors, with *members* of this point, 4."""
    context = {
        "spec": SPEC,
        "interception_point": point,
        "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        "sequence": sequence,
        "agent": {"id": scope.agent_id or "agent", "framework": FRAMEWORK},
        "session": {"id": scope.session_id or "session", "turn": scope.turn},
        **members,
    }
    target: Any = context
    for name in TARGETS[point]:
        target = target[name]
    return {**context, "target": target}


def check_context(context: Mapping[str, Any]) -> None:
    """Raise `ContractError` if a member of *context* lacks a required part."""
    for name in PARTS.keys() & context.keys():
        member, parts = context[name], PARTS[name]
        if not isinstance(member, dict) or not parts.keys() <= member.keys():
            raise ContractError("context_invalid", name)
        if not all(isinstance(member[part], kind) for part, kind in parts.items()):
            raise ContractError("context_invalid", name)
    for message in context.get("messages", ()):
        if not isinstance(message, dict) or not message.keys() >= {"role", "content"}:
            raise ContractError("context_invalid", "messages")


def with_target(context: Mapping[str, Any], target: Any) -> dict[str, Any]:
    """Return *context* with *target* in both of its places."""
    first, *rest = TARGETS[context["interception_point"]]
    member = {**context[first], rest[0]: target} if rest else target
    return {**context, first: member, "target": target}


def steps_of(path: str) -> list[str | int]:
    """Return the steps of *path* below the target; raises `ContractError`."""
    match = _PATH.fullmatch(path)
    if match is None:
        rooted = path.startswith(("$target", "$policy_target"))
        raise ContractError(
            "transform_invalid" if rooted else "transform_target_forbidden", f"path {path!r}"
        )
    steps = _STEP.findall(match[1])
    return [int(index) if index else name or quoted for name, index, quoted in steps]


def transformed(context: Mapping[str, Any], transform: Transform) -> dict[str, Any]:
    """Return *context* after *transform*; raises `ContractError` unless the path exists."""
    if context["interception_point"] in _SEALED:
        raise ContractError("transform_target_forbidden", transform.path)
    steps = steps_of(transform.path)
    try:
        return with_target(context, _replaced(context["target"], steps, transform.value))
    except (KeyError, IndexError, TypeError):
        raise ContractError("transform_invalid", transform.path) from None


def _replaced(value: Any, steps: Sequence[str | int], new: Any) -> Any:
    if not steps:
        return new
    step, *rest = steps
    replaced = _replaced(value[step], rest, new)
    if isinstance(value, list | tuple):
        return [replaced if index == step else item for index, item in enumerate(value)]
    return {**value, step: replaced}


# --- identities -----------------------------------------------------------------------------------

_HASHED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("spec", "interception_point", "timestamp", "sequence"), ()),
    "agent": ("id", "framework"),
    "session": ("id",),
    "target": (),
    "messages": (),
    **{name: tuple(parts) for name, parts in PARTS.items()},
}
"""The members of a context that its identity covers, 10.2; () for a member as a whole."""
_MAX_INT = 2**53 - 1
JCS = "jcs-sha256"


def identity_of(context: Mapping[str, Any]) -> str:
    """Return the identity `jcs-sha256` of *context*, 10.2.

    Raises `ContractError` for integers beyond 53 bits, which readers of JSON round.
    """
    hashed = {
        name: {part: context[name][part] for part in parts} if parts else context[name]
        for name, parts in _HASHED.items()
        if name in context
    }
    return "sha256:" + sha256(canonical_json(hashed).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """Return *value* in the form of RFC 8785; raises `ContractError` for lossy numbers."""
    match value:
        case None | bool() | str():
            return json.dumps(value, ensure_ascii=False)
        case int():
            if abs(value) > _MAX_INT:
                raise ContractError("context_invalid", "an integer beyond 53 bits")
            return str(value)
        case float():
            return _canonical_float(value)
        case dict():
            # By UTF-16 code units, in which some characters beyond 16 bits come earlier.
            names = sorted(value, key=lambda name: name.encode("utf-16-be"))
            pairs = [f"{canonical_json(name)}:{canonical_json(value[name])}" for name in names]
            return "{" + ",".join(pairs) + "}"
        case list() | tuple():
            return "[" + ",".join([canonical_json(item) for item in value]) + "]"
    raise ContractError("context_invalid", f"not JSON: {type(value).__name__}")


def _canonical_float(value: float) -> str:
    """Return *value* as ECMAScript writes it: ECMA-262, Number::toString."""
    if not isfinite(value):
        raise ContractError("context_invalid", "a number that is not finite")
    if value == 0:
        return "0"
    # Both languages take the shortest digits that give the number back.
    sign, numbers, exponent = Decimal(repr(value)).as_tuple()
    digits = "".join(map(str, numbers)).rstrip("0")
    point = len(numbers) + int(exponent)
    if len(digits) <= point <= 21:  # noqa: PLR2004 - as there
        text = digits + "0" * (point - len(digits))
    elif 0 < point <= 21:  # noqa: PLR2004 - as there
        text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:  # noqa: PLR2004 - as there
        text = "0." + "0" * -point + digits
    else:
        text = f"{digits[0]}.{digits[1:]}".rstrip(".") + f"e{point - 1:+d}"
    return "-" * sign + text


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

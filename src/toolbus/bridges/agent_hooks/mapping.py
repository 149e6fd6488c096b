"""The wire form of agent-hooks 0.1: points, capabilities, contexts, verdicts and transforms.

The section numbers refer to AGENT-HOOKS-0.1. Neither side of the contract needs its SDK: an
interceptor gets and returns a plain dict.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec
from msgspec import Struct

from toolbus.messages.codec import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toolbus.events.catalogue import Scope

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
CAPABILITIES = frozenset(
    {
        "model_calls",
        "tool_calls",
        "parallel_tool_calls",
        "streaming",
        "multi_turn",
        "int64_json",
        "bigint_json",
        "incremental_output",
        "host_declaration",
    }
)
"""The capabilities of our agent as a host, 3.2; `incremental_output` by an option."""

_PATH = re.compile(r"\$(?:target|policy_target)((?:\.[\w-]+|\[\d+\]|\[\"[\w-]+\"\])*)", re.ASCII)
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]|\[\"([\w-]+)\"\]", re.ASCII)
_MAX_EVIDENCE, _MAX_TEXT = 10_240, 256
"""The most bytes of evidence, and of a message in a record."""


class ContractError(Exception):
    """A breach of the contract: the reserved *reason* of section 11, and a *detail*."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason, self.detail = f"host_error:{reason}", detail
        super().__init__(reason, detail)


# --- verdicts ------------------------------------------------------------------------------------


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
    def text(self) -> str:
        """The reason and the message, for a model."""
        return ": ".join([each for each in (self.reason, self.message) if each]) or "denied"

    def to_wire(self) -> dict[str, Any]:
        """Return the verdict as a plain dict; a transform always has its value."""
        wire = self._to_json()
        if self.transform is not None:
            wire["transform"] = {"path": self.transform.path, "value": self.transform.value}
        return wire

    def for_record(self) -> dict[str, Any]:
        """Return the verdict without payload, 10.3: no value, no approval's parameters."""
        wire = self._to_json()
        if self.transform is not None:
            wire["transform"] = {"path": self.transform.path}
        if self.approval is not None:
            wire["approval"] = {}
        for part in (wire, *wire.get("warnings", ())):
            text = (part.get("message") or "").encode()
            if len(text) > _MAX_TEXT:
                part["message"] = text[:_MAX_TEXT].decode(errors="ignore") + "…"
        return wire

    def _to_json(self) -> dict[str, Any]:
        # With lists for arrays, as readers of JSON have them.
        wire: dict[str, Any] = msgspec.json.decode(encode(self))
        return wire


ALLOW = Verdict("allow")


def host_error(error: ContractError, *, liftable: bool = False) -> Verdict:
    """Return the denial of the host for *error*, 11."""
    approval: dict[str, Any] | None = {} if liftable else None
    return Verdict("deny", error.reason, error.detail or None, approval=approval)


def read_verdict(answer: Any) -> Verdict:
    """Return the verdict in *answer*, a dict or an object of the SDK; raises `ContractError`."""
    try:
        verdict = msgspec.convert(_plain(answer), Verdict)
    except Exception as error:  # noqa: BLE001 - any other object is none
        raise ContractError("verdict_invalid", str(error)) from None
    for problem in _problems(verdict):
        raise ContractError("verdict_invalid", problem)
    if verdict.transform is not None:
        steps_of(verdict.transform.path)
    return verdict


def _problems(verdict: Verdict) -> Iterator[str]:
    """Yield the problems of *verdict* with section 5, beyond its types."""
    if _uses_reserved_reason(verdict):
        yield "host_error: is reserved for hosts"
    if (verdict.transform is not None) != (verdict.decision == "transform"):
        yield "a transform has a body, and no other verdict"
    if verdict.approval is not None and verdict.decision != "deny":
        yield "only a denial has an approval"
    if verdict.evidence is not None and len(encode(verdict.evidence)) > _MAX_EVIDENCE:
        yield f"evidence above {_MAX_EVIDENCE} bytes"


def _uses_reserved_reason(verdict: Verdict) -> bool:
    reasons = [verdict.reason, *[each.reason for each in verdict.warnings or ()]]
    return any((reason or "").startswith("host_error:") for reason in reasons)


def _plain(answer: Any) -> Any:
    """Return *answer* as a plain dict; its own `to_wire` leaves out a value of null."""
    return answer if isinstance(answer, dict) else answer.to_wire()


# --- contexts ------------------------------------------------------------------------------------


def context_of(point: Point, scope: Scope, sequence: int, **members: Any) -> dict[str, Any]:
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
    return with_target(context, target_of({**context, "target": None}))


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


def target_of(context: Mapping[str, Any]) -> Any:
    """Return the value that a transform may replace."""
    value: Any = context
    for name in TARGETS[context["interception_point"]]:
        value = value[name]
    return value


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

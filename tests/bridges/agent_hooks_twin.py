"""Our composition beside the SDK's emitter, on random emissions: `python agent_hooks_twin.py N`.

It runs in an environment with `agent-hooks-sdk`, and prints one JSON line: the number of emissions,
and the first few that differ.
"""

import asyncio
import copy
import json
import logging
import random
import sys

from agent_hooks import CompositionConfig, EnforcementMode, InterceptionEmitter, Verdict
from agent_hooks import IdentityProvider as TheirProvider
from agent_hooks.approval import ApprovalOutcome, ApprovalResolution

from toolbus import EventBus
from toolbus.bridges.agent_hooks import AgentHooksComponent, IdentityProvider
from toolbus.bridges.agent_hooks.contract import context_of
from toolbus.components.participants import ComponentHost
from toolbus.events import Scope

SCOPE = Scope(agent_id="a", session_id="s")
PATHS = ["$target.a", "$target.b.c", "$target", "$target.b", "$target.l[1]", "$target.l[7]"]
PATHS += [
    "$target.nope",
    "$policy_target.a",
    "nope",
    "$target.a b",
    '$target["a"]',
    "$target.b.c.d",
]
# Without null: the SDK takes a transform to null for a malformed one (0.1.0b3).
VALUES = [1, "x", {"a": 2}, [1, 2], 2**53, 2**53 - 1, 1.5, True, {"a": 1, "b": {"c": 3}}]
MALFORMED = [
    *(
        {},
        5,
        None,
        {"decision": "maybe"},
        {"decision": "transform"},
        {"decision": "deny", "reason": 7},
    ),
    {"decision": "allow", "x": 1},
    {"decision": "allow", "reason": "host_error:x"},
    {"decision": "allow", "approval": {}},
    {"decision": "deny", "transform": {"path": "$target", "value": 1}},
    {"decision": "allow", "warnings": [{"reason": "host_error:y"}]},
]
COMPOSITIONS = [
    {"profile": "sequential/first_deny", "on_approval": "stop"},
    {"profile": "sequential/first_deny", "on_approval": "resume"},
    {"profile": "sequential/run_all"},
    {"profile": "parallel/strictest", "on_transform_conflict": "deny"},
    {"profile": "parallel/strictest", "on_transform_conflict": "approval"},
    {"profile": "parallel/unanimous", "on_disagreement": "deny"},
    {"profile": "parallel/unanimous", "on_disagreement": "approval"},
]
TARGET = {"a": 1, "b": {"c": 2}, "l": [1, 2, 3]}


def members_of(point, target):
    call = {"id": "c", "name": "t", "args": target}
    return {
        "pre_tool_call": {"tool_call": call},
        "post_tool_call": {"tool_call": call, "tool_result": {"value": target, "is_error": False}},
        "agent_startup": {"agent_init": {"tools_registered": ["t"]}},
        "agent_shutdown": {"summary": {"reason": "completed"}},
    }[point]


class Fixed:
    """An interceptor with one verdict, which keeps what it saw."""

    def __init__(self, verdict):
        self.verdict, self.seen = verdict, []

    def intercept(self, context):
        self.seen.append(copy.deepcopy(context["target"]))
        if self.verdict == "raise":
            raise ValueError("broken")
        if self.verdict == "mutate":
            context["target"] = "tampered"
            return {"decision": "allow", "reason": "mutated"}
        return copy.deepcopy(self.verdict)


class Resolver:
    """A resolver with one outcome and one verdict."""

    def __init__(self, outcome, verdict):
        self.outcome, self.verdict, self.asked = outcome, verdict, 0

    def resolve(self, request):
        self.asked += 1
        if self.outcome == "raise":
            raise ValueError("broken")
        identity = "sha256:0" if self.outcome == "mismatch" else request.context_identity
        if self.outcome == "unresolved":
            return ApprovalResolution(ApprovalOutcome.UNRESOLVED, identity)
        outcome = ApprovalOutcome.REJECT if self.outcome == "reject" else ApprovalOutcome.APPROVE
        return ApprovalResolution(outcome, identity, Verdict.from_wire(self.verdict))


def verdict_of(chance):
    """Return a random verdict, most of them valid."""
    kind = chance.random()
    if kind < 0.1:
        return chance.choice(["raise", "mutate"])
    if kind < 0.16:
        return chance.choice(MALFORMED)
    return valid_verdict(chance)


def valid_verdict(chance):
    verdict = {"decision": chance.choice(["allow", "deny", "transform"])}
    if verdict["decision"] == "transform":
        # The SDK runs tools with arguments that are no object; ours are refused.
        values = [each for each in VALUES if isinstance(each, dict)]
        path = chance.choice(PATHS)
        value = chance.choice(values if path == "$target" else VALUES)
        verdict["transform"] = {"path": path, "value": value}
    elif verdict["decision"] == "deny" and chance.random() < 0.5:
        verdict["approval"] = chance.choice([{}, {"who": "ann"}])
    parts = {
        "reason": chance.choice(["r1", "r2"]),
        "message": chance.choice("mé") * chance.choice([1, 255, 256, 257]),
        "warnings": [{"reason": chance.choice(["w1", "w2"])}],
        "result_labels": [chance.choice(["l1", "l2"])],
    }
    return verdict | {name: part for name, part in parts.items() if chance.random() < 0.3}


def fault(_):
    raise ValueError("broken")


IDENTITIES = {
    "jcs-sha256": None,
    "custom": lambda context: "h" + json.dumps(context["target"], sort_keys=True),
    "fault": fault,
}


class Emission:
    """One random emission, for both sides."""

    def __init__(self, chance):
        self.verdicts = [verdict_of(chance) for _ in range(chance.choice([0, 1, 1, 2, 2, 3, 4]))]
        self.composition = chance.choice(COMPOSITIONS)
        self.mode = chance.choice(["enforce"] * 4 + ["evaluate_only"])
        outcomes = ["approve"] * 3 + ["reject", "unresolved", "mismatch", "raise", None]
        self.outcome, self.lifted = chance.choice(outcomes), valid_verdict(chance)
        points = ["pre_tool_call"] * 5 + ["post_tool_call", "agent_startup", "agent_shutdown"]
        self.point = chance.choice(points)
        target = chance.choice([TARGET] * 6 + [{"a": 2**53 + 1}, {"a": 3.5}])
        self.members = members_of(self.point, target)
        self.identity = chance.choice(["jcs-sha256"] * 3 + ["custom", "fault", None])

    def facts(self):
        fixed = [Fixed(verdict) for verdict in self.verdicts]
        resolver = None if self.outcome is None else Resolver(self.outcome, self.lifted)
        return {f"n{place}": each for place, each in enumerate(fixed)}, resolver

    async def ours(self):
        named, resolver = self.facts()
        identity = self.identity
        if identity not in {None, "jcs-sha256"}:
            identity = IdentityProvider(identity, IDENTITIES[identity])
        hooks = AgentHooksComponent(
            named,
            composition=self.composition,
            mode=self.mode,
            resolver=resolver,
            identity=identity,
        )
        bus = EventBus()
        hooks.setup(ComponentHost(bus, Scope()))
        members = copy.deepcopy(self.members)
        end = await hooks._session_of(SCOPE).emit_unread(self.point, **members)
        return self._seen(hooks.records[0], end.proceeds, end.target, named, resolver)

    async def theirs(self, timestamp):
        named, resolver = self.facts()
        identity = self.identity
        if identity not in {None, "jcs-sha256"}:
            identity = TheirProvider(identity, IDENTITIES[identity])
        emitter = InterceptionEmitter(
            mode=EnforcementMode(self.mode),
            resolver=resolver,
            composition=CompositionConfig.from_wire(self.composition),
            identity_provider=identity,
        )
        for name, each in named.items():
            emitter.register(each, name)
        context = context_of(self.point, SCOPE, 0, **copy.deepcopy(self.members))
        context["timestamp"] = timestamp
        record = await emitter.emit_unchecked(context)
        wire = record.to_wire()
        return self._seen(wire, record.proceeds, context["target"], named, resolver)

    @staticmethod
    def _seen(record, proceeds, target, named, resolver):
        verdict = record["verdict"]
        if (verdict.get("reason") or "").startswith("host_error:"):
            verdict.pop("message", None)  # Each words its details.
        return {
            **record,
            "proceeds": proceeds,
            "target": target if proceeds else None,
            "seen": [each.seen for each in named.values()],
            "asked": 0 if resolver is None else resolver.asked,
        }

    async def differences(self):
        ours = await self.ours()
        theirs = await self.theirs(ours["timestamp"])
        names = sorted(ours.keys() | theirs.keys())
        both = {name: [theirs.get(name), ours.get(name)] for name in names}
        return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


async def main(number, seed=1):
    """Print the first few of *number* random emissions that differ."""
    logging.disable(logging.CRITICAL)
    chance, different = random.Random(seed), []
    for _ in range(number):
        emission = Emission(chance)
        if found := await emission.differences():
            different.append({**found, "of": vars(emission)})
    print(json.dumps({"emissions": number, "different": different[:3]}))


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))

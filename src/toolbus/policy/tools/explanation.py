"""The explanation of a verdict: the parts of a call, and what each rule said of them."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.policy.history.counted_calls import judge_first
from toolbus.policy.history.limits import LIMIT_NAMES
from toolbus.policy.rules.judge import CallJudge, examine
from toolbus.policy.rules.records import RuleFinding
from toolbus.policy.rules.verdict_texts import because, failure, named, shortened

if TYPE_CHECKING:
    from toolbus.policy.facts import CallFacts, CallPart
    from toolbus.policy.rules.records import PartVerdict, PolicyRule, PolicyRules


class RuleExplanation(Struct, frozen=True, kw_only=True):
    """What a rule said of a part; *key* is the condition that did not hold, or failed."""

    rule: str
    verdict: str
    status: str
    why: str = ""
    key: str = ""


class PathExplanation(Struct, frozen=True, kw_only=True):
    """A file or folder that a part names, and what is done to it."""

    path: str
    kind: str
    folder: str | None = None


class PartExplanation(Struct, frozen=True, kw_only=True):
    """A part of a call: what it does, and the verdict on it."""

    source: str
    verdict: str
    decided_by: str
    why: str
    action: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    paths: tuple[PathExplanation, ...] = ()
    hosts: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    rules: tuple[RuleExplanation, ...] = ()


class Explanation(Struct, frozen=True, kw_only=True):
    """The verdict on a call and on each of its parts; *failure* is a rule that cannot judge it.

    *project* is what the session's was taken to be, if the policy speaks of that; a *fault* says
    why relative paths allow nothing.
    """

    tool: str
    verdict: str
    folder: str | None = None
    project: str | None = None
    fault: str = ""
    failure: str = ""
    parts: tuple[PartExplanation, ...] = ()


def explain(rules: PolicyRules, facts: CallFacts) -> Explanation:
    """Return why a call gets its verdict."""
    judgement = judge_first(CallJudge(rules), facts)
    # Without a verdict on each part if a rule failed.
    pairs = zip(facts.parts, judgement.parts or repeat(None), strict=False)
    return Explanation(
        tool=facts.call.name,
        verdict=judgement.verdict,
        folder=facts.folder,
        project=None if rules.project is None else rules.project.folder,
        fault=rules.fault,
        failure="" if judgement.failed is None else failure(judgement.failed),
        parts=tuple([_part(rules, facts, *pair) for pair in pairs]),
    )


def _part(
    rules: PolicyRules, facts: CallFacts, part: CallPart, verdict: PartVerdict | None
) -> PartExplanation:
    """Return what *part* does, and its *verdict*, None if a rule failed."""
    paths = [
        PathExplanation(path=use.word.text, kind=use.kind, folder=use.folder) for use in part.paths
    ]
    return PartExplanation(
        source=shortened(part.source),
        verdict="deny" if verdict is None else verdict.verdict,
        decided_by="a failed rule" if verdict is None else named(verdict.decided),
        why="" if verdict is None else because(verdict.decided),
        action=part.action,
        inside=() if part.command is None else part.command.inside,
        effects=tuple(sorted(part.effects | part.claimed)),
        paths=tuple(paths),
        hosts=tuple([host.text for host in part.hosts]),
        unknown=tuple([f"{each.reason}: {shortened(each.source)}" for each in part.unknown]),
        rules=tuple([_rule(rule, facts, part, verdict) for rule in rules.rules]),
    )


def _rule(
    rule: PolicyRule, facts: CallFacts, part: CallPart, verdict: PartVerdict | None
) -> RuleExplanation:
    """Return what the judge's own examination of *rule* found."""
    finding = examine(rule, facts, part)
    spoken = () if verdict is None else [each.rule for each in verdict.spoken]
    if rule.limits and finding.status not in {"not run", "failed"} and rule not in spoken:
        why = "it is about calls before, and this is taken for the first of a session"
        finding = RuleFinding(rule, "not run", why, LIMIT_NAMES[type(rule.limits[0])])
    return RuleExplanation(
        rule=rule.name,
        verdict=rule.verdict,
        status=finding.status,
        why=finding.why,
        key=finding.key,
    )

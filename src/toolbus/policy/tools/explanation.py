"""The explanation of a verdict: the parts of a call, and the finding of each rule on them."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.policy.history.counted_calls import judge_first
from toolbus.policy.history.limits import LIMIT_NAMES
from toolbus.policy.rules.judge import CallJudge, evaluate
from toolbus.policy.rules.records import RuleFinding
from toolbus.policy.rules.verdict_texts import decider, failure_text, one_line, reason_text

if TYPE_CHECKING:
    from toolbus.policy.facts import CallPart, CallReading
    from toolbus.policy.rules.records import PartVerdict, PolicyRule, PolicyRules


class RuleExplanation(Struct, frozen=True, kw_only=True):
    """The finding of a rule on a part; *key* is the condition that did not match, or failed."""

    rule: str
    verdict: str
    status: str
    why: str = ""
    key: str = ""


class PathExplanation(Struct, frozen=True, kw_only=True):
    """A file or folder in a part, and its use."""

    path: str
    kind: str
    folder: str | None = None


class PartExplanation(Struct, frozen=True, kw_only=True):
    """A part of a call: its effects, and the verdict on it."""

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


_ASSUMED = (
    "assuming the component `flow`, and that no text is in view; `in_view` in a row of"
    " `toolbus policy test` states texts"
)


class Explanation(Struct, frozen=True, kw_only=True):
    """The verdict on a call and on each of its parts; *failure* names a rule that cannot judge it.

    *project* is the session's assumed project if the policy uses it; a *path_warning* says why
    relative paths allow nothing. *in_view* says what is assumed of the texts in view, if it counts.
    """

    tool: str
    verdict: str
    folder: str | None = None
    project: str | None = None
    path_warning: str = ""
    failure: str = ""
    in_view: str = ""
    parts: tuple[PartExplanation, ...] = ()


def explain(rules: PolicyRules, facts: CallReading) -> Explanation:
    """Return the explanation of the verdict on a call."""
    judge = CallJudge(rules)
    judgement = judge_first(judge, facts)
    # After the failure of a rule no part has a verdict.
    pairs = zip(facts.parts, judgement.parts or repeat(None), strict=False)
    return Explanation(
        tool=facts.call.name,
        verdict=judgement.verdict,
        folder=facts.folder,
        project=None if rules.project is None else rules.project.folder,
        path_warning=rules.path_warning,
        in_view=_ASSUMED if judge.needs_origins else "",
        failure="" if judgement.failed is None else failure_text(judgement.failed),
        parts=tuple([_part(rules, facts, *pair) for pair in pairs]),
    )


def _part(
    rules: PolicyRules, facts: CallReading, part: CallPart, verdict: PartVerdict | None
) -> PartExplanation:
    """Return the explanation of *part*; its *verdict* is None if a rule failed."""
    paths = [
        PathExplanation(path=use.word.text, kind=use.kind, folder=use.folder) for use in part.paths
    ]
    return PartExplanation(
        source=one_line(part.source),
        verdict="deny" if verdict is None else verdict.verdict,
        decided_by="a failed rule" if verdict is None else decider(verdict.decided),
        why="" if verdict is None else reason_text(verdict.decided),
        action=part.action,
        inside=() if part.command is None else part.command.inside,
        effects=tuple(sorted(part.effects | part.claimed)),
        paths=tuple(paths),
        hosts=tuple([host.text for host in part.hosts]),
        unknown=tuple([f"{each.reason}: {one_line(each.source)}" for each in part.unknown]),
        rules=tuple([_rule(rule, facts, part, verdict) for rule in rules.rules]),
    )


def _rule(
    rule: PolicyRule, facts: CallReading, part: CallPart, verdict: PartVerdict | None
) -> RuleExplanation:
    """Return the judge's own finding of *rule* on *part*."""
    finding = evaluate(rule, facts, part)
    matched = () if verdict is None else [each.rule for each in verdict.matched]
    if rule.limits and finding.status not in {"not run", "failed"} and rule not in matched:
        why = "it depends on earlier calls, and this is taken as the first call of a session"
        finding = RuleFinding(rule, "not run", why, LIMIT_NAMES[type(rule.limits[0])])
    return RuleExplanation(
        rule=rule.name,
        verdict=rule.verdict,
        status=finding.status,
        why=finding.why,
        key=finding.key,
    )

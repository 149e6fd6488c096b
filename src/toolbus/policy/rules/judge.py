"""The judge of calls: all rules judge each part of a call, deny before ask before allow.

A part is one command of a shell line, an unreadable piece of it, or the whole call of another tool.
A call is allowed if every part is allowed, denied if a part is denied, and otherwise asked about.

A deny rule applies to a part that it may match, but asks unless the match is certain; an ask rule
applies to a part that it may match; an allow rule only to a certain match. A part without a
matching rule gets the default. Only rules for tools other than shells allow an unknown part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.policy.projects import process_folder, project_at, project_of
from toolbus.policy.rules.protection import Protection
from toolbus.policy.rules.records import FLOW_KEYS, CallVerdict, PartVerdict, RuleFinding
from toolbus.policy.rules.values import ConditionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from toolbus.events.catalogue import Scope
    from toolbus.policy.facts import CallPart, CallReading
    from toolbus.policy.paths.file_access import FileAccess
    from toolbus.policy.projects import Project
    from toolbus.policy.rules.records import MatchResult, PolicyRule, PolicyRules, RuleStatus
    from toolbus.policy.rules.tables import Default

_STATUSES: dict[str, RuleStatus] = {
    "allow": "allowed",
    "ask": "asked",
    "deny": "denied",
    "audit": "audited",
}
_VERDICTS: dict[RuleStatus, Default] = {"allowed": "allow", "asked": "ask", "denied": "deny"}
_VERDICTS_BY_RANK: tuple[RuleStatus, ...] = ("denied", "asked", "allowed")
_MATCHING = {True: frozenset({"yes"}), False: frozenset({"yes", "maybe"})}
"""Answers that count as a match, by whether the rule allows."""
RANKS = {"allow": 0, "ask": 1, "deny": 2}
MOST_PROJECTS = 100
"""Projects for which one policy keeps its judges; further judges are built again."""


class CallJudge:
    """Judges calls by *rules*; no call may write *protected* files or those of the installation."""

    def __init__(self, rules: PolicyRules, protected: Sequence[Path] = ()) -> None:
        self.rules = rules
        named = [call.rule for call in rules.calls]
        self.keeps_folders = any(declared.keeps_folder for _, declared in rules.tools)
        """Whether a call may begin in the folder where another ended."""
        self.remembers = self.keeps_folders or any(rule.limits for rule in rules.rules)
        """Whether verdicts depend on earlier calls."""
        self.needs_origins = any(rule.needs_origins for rule in (*rules.rules, *named))
        """Whether verdicts depend on the origin of words."""
        own_files = (*rules.program_files, *([rules.file] if rules.file else []))
        self._protection = Protection((*protected, *own_files))

    def judge(self, facts: CallReading) -> CallVerdict:
        """Return the verdict on a call, without limits; `with_limits` applies those."""
        live: list[PolicyRule] = []
        for rule in self.rules.rules:
            finding = call_mismatch(rule, facts)
            if finding is None:
                live.append(rule)
            elif finding.status == "failed":
                return CallVerdict(facts, "deny", (), finding)
        by_rules = [self._judge_part(part, live, facts) for part in facts.parts]
        parts = tuple([self._protection.tighten(part, facts) for part in by_rules])
        return CallVerdict(facts, strictest(parts), parts)

    def protected_access(self, facts: CallReading) -> tuple[FileAccess, ...]:
        """Return the access of each part of a call to protected files."""
        return tuple([self._protection.access(part, facts) for part in facts.parts])

    def _judge_part(
        self, part: CallPart, live: Iterable[PolicyRule], facts: CallReading
    ) -> PartVerdict:
        findings = [
            evaluate_part(rule, part, facts)
            for rule in live
            # Most rules with a command are about another program.
            if rule.programs is None or not rule.programs.isdisjoint(part.programs)
        ]
        matched = tuple([finding for finding in findings if finding.status != "not run"])
        return decided_part(part, matched, self.rules.default)


class ProjectJudges:
    """Judges for each project, by the rules that *read* returns for it.

    No call may write *protected* files. Errors of *read* propagate. A session without a folder
    counts as begun in this process's current folder.
    """

    def __init__(
        self, read: Callable[[Project], PolicyRules], protected: Sequence[Path] = ()
    ) -> None:
        self._read, self._protected = read, protected
        self._start = process_folder()
        project = project_at(self._start)
        self.first = CallJudge(read(project), protected)
        """The judge of sessions that begin in this process's current folder."""
        self._judges = {project: self.first}

    def of(self, scope: Scope) -> CallJudge:
        """Return the judge of a session, chosen by its project."""
        if self.first.rules.project is None:
            return self.first
        project = project_of(scope, self._start)
        judge = self._judges.get(project)
        if judge is None:
            judge = CallJudge(self._read(project), self._protected)
            # Threads may race here; a lost judge is built again.
            judges = {**self._judges, project: judge}
            self._judges = dict(list(judges.items())[-MOST_PROJECTS:])
        return judge


def evaluate(rule: PolicyRule, facts: CallReading, part: CallPart) -> RuleFinding:
    """Return the finding of *rule* on *part*."""
    return call_mismatch(rule, facts) or evaluate_part(rule, part, facts)


def call_mismatch(rule: PolicyRule, facts: CallReading) -> RuleFinding | None:
    """Return why *rule* does not match a call, whatever its parts; None if it may match."""
    for condition in rule.call_conditions:
        try:
            answer = condition.test(facts)
        except ConditionError as error:
            return RuleFinding(rule, "failed", error.reason, error.key)
        if answer.answer != "yes":
            return RuleFinding(rule, "not run", answer.why, condition.key)
    return None


def evaluate_part(rule: PolicyRule, part: CallPart, facts: CallReading) -> RuleFinding:
    """Return the finding of *rule* on *part*; its conditions on the call match."""
    if rule.has_only_call_conditions and part.unknown and not part.is_tool:
        first = part.unknown[0]
        return RuleFinding(rule, "not run", f"{first.reason}: {first.source}", "unknown")
    accepted, answers, looks = _MATCHING[rule.allows], [], []
    for condition in rule.part_conditions:
        answer = condition.test(part)
        if answer is None:
            looks.append((condition.key, condition.look))
        elif answer.answer in accepted:
            answers.append(_discreet(answer, condition.key, rule))
        else:
            return RuleFinding(rule, "not run", answer.why, condition.key)
    # Conditions on files come last because they take longest.
    for key, look in looks:
        answer = look(part, facts)
        if answer.answer not in accepted:
            return RuleFinding(rule, "not run", answer.why, key)
        answers.append(_discreet(answer, key, rule))
    return _finding(rule, answers)


def _discreet(answer: MatchResult, key: str, rule: PolicyRule) -> MatchResult:
    """Return *answer* on *key*, without words of the call if *rule* is about their origin."""
    if key in FLOW_KEYS or not rule.needs_origins:
        return answer
    return answer._replace(why="" if answer.answer == "yes" else f"its {key} are unknown")


def _finding(rule: PolicyRule, answers: Sequence[MatchResult]) -> RuleFinding:
    """Return the finding of *rule* on a part that matches all its conditions, or may."""
    doubts = [each.why for each in answers if each.answer == "maybe" and each.why]
    if doubts and rule.verdict == "deny":
        return RuleFinding(rule, "asked", f"it may match: {doubts[0]}")
    reasons = [each.why for each in answers if each.answer == "yes" and each.why]
    if doubts and not (rule.needs_origins and reasons):
        return RuleFinding(rule, _STATUSES[rule.verdict], doubts[0])
    return RuleFinding(rule, _STATUSES[rule.verdict], ", ".join(reasons))


def strictest(parts: Iterable[PartVerdict]) -> Default:
    """Return the verdict on a call of these *parts*."""
    return max([part.verdict for part in parts], key=RANKS.__getitem__)


def decided_part(part: CallPart, matched: tuple[RuleFinding, ...], default: Default) -> PartVerdict:
    """Return the verdict on *part*: that of the strictest of the *matched* rules.

    Among equal ones a rule on the origin of words decides: a grant for another covers more calls.
    """
    for status in _VERDICTS_BY_RANK:
        findings = [finding for finding in matched if finding.status == status]
        if findings:
            finding = max(findings, key=lambda each: each.needs_origins)
            return PartVerdict(part, _VERDICTS[status], finding, matched)
    decided = _by_default(part, default)
    return PartVerdict(part, _VERDICTS[decided.status], decided, matched)


def _by_default(part: CallPart, default: Default) -> RuleFinding:
    if part.unknown and default != "deny" and (not part.is_tool or default == "ask"):
        first = part.unknown[0]
        beside = f": {first.source}" if first.source not in {part.source, ""} else ""
        return RuleFinding(None, "asked", f"{first.reason}{beside}", "unknown")
    return RuleFinding(None, _STATUSES[default], f"no rule matches; the default is {default}")

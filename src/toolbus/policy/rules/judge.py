"""The verdict on a call: each part of it is judged by all rules, deny before ask before allow.

A part is one command of a shell's line, a part of it that nobody can read, or the call itself of
another tool. A call is allowed if every part is, denied if one is denied, else asked about.

For a part, a rule that denies speaks if it may fit, but asks if that is not sure; a rule that asks
speaks if it may fit; a rule that allows speaks if it surely fits. A part of which no rule speaks
gets the default; an unknown part is never allowed but by rules for a tool that is not a shell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.policy.projects import process_folder, project_at, project_of
from toolbus.policy.rules.protection import Protection
from toolbus.policy.rules.records import CallVerdict, PartVerdict, RuleFinding
from toolbus.policy.rules.values import ConditionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from toolbus.events.catalogue import Scope
    from toolbus.policy.facts import CallFacts, CallPart
    from toolbus.policy.paths.file_access import Touch
    from toolbus.policy.projects import Project
    from toolbus.policy.rules.records import Holds, PolicyRule, PolicyRules, RuleStatus
    from toolbus.policy.rules.tables import Default

_SPOKEN: dict[str, RuleStatus] = {
    "allow": "allowed",
    "ask": "asked",
    "deny": "denied",
    "audit": "audited",
}
_VERDICTS: dict[RuleStatus, Default] = {"allowed": "allow", "asked": "ask", "denied": "deny"}
_VERDICTS_BY_RANK: tuple[RuleStatus, ...] = ("denied", "asked", "allowed")
_FITTING = {True: frozenset({"yes"}), False: frozenset({"yes", "maybe"})}
"""Answers of conditions that hold for a rule, by whether it allows."""
RANKS = {"allow": 0, "ask": 1, "deny": 2}
MOST_PROJECTS = 100
"""Projects of which one policy keeps a judge; for others one is made anew."""


class CallJudge:
    """Judges calls by *rules*.

    Beside what is protected in every installation no call may write the files *protected*.
    """

    def __init__(self, rules: PolicyRules, protected: Sequence[Path] = ()) -> None:
        self.rules = rules
        self.keeps_folders = any(declared.keeps_folder for _, declared in rules.tools)
        """Whether a call may begin where another ended."""
        self.remembers = self.keeps_folders or any(rule.limits for rule in rules.rules)
        """Whether verdicts depend on the calls before."""
        own_files = (*rules.program_files, *([rules.file] if rules.file else []))
        self._protection = Protection((*protected, *own_files))

    def judge(self, facts: CallFacts) -> CallVerdict:
        """Return the verdict on a call; the limits of rules are left to `with_limits`."""
        live: list[PolicyRule] = []
        for rule in self.rules.rules:
            finding = about_call(rule, facts)
            if finding is None:
                live.append(rule)
            elif finding.status == "failed":
                return CallVerdict(facts, "deny", (), finding)
        by_rules = [self._judge_part(part, live, facts) for part in facts.parts]
        parts = tuple([self._protection.tighten(part, facts) for part in by_rules])
        return CallVerdict(facts, strictest(parts), parts)

    def touches(self, facts: CallFacts) -> tuple[Touch, ...]:
        """Return whether each part of a call touches what is protected."""
        return tuple([self._protection.touch(part, facts) for part in facts.parts])

    def _judge_part(
        self, part: CallPart, live: Iterable[PolicyRule], facts: CallFacts
    ) -> PartVerdict:
        findings = [
            about_part(rule, part, facts)
            for rule in live
            # As most rules of a command are about another one.
            if rule.programs is None or not rule.programs.isdisjoint(part.programs)
        ]
        spoken = tuple([finding for finding in findings if finding.status != "not run"])
        return decided_part(part, spoken, self.rules.default)


class ProjectJudges:
    """Judges by the rules that *read* gives for a project; no call may write the files *protected*.

    Raises what *read* raises. A session that says no folder began where this process works now.
    """

    def __init__(
        self, read: Callable[[Project], PolicyRules], protected: Sequence[Path] = ()
    ) -> None:
        self._read, self._protected = read, protected
        self._start = process_folder()
        project = project_at(self._start)
        self.first = CallJudge(read(project), protected)
        """The judge of sessions that begin where this process works."""
        self._judges = {project: self.first}

    def of(self, scope: Scope) -> CallJudge:
        """Return the judge of a session, by where its *scope* says that it began."""
        if self.first.rules.project is None:
            return self.first
        project = project_of(scope, self._start)
        judge = self._judges.get(project)
        if judge is None:
            judge = CallJudge(self._read(project), self._protected)
            # Threads may ask at the same time; what they lose is made once more.
            judges = {**self._judges, project: judge}
            self._judges = dict(list(judges.items())[-MOST_PROJECTS:])
        return judge


def examine(rule: PolicyRule, facts: CallFacts, part: CallPart) -> RuleFinding:
    """Return what *rule* says of *part*, and why."""
    return about_call(rule, facts) or about_part(rule, part, facts)


def about_call(rule: PolicyRule, facts: CallFacts) -> RuleFinding | None:
    """Return why *rule* does not speak of a call, whatever its parts are; None if it may."""
    for condition in rule.call_conditions:
        try:
            answer = condition.test(facts)
        except ConditionError as error:
            return RuleFinding(rule, "failed", error.reason, error.key)
        if answer.answer != "yes":
            return RuleFinding(rule, "not run", answer.why, condition.key)
    return None


def about_part(rule: PolicyRule, part: CallPart, facts: CallFacts) -> RuleFinding:
    """Return what *rule*, whose conditions on the call hold, says of *part*."""
    if rule.is_bare and part.unknown and not part.is_tool:
        first = part.unknown[0]
        return RuleFinding(rule, "not run", f"{first.reason}: {first.source}", "unknown")
    fitting, answers, looks = _FITTING[rule.allows], [], []
    for condition in rule.part_conditions:
        answer = condition.test(part)
        if answer is None:
            looks.append((condition.key, condition.look))
        elif answer.answer in fitting:
            answers.append(answer)
        else:
            return RuleFinding(rule, "not run", answer.why, condition.key)
    # Files are looked at last, for that takes longest.
    for key, look in looks:
        answer = look(part, facts)
        if answer.answer not in fitting:
            return RuleFinding(rule, "not run", answer.why, key)
        answers.append(answer)
    return _spoken(rule, answers)


def _spoken(rule: PolicyRule, answers: Sequence[Holds]) -> RuleFinding:
    """Return what *rule* says of a part for which all its conditions hold, or may."""
    doubts = [each.why for each in answers if each.answer == "maybe" and each.why]
    if doubts and rule.verdict == "deny":
        return RuleFinding(rule, "asked", f"it may fit: {doubts[0]}")
    whys = [each.why for each in answers if each.answer == "yes" and each.why]
    return RuleFinding(rule, _SPOKEN[rule.verdict], doubts[0] if doubts else ", ".join(whys))


def strictest(parts: Iterable[PartVerdict]) -> Default:
    """Return the verdict on a call of these *parts*."""
    return max([part.verdict for part in parts], key=RANKS.__getitem__)


def decided_part(part: CallPart, spoken: tuple[RuleFinding, ...], default: Default) -> PartVerdict:
    """Return the verdict on *part*: that of the strictest rule that has *spoken* of it."""
    for status in _VERDICTS_BY_RANK:
        for finding in spoken:
            if finding.status == status:
                return PartVerdict(part, _VERDICTS[status], finding, spoken)
    decided = _by_default(part, default)
    return PartVerdict(part, _VERDICTS[decided.status], decided, spoken)


def _by_default(part: CallPart, default: Default) -> RuleFinding:
    if part.unknown and default != "deny" and (not part.is_tool or default == "ask"):
        first = part.unknown[0]
        beside = f": {first.source}" if first.source not in {part.source, ""} else ""
        return RuleFinding(None, "asked", f"{first.reason}{beside}", "unknown")
    return RuleFinding(None, _SPOKEN[default], f"no rule speaks of it; the default is {default}")

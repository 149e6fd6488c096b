"""The verdict on a call: each part of it is judged by all rules, deny before ask before allow.

A part is one command of a shell's line, a part of it that nobody can read, or the call itself of
another tool. A call is allowed if every part is, denied if one is denied, else asked about.

For a part, a rule that denies speaks if it may fit, but asks if that is not sure; a rule that asks
speaks if it may fit; a rule that allows speaks if it surely fits. What no rule speaks of gets the
default; what cannot be known is never allowed but by rules that name a tool which is no shell.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from toolbus.policy.projects import process_folder, project_at, project_of
from toolbus.policy.rules.part_conditions import TouchedFiles
from toolbus.policy.rules.protection import Protection
from toolbus.policy.rules.records import CallVerdict, Holds, PartVerdict, RuleFinding
from toolbus.policy.rules.values import ConditionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from toolbus.events.catalogue import Scope
    from toolbus.policy.facts import CallFacts, CallPart
    from toolbus.policy.paths.touching import Touch
    from toolbus.policy.projects import Project
    from toolbus.policy.rules.records import (
        CallCondition,
        PartCondition,
        PolicyRule,
        PolicyRules,
        RuleStatus,
    )
    from toolbus.policy.rules.tables import Default

_SPOKEN: dict[str, RuleStatus] = {
    "allow": "allowed",
    "ask": "asked",
    "deny": "denied",
    "audit": "audited",
}
_VERDICTS: dict[RuleStatus, Default] = {"allowed": "allow", "asked": "ask", "denied": "deny"}
_VERDICTS_BY_RANK: tuple[RuleStatus, ...] = ("denied", "asked", "allowed")
RANKS = {"allow": 0, "ask": 1, "deny": 2}
_YES = Holds("yes")
_MOST_SPEAKERS = 1_000
MOST_PROJECTS = 100
"""Projects of which one policy keeps a judge; for others one is made anew."""


class RuleError(Exception):
    """A *rule* cannot judge a call, for its condition *key* fails."""

    def __init__(self, rule: PolicyRule, key: str, reason: str) -> None:
        self.rule, self.key, self.reason = rule, key, reason
        super().__init__(rule.name, key, reason)


class _Standing(NamedTuple):
    """What a part is to a rule, whatever the files are: *doubt* is why that is not sure.

    The *conditions* are those that need a look at files.
    """

    whys: tuple[str, ...]
    doubt: str
    conditions: tuple[PartCondition, ...] = ()


class _Standings(NamedTuple):
    """The rules that may speak of a part, by their numbers, and what *unions* of them look for.

    A union has the patterns of all rules of one kind that do not allow: if none of them is met,
    none of these rules speaks, and the files were looked at once.
    """

    by_number: dict[int, _Standing]
    unions: tuple[TouchedFiles, ...]


class _Addressed(NamedTuple):
    """A *rule* for a tool and speaker, its other *conditions*, and an argument that it needs."""

    rule: PolicyRule
    conditions: tuple[CallCondition, ...]
    argument: str | None


class CallJudge:
    """Judges calls by *rules*; what does not depend on files or arguments it finds out once.

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
        self._addressed: dict[object, list[_Addressed]] = {}

    def judge(self, facts: CallFacts) -> CallVerdict:
        """Return the verdict on a call; the limits of rules are left to `with_limits`."""
        try:
            arguments = facts.call.arguments
            live = [
                rule
                for rule, conditions, argument in self._rules_for(facts)
                # As most rules about an argument are about one that is not there.
                if (argument is None or argument in arguments)
                and (not conditions or not _first_refusal(rule, conditions, facts)[0])
            ]
        except RuleError as error:
            failed = RuleFinding(error.rule, "failed", error.reason, error.key)
            return CallVerdict(facts, "deny", (), failed)
        by_rules = [self._judge_part(part, live, facts) for part in facts.parts]
        parts = tuple([self._protection.tighten(part, facts) for part in by_rules])
        return CallVerdict(facts, strictest(parts), parts)

    def touches(self, facts: CallFacts) -> tuple[Touch, ...]:
        """Return whether each part of a call touches what is protected."""
        return tuple([self._protection.touch(part, facts) for part in facts.parts])

    def _rules_for(self, facts: CallFacts) -> list[_Addressed]:
        """Return the rules for this tool and speaker."""
        key = facts.call.name, facts.scope.agent_id, facts.scope.lineage
        known = self._addressed.get(key)
        if known is None:
            known = []
            for rule in self.rules.rules:
                fixed = [each for each in rule.call_conditions if each.is_fixed]
                if not _first_refusal(rule, fixed, facts)[0]:
                    others = [each for each in rule.call_conditions if not each.is_fixed]
                    known.append(_Addressed(rule, tuple(others), rule.argument))
            if len(self._addressed) >= _MOST_SPEAKERS:
                self._addressed = {}
            self._addressed[key] = known
        return known

    def _judge_part(
        self, part: CallPart, live: Iterable[PolicyRule], facts: CallFacts
    ) -> PartVerdict:
        standings, unions = self._standings(part)
        idle = {union.key for union in unions if union.holds_with_files(part, facts).answer == "no"}
        findings = [
            _with_files(rule, standing, part, facts)
            for rule in live
            if (standing := standings.get(rule.number)) is not None
            and not (
                idle and not rule.allows and any(each.key in idle for each in standing.conditions)
            )
        ]
        spoken = tuple([finding for finding in findings if finding.status != "not run"])
        return decided_part(part, spoken, self.rules.default)

    def _standings(self, part: CallPart) -> _Standings:
        """Return the rules that may speak of *part*, as far as it does not depend on files."""
        known: _Standings | None = part.remembered.get(self)
        if known is None:
            by_number: dict[int, _Standing] = {}
            for rule in self.rules.rules:
                # As most rules of a command are about another one.
                if rule.programs is None or not rule.programs.isdisjoint(part.programs):
                    standing = _standing(rule, part)
                    if isinstance(standing, _Standing):
                        by_number[rule.number] = standing
            known = _Standings(by_number, self._unions(by_number))
            # A policy has one judge at a time, and parts outlive him.
            part.remembered.clear()
            part.remembered[self] = known
        return known

    def _unions(self, standings: dict[int, _Standing]) -> tuple[TouchedFiles, ...]:
        """Return the union of each kind of conditions that more than one rule has."""
        by_key: dict[str, list[TouchedFiles]] = {}
        for number, standing in standings.items():
            for condition in standing.conditions:
                if isinstance(condition, TouchedFiles) and not self.rules.rules[number].allows:
                    by_key.setdefault(condition.key, []).append(condition)
        return tuple(
            [
                TouchedFiles(
                    key,
                    tuple(chain.from_iterable([each.patterns for each in conditions])),
                    every=False,
                )
                for key, conditions in by_key.items()
                if len(conditions) > 1
            ]
        )


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
        self._first = CallJudge(read(project), protected)
        self._judges = {project: self._first}

    @property
    def first(self) -> CallJudge:
        """The judge of sessions that begin where this process works."""
        return self._first

    def of(self, scope: Scope) -> CallJudge:
        """Return the judge of a session, by where its *scope* says that it began."""
        if self._first.rules.project is None:
            return self._first
        project = project_of(scope, self._start)
        judge = self._judges.get(project)
        if judge is None:
            judge = CallJudge(self._read(project), self._protected)
            # Threads may ask at the same time; what they lose is made once more.
            judges = {**self._judges, project: judge}
            self._judges = dict(list(judges.items())[-MOST_PROJECTS:])
        return judge


def examine(rule: PolicyRule, facts: CallFacts, part: CallPart) -> RuleFinding:
    """Return what *rule* says of *part*, and why; for people, who read the reasons."""
    try:
        key, answer = _first_refusal(rule, rule.call_conditions, facts)
    except RuleError as error:
        return RuleFinding(rule, "failed", error.reason, error.key)
    if key:
        return RuleFinding(rule, "not run", answer.why, key)
    standing = _standing(rule, part)
    if isinstance(standing, RuleFinding):
        return standing
    return _with_files(rule, standing, part, facts)


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


def _first_refusal(
    rule: PolicyRule, conditions: Iterable[CallCondition], facts: CallFacts
) -> tuple[str, Holds]:
    """Return the key of the first condition of the call that does not hold, "" if all do."""
    for condition in conditions:
        try:
            answer = condition.holds_for(facts)
        except ConditionError as error:
            raise RuleError(rule, error.key, error.reason) from None
        if answer.answer != "yes":
            return condition.key, answer
    return "", _YES


def _by_default(part: CallPart, default: Default) -> RuleFinding:
    if part.unknown and default != "deny" and (not part.is_tool or default == "ask"):
        first = part.unknown[0]
        beside = f": {first.source}" if first.source not in {part.source, ""} else ""
        return RuleFinding(None, "asked", f"{first.reason}{beside}", "unknown")
    return RuleFinding(None, _SPOKEN[default], f"no rule speaks of it; the default is {default}")


def _standing(rule: PolicyRule, part: CallPart) -> _Standing | RuleFinding:
    """Return what *part* is to *rule* without a look at files, or why the rule does not speak."""
    if rule.allows and part.unknown and not part.is_tool and not rule.part_conditions:
        first = part.unknown[0]
        return RuleFinding(rule, "not run", f"{first.reason}: {first.source}", "unknown")
    later: list[PartCondition] = []
    answers: list[tuple[str, Holds]] = []
    for condition in rule.part_conditions:
        answer = condition.holds_for(part)
        if answer is None:
            later.append(condition)
        else:
            answers.append((condition.key, answer))
    standing = _weighed(rule, answers)
    if isinstance(standing, RuleFinding):
        return standing
    return standing._replace(conditions=tuple(later))


def _with_files(
    rule: PolicyRule, standing: _Standing, part: CallPart, facts: CallFacts
) -> RuleFinding:
    """Return what *rule* says of *part* after a look at the files that it touches."""
    files = _weighed(
        rule, ((each.key, each.holds_with_files(part, facts)) for each in standing.conditions)
    )
    if isinstance(files, RuleFinding):
        return files
    doubt = standing.doubt or files.doubt
    if doubt and rule.verdict == "deny":
        return RuleFinding(rule, "asked", f"it may fit: {doubt}")
    why = ", ".join((*standing.whys, *files.whys))
    return RuleFinding(rule, _SPOKEN[rule.verdict], doubt or why)


def _weighed(rule: PolicyRule, answers: Iterable[tuple[str, Holds]]) -> _Standing | RuleFinding:
    """Return what the *answers* of conditions, each with its key, come to for *rule*."""
    whys, doubt = [], ""
    for key, answer in answers:
        if answer.answer == "no" or (rule.allows and answer.answer == "maybe"):
            return RuleFinding(rule, "not run", answer.why, key)
        if answer.answer == "maybe":
            doubt = doubt or answer.why
        elif answer.why:
            whys.append(answer.why)
    return _Standing(tuple(whys), doubt)

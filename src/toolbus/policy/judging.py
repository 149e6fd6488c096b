"""The verdict on a call: each piece of it is judged by all rules, deny before ask before allow.

A piece is one command of a shell's line, a part of it that nobody can read, or the call itself of
another tool. A call is allowed if every piece is, denied if one is denied, else asked about.

For a piece, a rule that denies speaks if it may fit, but asks if that is not sure; a rule that asks
speaks if it may fit; a rule that allows speaks if it surely fits. What no rule speaks of gets the
default; what cannot be known is never allowed but by rules that name a tool which is no shell.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from toolbus.policy.piece_conditions import TouchedFiles
from toolbus.policy.rules import ConditionError, Holds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from toolbus.policy.facts import CallFacts, Piece
    from toolbus.policy.rules import CallCondition, Default, PieceCondition, PolicyRules, Rule

RuleStatus: TypeAlias = Literal["allowed", "asked", "denied", "audited", "failed", "not run"]
_SPOKEN: dict[str, RuleStatus] = {
    "allow": "allowed",
    "ask": "asked",
    "deny": "denied",
    "audit": "audited",
}
_VERDICTS: dict[RuleStatus, Default] = {"allowed": "allow", "asked": "ask", "denied": "deny"}
_VERDICTS_BY_RANK: tuple[RuleStatus, ...] = ("denied", "asked", "allowed")
_RANKS = {"allow": 0, "ask": 1, "deny": 2}
_YES = Holds("yes")
_MOST_SPEAKERS = 1_000


class RuleFinding(NamedTuple):
    """What a *rule* (None: the default) said of a piece: its *status*, and *why*.

    *key* is the condition that did not hold, or that could not be judged.
    """

    rule: Rule | None
    status: RuleStatus
    why: str = ""
    key: str = ""


class PieceVerdict(NamedTuple):
    """The *verdict* on a *piece*: which rule *decided*, and what all that spoke said."""

    piece: Piece
    verdict: Default
    decided: RuleFinding
    spoken: tuple[RuleFinding, ...]


class Judgement(NamedTuple):
    """The *verdict* on a call and on each of its *pieces*; *failed* is a rule that cannot judge.

    *default* is the verdict on what no rule speaks of.
    """

    facts: CallFacts
    verdict: Default
    pieces: tuple[PieceVerdict, ...]
    default: Default
    failed: RuleFinding | None = None

    @property
    def spoken(self) -> Iterator[RuleFinding]:
        """What rules said, each once: the failed one, or those that spoke of a piece."""
        if self.failed is not None:
            yield self.failed
        seen: set[int] = set()
        for finding in [finding for piece in self.pieces for finding in piece.spoken]:
            if finding.rule is not None and finding.rule.number not in seen:
                seen.add(finding.rule.number)
                yield finding

    @property
    def decided(self) -> Iterator[PieceVerdict]:
        """The pieces that have the verdict of the call."""
        return (piece for piece in self.pieces if piece.verdict == self.verdict)

    @property
    def limited(self) -> list[Rule]:
        """The rules with limits that spoke of a piece."""
        return [
            finding.rule
            for finding in self.spoken
            if finding.rule is not None and finding.rule.limits
        ]

    def with_limits(self, broken: Mapping[int, str]) -> Judgement:
        """Return the verdict now that it is known which limits are *broken*: by rule, and why.

        A rule with limits that allows speaks if none of them is, another if one is. Without a
        reason, or a word of it, none of a rule's limits is broken.
        """
        if not self.limited:
            return self
        pieces = []
        for piece in self.pieces:
            findings = [_with_limits(finding, broken) for finding in piece.spoken]
            spoken = tuple([finding for finding in findings if finding is not None])
            pieces.append(_decided(piece.piece, spoken, self.default))
        return self._replace(verdict=_strictest(pieces), pieces=tuple(pieces))


class RuleError(Exception):
    """A *rule* cannot judge a call, for its condition *key* fails."""

    def __init__(self, rule: Rule, key: str, reason: str) -> None:
        self.rule, self.key, self.reason = rule, key, reason
        super().__init__(rule.name, key, reason)


class _Standing(NamedTuple):
    """What a piece is to a rule, whatever the files are: *doubt* is why that is not sure.

    The *conditions* are those that need a look at files.
    """

    whys: tuple[str, ...]
    doubt: str
    conditions: tuple[PieceCondition, ...] = ()


class _Standings(NamedTuple):
    """The rules that may speak of a piece, by their numbers, and what *unions* of them look for.

    A union has the patterns of all rules of one kind that do not allow: if none of them is met,
    none of these rules speaks, and the files were looked at once.
    """

    by_number: dict[int, _Standing]
    unions: tuple[TouchedFiles, ...]


class _Addressed(NamedTuple):
    """A *rule* for a tool and speaker, its other *conditions*, and an argument that it needs."""

    rule: Rule
    conditions: tuple[CallCondition, ...]
    argument: str | None


class Judge:
    """Judges calls by *rules*; what does not depend on files or arguments it finds out once."""

    def __init__(self, rules: PolicyRules) -> None:
        self.rules = rules
        self._addressed: dict[object, list[_Addressed]] = {}

    def judge(self, facts: CallFacts) -> Judgement:
        """Return the verdict on a call, if the limits of rules are left out of account.

        With `Judgement.with_limits` they are not.
        """
        try:
            given = facts.call.arguments
            live = [
                rule
                for rule, conditions, argument in self._rules_for(facts)
                # As most rules about an argument are about one that is not there.
                if (argument is None or argument in given)
                and (not conditions or not _first_refusal(rule, conditions, facts)[0])
            ]
        except RuleError as error:
            failed = RuleFinding(error.rule, "failed", error.reason, error.key)
            return Judgement(facts, "deny", (), self.rules.default, failed)
        pieces = tuple([self._judge_piece(piece, live, facts) for piece in facts.pieces])
        return Judgement(facts, _strictest(pieces), pieces, self.rules.default)

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

    def _judge_piece(self, piece: Piece, live: Iterable[Rule], facts: CallFacts) -> PieceVerdict:
        standings, unions = self._standings(piece, facts)
        idle = {
            union.key
            for union in unions
            if union.holds_for(piece, facts, every=False).answer == "no"
        }
        findings = [
            _with_files(rule, standing, piece, facts)
            for rule in live
            if (standing := standings.get(rule.number)) is not None
            and not (idle and not rule.allows and any(each.key in idle for each in standing[2]))
        ]
        spoken = tuple([finding for finding in findings if finding.status != "not run"])
        return _decided(piece, spoken, self.rules.default)

    def _standings(self, piece: Piece, facts: CallFacts) -> _Standings:
        """Return the rules that may speak of *piece*, as far as it does not depend on files."""
        known: _Standings | None = piece.remembered.get(self)
        if known is None:
            by_number: dict[int, _Standing] = {}
            for rule in self.rules.rules:
                # As most rules of a command are about another one.
                if rule.programs is None or not rule.programs.isdisjoint(piece.programs):
                    standing = _standing(rule, piece, facts)
                    if isinstance(standing, _Standing):
                        by_number[rule.number] = standing
            known = _Standings(by_number, self._unions(by_number))
            # A policy has one judge at a time, and pieces outlive him.
            piece.remembered.clear()
            piece.remembered[self] = known
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
                    key, tuple(chain.from_iterable([each.patterns for each in conditions]))
                )
                for key, conditions in by_key.items()
                if len(conditions) > 1
            ]
        )


def examine(rule: Rule, facts: CallFacts, piece: Piece) -> RuleFinding:
    """Return what *rule* says of *piece*, and why; for people, who read the reasons."""
    try:
        key, answer = _first_refusal(rule, rule.call_conditions, facts)
    except RuleError as error:
        return RuleFinding(rule, "failed", error.reason, error.key)
    if key:
        return RuleFinding(rule, "not run", answer.why, key)
    standing = _standing(rule, piece, facts)
    if isinstance(standing, RuleFinding):
        return standing
    return _with_files(rule, standing, piece, facts)


def _with_limits(finding: RuleFinding, broken: Mapping[int, str]) -> RuleFinding | None:
    """Return *finding*, or what becomes of it by limits; None if its rule does not speak."""
    rule = finding.rule
    if rule is None or not rule.limits:
        return finding
    reason = broken.get(rule.number, "")
    if rule.allows:
        return None if reason else finding
    return finding._replace(why=reason) if reason else None


def _strictest(pieces: Sequence[PieceVerdict]) -> Default:
    return max([piece.verdict for piece in pieces], key=_RANKS.__getitem__)


def _decided(piece: Piece, spoken: tuple[RuleFinding, ...], default: Default) -> PieceVerdict:
    """Return the verdict on *piece*: that of the strictest rule that has *spoken* of it."""
    for status in _VERDICTS_BY_RANK:
        for finding in spoken:
            if finding.status == status:
                return PieceVerdict(piece, _VERDICTS[status], finding, spoken)
    decided = _by_default(piece, default)
    return PieceVerdict(piece, _VERDICTS[decided.status], decided, spoken)


def _first_refusal(
    rule: Rule, conditions: Iterable[CallCondition], facts: CallFacts
) -> tuple[str, Holds]:
    """Return the key of the first condition of the call that does not hold, "" if all do."""
    for condition in conditions:
        try:
            answer = condition.holds_for(facts, every=rule.allows)
        except ConditionError as error:
            raise RuleError(rule, error.key, error.reason) from None
        if answer.answer != "yes":
            return condition.key, answer
    return "", _YES


def _by_default(piece: Piece, default: Default) -> RuleFinding:
    if piece.unknown and default != "deny" and (not piece.is_tool or default == "ask"):
        first = piece.unknown[0]
        beside = f": {first.source}" if first.source not in {piece.source, ""} else ""
        return RuleFinding(None, "asked", f"{first.reason}{beside}", "unknown")
    return RuleFinding(None, _SPOKEN[default], f"no rule speaks of it; the default is {default}")


def _standing(rule: Rule, piece: Piece, facts: CallFacts) -> _Standing | RuleFinding:
    """Return what *piece* is to *rule* without a look at files, or why the rule does not speak."""
    if rule.allows and piece.unknown and not piece.is_tool and not rule.piece_conditions:
        first = piece.unknown[0]
        return RuleFinding(rule, "not run", f"{first.reason}: {first.source}", "unknown")
    later: list[PieceCondition] = []
    now: list[PieceCondition] = []
    for condition in rule.piece_conditions:
        needs_files = condition.needs_files(piece, every=rule.allows)
        (later if needs_files else now).append(condition)
    standing = _asked(rule, now, piece, facts)
    if isinstance(standing, RuleFinding):
        return standing
    return standing._replace(conditions=tuple(later))


def _with_files(rule: Rule, standing: _Standing, piece: Piece, facts: CallFacts) -> RuleFinding:
    """Return what *rule* says of *piece* after a look at the files that it touches."""
    whys, doubt, conditions = standing
    if conditions:
        answer = _asked(rule, conditions, piece, facts)
        if isinstance(answer, RuleFinding):
            return answer
        whys, doubt = (*whys, *answer.whys), doubt or answer.doubt
    if doubt and rule.verdict == "deny":
        return RuleFinding(rule, "asked", f"it may fit: {doubt}")
    return RuleFinding(rule, _SPOKEN[rule.verdict], doubt or ", ".join(whys))


def _asked(
    rule: Rule, conditions: Iterable[PieceCondition], piece: Piece, facts: CallFacts
) -> _Standing | RuleFinding:
    whys, doubt = [], ""
    for condition in conditions:
        answer = condition.holds_for(piece, facts, every=rule.allows)
        if answer.answer == "no" or (rule.allows and answer.answer == "maybe"):
            return RuleFinding(rule, "not run", answer.why, condition.key)
        if answer.answer == "maybe":
            doubt = doubt or answer.why
        elif answer.why:
            whys.append(answer.why)
    return _Standing(tuple(whys), doubt)

"""The verdict on a call: each piece of it is judged by all rules, deny before ask before allow.

A piece is one command of a shell's line, a part of it that nobody can read, or the call itself of
another tool. A call is allowed if every piece is, denied if one is denied, else asked about.

For a piece, a rule that denies speaks if it may fit, but asks if that is not sure; a rule that asks
speaks if it may fit; a rule that allows speaks if it surely fits. What no rule speaks of gets the
default; what cannot be known is never allowed but by rules that name a tool which is no shell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from toolbus.policy.rules import ConditionError, Holds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.policy.facts import CallFacts, Piece
    from toolbus.policy.rules import Default, PolicyRules, Rule

RuleStatus: TypeAlias = Literal["allowed", "asked", "denied", "audited", "failed", "not run"]
_SPOKEN: dict[str, RuleStatus] = {
    "allow": "allowed",
    "ask": "asked",
    "deny": "denied",
    "audit": "audited",
}
_RANKS = {"allow": 0, "ask": 1, "deny": 2}


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
    """The *verdict* on a call and on each of its *pieces*; *failed* is a rule that cannot judge."""

    facts: CallFacts
    verdict: Default
    pieces: tuple[PieceVerdict, ...]
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


def judge(rules: PolicyRules, facts: CallFacts) -> Judgement:
    """Return the verdict of *rules* on a call."""
    try:
        live = [rule for rule in rules.rules if _concerns(rule, facts)]
    except RuleError as error:
        failed = RuleFinding(error.rule, "failed", error.reason, error.key)
        return Judgement(facts, "deny", (), failed)
    pieces = tuple([_judge_piece(piece, live, facts, rules.default) for piece in facts.pieces])
    verdict = max([piece.verdict for piece in pieces], key=_RANKS.__getitem__)
    return Judgement(facts, verdict, pieces)


class RuleError(Exception):
    """A *rule* cannot judge a call, for its condition *key* fails."""

    def __init__(self, rule: Rule, key: str, reason: str) -> None:
        self.rule, self.key, self.reason = rule, key, reason
        super().__init__(rule.name, key, reason)


def examine(rule: Rule, facts: CallFacts, piece: Piece) -> RuleFinding:
    """Return what *rule* says of *piece*, and why; for people, who read the reasons."""
    try:
        key, answer = _first_refusal(rule, facts)
    except RuleError as error:
        return RuleFinding(rule, "failed", error.reason, error.key)
    if not key:
        return _speak(rule, piece, facts)
    return RuleFinding(rule, "not run", answer.why, key)


def _concerns(rule: Rule, facts: CallFacts) -> bool:
    return not rule.call_conditions or not _first_refusal(rule, facts)[0]


def _first_refusal(rule: Rule, facts: CallFacts) -> tuple[str, Holds]:
    """Return the key of the first condition of the call that does not hold, "" if all do."""
    for condition in rule.call_conditions:
        try:
            answer = condition.holds_for(facts, every=rule.allows)
        except ConditionError as error:
            raise RuleError(rule, error.key, error.reason) from None
        if answer.answer != "yes":
            return condition.key, answer
    return "", Holds("yes")


def _judge_piece(
    piece: Piece, live: Iterable[Rule], facts: CallFacts, default: Default
) -> PieceVerdict:
    programs = piece.programs
    findings = [
        _speak(rule, piece, facts)
        for rule in live
        # As most rules of a command are about another one.
        if rule.programs is None or not rule.programs.isdisjoint(programs)
    ]
    spoken = tuple([finding for finding in findings if finding.status != "not run"])
    for status, verdict in (("denied", "deny"), ("asked", "ask"), ("allowed", "allow")):
        for finding in spoken:
            if finding.status == status:
                return PieceVerdict(piece, verdict, finding, spoken)  # type: ignore[arg-type]  # they are
    decided = _by_default(piece, default)
    verdicts: dict[RuleStatus, Default] = {"denied": "deny", "asked": "ask", "allowed": "allow"}
    return PieceVerdict(piece, verdicts[decided.status], decided, spoken)


def _by_default(piece: Piece, default: Default) -> RuleFinding:
    if piece.unknown and default != "deny" and (not piece.is_tool or default == "ask"):
        first = piece.unknown[0]
        beside = f": {first.source}" if first.source not in {piece.source, ""} else ""
        return RuleFinding(None, "asked", f"{first.reason}{beside}", "unknown")
    return RuleFinding(None, _SPOKEN[default], f"no rule speaks of it; the default is {default}")


def _speak(rule: Rule, piece: Piece, facts: CallFacts) -> RuleFinding:
    """Return what *rule*, whose conditions of the call hold, says of *piece*."""
    whys: list[str] = []
    doubt = ""
    for condition in rule.piece_conditions:
        answer = condition.holds_for(piece, facts, every=rule.allows)
        if answer.answer == "no" or (rule.allows and answer.answer == "maybe"):
            return RuleFinding(rule, "not run", answer.why, condition.key)
        if answer.answer == "maybe":
            doubt = doubt or answer.why
        elif answer.why:
            whys.append(answer.why)
    if rule.allows and piece.unknown and not piece.is_tool and not rule.piece_conditions:
        first = piece.unknown[0]
        return RuleFinding(rule, "not run", f"{first.reason}: {first.source}", "unknown")
    if doubt and rule.verdict == "deny":
        return RuleFinding(rule, "asked", f"it may fit: {doubt}", "")
    return RuleFinding(rule, _SPOKEN[rule.verdict], doubt or ", ".join(whys))

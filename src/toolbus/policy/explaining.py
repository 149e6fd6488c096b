"""Why a call gets its verdict: its pieces with what they do, and rule by rule what it said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.policy.history.counting import judge_first
from toolbus.policy.judging import Judge, RuleFinding, examine
from toolbus.policy.wording import because, failure, named, shortened
from toolbus.terminal.spans import Span, Style

if TYPE_CHECKING:
    from collections.abc import Collection

    from toolbus.policy.facts import CallFacts, Piece
    from toolbus.policy.judging import Judgement, PieceVerdict, RuleStatus
    from toolbus.policy.rules import PolicyRules, Rule
    from toolbus.terminal.screen import Screen

_STYLES: dict[str, Style] = {"allow": "good", "ask": "asked", "deny": "bad"}
_SIGNS: dict[str, Span] = {
    "allowed": Span("✓", "good"),
    "asked": Span("?", "asked"),
    "denied": Span("✗", "bad"),
    "failed": Span("!", "bad"),
    "audited": Span("·", "changed"),
    "not run": Span("·", "dim"),
}


class RuleExplanation(Struct, frozen=True, kw_only=True):
    """What a rule said of a piece; *key* is the condition that did not hold, or failed."""

    rule: str
    verdict: str
    status: str
    why: str = ""
    key: str = ""


class PathExplanation(Struct, frozen=True, kw_only=True):
    """A file or folder that a piece names, and what is done to it."""

    path: str
    kind: str
    folder: str | None = None


class PieceExplanation(Struct, frozen=True, kw_only=True):
    """A piece of a call: what it does, and the verdict on it."""

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
    """The verdict on a call and on each of its pieces; *failure* is a rule that cannot judge it."""

    tool: str
    verdict: str
    folder: str | None = None
    failure: str = ""
    pieces: tuple[PieceExplanation, ...] = ()


def explain(rules: PolicyRules, facts: CallFacts) -> Explanation:
    """Return why a call gets its verdict."""
    judgement = judge_first(Judge(rules), facts)
    return Explanation(
        tool=facts.call.name,
        verdict=judgement.verdict,
        folder=facts.folder,
        failure="" if judgement.failed is None else failure(judgement.failed),
        pieces=tuple(
            [
                _piece(rules, facts, piece, index, judgement)
                for index, piece in enumerate(facts.pieces)
            ]
        ),
    )


def _examined(
    rule: Rule, facts: CallFacts, piece: Piece, spoken: Collection[Rule | None]
) -> RuleFinding:
    finding = examine(rule, facts, piece)
    if rule.limits and finding.status not in {"not run", "failed"} and rule not in spoken:
        key = rule.limits[0].key
        return RuleFinding(rule, "not run", "it fits, but as a first call keeps to the limit", key)
    return finding


def _piece(
    rules: PolicyRules, facts: CallFacts, piece: Piece, index: int, judgement: Judgement
) -> PieceExplanation:
    verdict: PieceVerdict | None = judgement.pieces[index] if judgement.pieces else None
    spoken = () if verdict is None else [finding.rule for finding in verdict.spoken]
    findings = [(rule, _examined(rule, facts, piece, spoken)) for rule in rules.rules]
    return PieceExplanation(
        source=shortened(piece.source),
        verdict="deny" if verdict is None else verdict.verdict,
        decided_by="a failed rule" if verdict is None else named(verdict.decided),
        why="" if verdict is None else because(verdict.decided),
        action=piece.action,
        inside=() if piece.command is None else piece.command.inside,
        effects=tuple(sorted(piece.effects | piece.claimed)),
        paths=tuple(
            [
                PathExplanation(path=use.word.text, kind=use.kind, folder=use.folder)
                for use in piece.paths
            ]
        ),
        hosts=tuple([host.text for host in piece.hosts]),
        unknown=tuple([f"{each.reason}: {shortened(each.source)}" for each in piece.unknown]),
        rules=tuple(
            [
                RuleExplanation(
                    rule=rule.name,
                    verdict=rule.verdict,
                    status=finding.status,
                    why=finding.why,
                    key=finding.key,
                )
                for rule, finding in findings
            ]
        ),
    )


def show(explanation: Explanation, screen: Screen) -> None:
    """Write *explanation* for a person."""
    for piece in explanation.pieces:
        _show_piece(piece, screen)
        screen.line()
    if explanation.failure:
        screen.prose(explanation.failure, style="bad")
    where = explanation.folder or "an unknown folder"
    screen.line(
        Span(explanation.verdict, _STYLES[explanation.verdict]),
        f"  {explanation.tool} in {where}",
    )


def _show_piece(piece: PieceExplanation, screen: Screen) -> None:
    screen.whole(piece.source or "(nothing)", style="strong")
    if piece.inside:
        screen.whole(f"run by {' > '.join(piece.inside)}", indent=2, style="dim")
    does = ", ".join(piece.effects) or "nothing known"
    screen.whole(f"does: {does}", indent=2)
    for path in piece.paths:
        where = "" if path.folder in {".", None} else f" from {path.folder} on"
        screen.whole(f"{path.kind}: {path.path}{where}", indent=2)
    for host in piece.hosts:
        screen.whole(f"reaches: {host}", indent=2)
    for unknown in piece.unknown:
        screen.whole(f"not known: {unknown}", indent=2, style="asked")
    for rule in piece.rules:
        status: RuleStatus | str = rule.status
        key = f" ({rule.key})" if rule.key else ""
        why = f": {rule.why}" if rule.why else ""
        style: Style = "dim" if status == "not run" else ""
        text = f" {rule.rule}  {status}{key}{why}"
        screen.line(_SIGNS[status], Span(text, style), indent=2)
    screen.whole(
        f"{piece.verdict}, by {piece.decided_by}: {piece.why}".removesuffix(": "),
        indent=2,
        style=_STYLES[piece.verdict],
    )

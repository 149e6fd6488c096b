"""The words of a verdict: for the model that called, for a person who is asked, for the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.bus.dispatch.details import PartNote
from toolbus.policy.rules.protection import PROTECTED
from toolbus.policy.rules.values import first_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.bus.ledger.records import HandlerStatus
    from toolbus.policy.rules.records import (
        CallVerdict,
        PartVerdict,
        PolicyRule,
        RuleFinding,
        RuleStatus,
    )

_STATUSES: dict[RuleStatus, HandlerStatus] = {
    "allowed": "ran",
    "audited": "ran",
    "asked": "asked",
    "denied": "denied",
    "failed": "failed",
}
_MOST_PARTS, _LONGEST = 8, 300


def refusal(judgement: CallVerdict, fault: str = "") -> str:
    """Return why a call is denied, for the model: each part, its rule and what to do instead.

    A *fault* of the project is told if it may be why no rule speaks of a part.
    """
    if judgement.failed is not None:
        return f"denied by the policy: {failure(judgement.failed)}"
    parts = list(judgement.decided)
    hints = dict.fromkeys([each.decided.rule.hint for each in parts if each.decided.rule])
    reasons = _headed("denied by the policy", list(_lines(parts)))
    instead = [f"instead: {text}" for text in hints if text]
    return "\n".join([reasons, *_fault_of_project(parts, fault), *instead])


def question(judgement: CallVerdict, fault: str = "") -> str:
    """Return what is asked of a person: which parts, and why; *fault* as `refusal` takes it."""
    parts, others = list(judgement.decided), len(judgement.parts)
    share = f" ({len(parts)} of {others} parts)" if others > len(parts) else ""
    reasons = _headed(f"the policy asks{share}", list(_lines(parts)))
    return "\n".join([reasons, *_fault_of_project(parts, fault)])


def _fault_of_project(parts: Sequence[PartVerdict], fault: str) -> list[str]:
    is_idle = any(each.decided.rule is None and not each.decided.key for each in parts)
    return [fault] if fault and is_idle else []


def asking_rules(judgement: CallVerdict) -> str:
    """Return what asks, each once, one a line: names of rules, or what stands in for a rule."""
    return "\n".join(dict.fromkeys([_asking(each.decided) for each in judgement.decided]))


def _asking(finding: RuleFinding) -> str:
    # A yes to what the default asks about is none to what nobody can know.
    return f"{named(finding)}: unknown" if finding.key == "unknown" else named(finding)


def failure(finding: RuleFinding) -> str:
    """Return what is said of a rule that cannot judge a call."""
    return f"{named(finding)} cannot judge this call: {finding.key}: {finding.why}"


def named(finding: RuleFinding) -> str:
    """Return what decided, such as "rule 'no force-push'"."""
    if finding.rule is not None:
        return finding.rule.label
    return "no rule lifts this" if finding.key == PROTECTED else "the default"


def because(finding: RuleFinding) -> str:
    """Return why a rule spoke: its reason, and which of its conditions fitted how."""
    reason = "" if finding.rule is None else finding.rule.reason
    if reason and finding.why:
        return f"{reason} ({finding.why})"
    return reason or finding.why or "all its conditions hold"


def shortened(source: str) -> str:
    """Return a part of a line in one line that is not too long."""
    return first_words(" ".join(source.split()), _LONGEST)


def notes(rules: Sequence[PolicyRule], judgement: CallVerdict, notice: str = "") -> list[PartNote]:
    """Return what each of *rules* did, for the ledger: those that did not apply did not run.

    A *notice* says why the policy's file as it is now is not in force.
    """
    all_notes = [rule.idle_note for rule in rules]
    for finding in judgement.spoken:
        if finding.rule is not None:
            why = f"{finding.status}: {finding.why}" if finding.why else finding.status
            all_notes[finding.rule.number] = PartNote(
                finding.rule.label, _STATUSES[finding.status], why
            )
    all_notes.extend(
        [
            PartNote("protection", _STATUSES[each.decided.status], each.decided.why)
            for each in judgement.parts
            if each.decided.key == PROTECTED
        ]
    )
    if notice:
        all_notes.append(PartNote("the policy's file", "failed", notice))
    return all_notes


def _headed(head: str, lines: list[str]) -> str:
    return f"{head}: {lines[0]}" if len(lines) == 1 else "\n".join([f"{head}:", *lines])


def _lines(parts: list[PartVerdict]) -> Iterator[str]:
    for each in parts[:_MOST_PARTS]:
        part, finding = each.part, each.decided
        source = "" if part.is_tool else f"`{shortened(part.source)}`: "
        is_default = finding.rule is None and finding.key != PROTECTED
        rule = "" if is_default else f"{named(finding)}: "
        yield f"{source}{rule}{because(finding)}"
    if len(parts) > _MOST_PARTS:
        yield f"and {len(parts) - _MOST_PARTS} more"

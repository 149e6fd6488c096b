"""The texts of a verdict: for the calling model, the approving person and the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.bus.dispatch.details import PartNote
from toolbus.policy.rules.protection import PROTECTED
from toolbus.policy.rules.values import first_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.bus.ledger.records import HandlerStatus
    from toolbus.policy.facts import CallPart
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


def refusal_text(judgement: CallVerdict, path_warning: str = "") -> str:
    """Return the refusal for the model: each denied part, its rule, and alternatives.

    If a rule on the origin of words matched, it holds no word of the call. A *path_warning* is
    included if it may be the reason that no rule matches a part.
    """
    if judgement.failed is not None:
        return f"denied by the policy: {failure_text(judgement.failed)}"
    parts = list(judgement.decided)
    hints = dict.fromkeys([each.decided.rule.hint for each in parts if each.decided.rule])
    reasons = _with_heading("denied by the policy", list(_lines(parts, judgement)))
    instead = [f"instead: {text}" for text in hints if text]
    return "\n".join([reasons, *_path_warning(parts, path_warning), *instead])


def question_text(judgement: CallVerdict, path_warning: str = "") -> str:
    """Return the question for a person: the parts to approve and why; see `refusal_text`."""
    parts, others = list(judgement.decided), len(judgement.parts)
    share = f" ({len(parts)} of {others} parts)" if others > len(parts) else ""
    reasons = _with_heading(f"the policy requires approval{share}", list(_lines(parts, judgement)))
    return "\n".join([reasons, *_path_warning(parts, path_warning)])


def _path_warning(parts: Sequence[PartVerdict], path_warning: str) -> list[str]:
    is_idle = any(each.decided.rule is None and not each.decided.key for each in parts)
    return [path_warning] if path_warning and is_idle else []


def asking_rules(judgement: CallVerdict) -> str:
    """Return the distinct rules or defaults that require approval, one per line."""
    call_id = judgement.facts.call.id
    return "\n".join(dict.fromkeys([_asking(each.decided, call_id) for each in judgement.decided]))


def _asking(finding: RuleFinding, call_id: str) -> str:
    # A grant for a tool and a rule must not cover a later call with words of another stranger.
    if finding.rule is not None and finding.rule.needs_origins:
        return f"{decider(finding)} for call {call_id}"
    # An approval of the default must not cover an unknown part.
    return f"{decider(finding)}: unknown" if finding.key == "unknown" else decider(finding)


def failure_text(finding: RuleFinding) -> str:
    """Return the text for a rule that cannot judge a call."""
    return f"{decider(finding)} cannot judge this call: {finding.key}: {finding.why}"


def decider(finding: RuleFinding) -> str:
    """Return the name of the decider, such as "rule 'no force-push'"."""
    if finding.rule is not None:
        return finding.rule.label
    return "a protection that no rule lifts" if finding.key == PROTECTED else "the default"


def reason_text(finding: RuleFinding) -> str:
    """Return why a rule decided: its reason, and how its conditions matched."""
    reason = "" if finding.rule is None else finding.rule.reason
    if reason and finding.why:
        return f"{reason} ({finding.why})"
    return reason or finding.why or "all its conditions match"


def _may_show(judgement: CallVerdict, finding: RuleFinding) -> bool:
    """Return whether the details of *finding* hold no word of a call that must stay out."""
    is_discreet = finding.rule is not None and finding.rule.needs_origins
    return is_discreet or not judgement.is_discreet


def _reason_in(judgement: CallVerdict, finding: RuleFinding) -> str:
    """Return the reason for *finding*, without words of a call that must stay out."""
    if _may_show(judgement, finding):
        return reason_text(finding)
    reason = "" if finding.rule is None else finding.rule.reason
    return reason or ("it is unknown" if finding.key == "unknown" else "it is not allowed as such")


def _program(part: CallPart) -> str:
    """Return the program of *part* without its words."""
    return part.action[0] if part.action and not part.unknown else ""


def one_line(source: str) -> str:
    """Return *source* on one line, truncated."""
    return first_words(" ".join(source.split()), _LONGEST)


def ledger_notes(
    rules: Sequence[PolicyRule], judgement: CallVerdict, notice: str = ""
) -> list[PartNote]:
    """Return the ledger's note for each of *rules*; rules that do not match did not run.

    A *notice* says why the current policy file is not active.
    """
    all_notes = [rule.idle_note for rule in rules]
    for finding in judgement.matched:
        if finding.rule is not None:
            text = finding.why if _may_show(judgement, finding) else ""
            why = f"{finding.status}: {text}" if text else finding.status
            all_notes[finding.rule.number] = PartNote(
                finding.rule.label, _STATUSES[finding.status], why
            )
    all_notes.extend(
        [
            PartNote(
                "protection", _STATUSES[each.decided.status], _reason_in(judgement, each.decided)
            )
            for each in judgement.parts
            if each.decided.key == PROTECTED
        ]
    )
    if notice:
        all_notes.append(PartNote("the policy file", "failed", notice))
    return all_notes


def _with_heading(head: str, lines: list[str]) -> str:
    return f"{head}: {lines[0]}" if len(lines) == 1 else "\n".join([f"{head}:", *lines])


def _lines(parts: list[PartVerdict], judgement: CallVerdict) -> Iterator[str]:
    for each in parts[:_MOST_PARTS]:
        part, finding = each.part, each.decided
        text = _program(part) if judgement.is_discreet else one_line(part.source)
        source = "" if part.is_tool or not text else f"`{text}`: "
        is_default = finding.rule is None and finding.key != PROTECTED
        rule = "" if is_default else f"{decider(finding)}: "
        yield f"{source}{rule}{_reason_in(judgement, finding)}"
    if len(parts) > _MOST_PARTS:
        yield f"and {len(parts) - _MOST_PARTS} more"

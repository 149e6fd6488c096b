"""The texts of a verdict: for the calling model, the approving person and the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.bus.dispatch.details import PartNote
from toolbus.policy.rules.protection import PROTECTED
from toolbus.policy.rules.records import PartVerdict
from toolbus.policy.rules.values import first_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.bus.ledger.records import HandlerStatus
    from toolbus.policy.rules.records import CallVerdict, PolicyRule, RuleFinding, RuleStatus

_STATUSES: dict[RuleStatus, HandlerStatus] = {
    "allowed": "ran",
    "audited": "ran",
    "asked": "asked",
    "denied": "denied",
    "failed": "failed",
}
_MOST_PARTS, _LONGEST = 8, 300


def without_words(judgement: CallVerdict) -> CallVerdict:
    """Return *judgement* without words of the call, if a rule on their origin matched.

    Of a command it keeps the program, of other rules their reasons.
    """
    if not any(each.needs_origins for each in judgement.matched):
        return judgement
    parts = [
        PartVerdict(
            replace(part, source="" if part.unknown else "".join(part.action[:1])),
            verdict,
            _blank(decided),
            tuple(map(_blank, matched)),
        )
        for part, verdict, decided, matched in judgement.parts
    ]
    return judgement._replace(parts=tuple(parts))


def _blank(finding: RuleFinding) -> RuleFinding:
    if finding.needs_origins:
        return finding
    if finding.key == PROTECTED:
        return finding._replace(why="it uses a file that only a person may change or read")
    by_default = "it is unknown" if finding.key == "unknown" else "it is not allowed as such"
    return finding._replace(why="" if finding.rule else by_default)


def refusal_text(judgement: CallVerdict, path_warning: str = "") -> str:
    """Return the refusal for the model: each denied part, its rule, and alternatives.

    A *path_warning* is included if it may be the reason that no rule matches a part.
    """
    if judgement.failed is not None:
        return f"denied by the policy: {failure_text(judgement.failed)}"
    parts = list(judgement.decided)
    hints = dict.fromkeys([each.decided.rule.hint for each in parts if each.decided.rule])
    reasons = _with_heading("denied by the policy", list(_lines(parts)))
    instead = [f"instead: {text}" for text in hints if text]
    return "\n".join([reasons, *_path_warning(parts, path_warning), *instead])


def question_text(judgement: CallVerdict, path_warning: str = "") -> str:
    """Return the question for a person: the parts to approve and why; see `refusal_text`."""
    parts, others = list(judgement.decided), len(judgement.parts)
    share = f" ({len(parts)} of {others} parts)" if others > len(parts) else ""
    reasons = _with_heading(f"the policy requires approval{share}", list(_lines(parts)))
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
    if finding.needs_origins:
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
        all_notes.append(PartNote("the policy file", "failed", notice))
    return all_notes


def _with_heading(head: str, lines: list[str]) -> str:
    return f"{head}: {lines[0]}" if len(lines) == 1 else "\n".join([f"{head}:", *lines])


def _lines(parts: list[PartVerdict]) -> Iterator[str]:
    for each in parts[:_MOST_PARTS]:
        part, finding = each.part, each.decided
        source = "" if part.is_tool or not part.source else f"`{one_line(part.source)}`: "
        is_default = finding.rule is None and finding.key != PROTECTED
        rule = "" if is_default else f"{decider(finding)}: "
        yield f"{source}{rule}{reason_text(finding)}"
    if len(parts) > _MOST_PARTS:
        yield f"and {len(parts) - _MOST_PARTS} more"

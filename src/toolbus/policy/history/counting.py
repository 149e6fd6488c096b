"""The verdict on a call by what its session did before, and what the call adds to that.

A rule with limits speaks of a call that breaks one of them; one that allows, of a call that breaks
none. Verdict and count are one change of the session's state, so that three calls at once don't
each pass alone.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toolbus.messages.immutable import thaw
from toolbus.policy.findings import RuleFinding
from toolbus.policy.history.limits import LimitedCall, Quota
from toolbus.policy.history.named_calls import is_alone
from toolbus.policy.history.session_record import CallTime, SessionRecord
from toolbus.policy.judging import examine, with_limits
from toolbus.policy.rules import ConditionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import ToolMessage
    from toolbus.policy.facts import CallFacts
    from toolbus.policy.findings import CallVerdict
    from toolbus.policy.judging import CallJudge
    from toolbus.policy.rules import Default, PolicyRule, PolicyRules

_NANOSECOND = 1e-9
_NEVER_RAN = frozenset({"denied", "unknown_tool", "invalid_arguments"})


class CountedCall(NamedTuple):
    """A call whose verdict depends on what was before: the *judgement* leaves limits out.

    *named* are the names that rules know it by, and whether it surely is that call.
    """

    judgement: CallVerdict
    default: Default
    named: Mapping[str, bool]
    digest: str
    key: str
    run_id: str
    session_id: str

    def decide(self, record: SessionRecord, now: float) -> CallVerdict:
        """Return the verdict; unless it is a denial, *record* has counted the call afterwards."""
        when = CallTime(now, self.run_id, self.session_id, self.key)
        uses = [(rule, self._use(rule, when)) for rule in self._limited()]
        if not uses and not self.named:
            return self.judgement
        try:
            broken = {rule.number: _broken(rule, use, record) for rule, use in uses}
        except _LimitError as error:
            failed = RuleFinding(error.rule, "failed", error.reason, error.key)
            return self.judgement._replace(verdict="deny", parts=(), failed=failed)
        judgement = with_limits(self.judgement, broken, self.default)
        if judgement.verdict != "deny":
            meters: dict[str, Any] = {}
            for rule, use in uses:
                meters |= _count(rule, use, record)
            record.begin(when, meters, self.named)
        return judgement

    def _limited(self) -> list[PolicyRule]:
        """Return the rules with limits that spoke of a part."""
        rules = [finding.rule for finding in self.judgement.spoken]
        return [rule for rule in rules if rule is not None and rule.limits]

    def _use(self, rule: PolicyRule, when: CallTime) -> LimitedCall:
        times = sum(
            finding.rule is not None and finding.rule.number == rule.number
            for part in self.judgement.parts
            for finding in part.spoken
        )
        return LimitedCall(when, self.digest, self.judgement.facts.call.arguments, times)


class _LimitError(Exception):
    def __init__(self, rule: PolicyRule, error: ConditionError) -> None:
        self.rule, self.key, self.reason = rule, error.key, error.reason
        super().__init__(rule.name, error.reason)


def judge_first(judge: CallJudge, facts: CallFacts) -> CallVerdict:
    """Return the verdict on a call as the first of a session."""
    call = counted(judge.judge(facts), judge.rules, facts.scope)
    return call.decide(SessionRecord(None), 0.0)


def counted(judgement: CallVerdict, rules: PolicyRules, scope: Scope) -> CountedCall:
    """Return the call of *judgement* as one that is counted; files may be looked at."""
    facts = judgement.facts
    call = facts.call
    return CountedCall(
        judgement,
        rules.default,
        _named(facts, rules),
        _digest(call.name, call.arguments),
        call_key(scope, call.id),
        scope.run_id,
        scope.session_id,
    )


def end_call(
    rules: PolicyRules, record: SessionRecord, key: str, message: ToolMessage, now: float
) -> None:
    """Add to *record* what is known of a call now that it has ended with *message*."""
    call = record.running(key)
    if call is None:
        return
    when = CallTime(now, call["run"], "", key)
    for meter, (measure, seconds, by_run) in call["meters"].items():
        record.add(meter, _amount(measure, message), when, seconds, by_run=by_run)
    happened: dict[str, bool] = {}
    for each in rules.calls:
        ended = each.ended(message)
        if _ran(message) and ended is not False:
            happened[each.name] = ended is True
    record.end(key, happened)


def call_key(scope: Scope, call_id: str) -> str:
    """Return what a call of a session is called in its record."""
    return f"{scope.session_id}/{call_id}"


def _named(facts: CallFacts, rules: PolicyRules) -> dict[str, bool]:
    named: dict[str, bool] = {}
    for each in rules.calls:
        statuses = [examine(each.rule, facts, part).status for part in facts.parts]
        if any(status != "not run" for status in statuses):
            named[each.name] = statuses[-1] == "denied" and is_alone(facts)
    return named


def _count(rule: PolicyRule, use: LimitedCall, record: SessionRecord) -> dict[str, Any]:
    """Count a call that begins; return what the meters are that its end adds to."""
    meters: dict[str, Any] = {}
    for limit in rule.limits:
        limit.add(use, rule.name, record)
        if isinstance(limit, Quota) and limit.counts_at_end:
            meters[limit.meter(rule.name)] = [limit.measure, limit.seconds, limit.by_run]
    return meters


def _broken(rule: PolicyRule, use: LimitedCall, record: SessionRecord) -> str:
    for limit in rule.limits:
        try:
            reason = limit.broken_by(use, rule.name, record)
        except ConditionError as error:
            raise _LimitError(rule, error) from None
        if reason:
            return reason
    return ""


def _amount(measure: str, message: ToolMessage) -> float:
    if measure == "bytes":
        return len(message.text.encode())
    response = message.tool_response
    if response is None or response.duration_ns is None or not _ran(message):
        return 0
    return response.duration_ns * _NANOSECOND


def _ran(message: ToolMessage) -> bool:
    """Tell whether the tool ran; what nobody answered for may have run."""
    response = message.tool_response
    return response is None or response.error_type not in _NEVER_RAN


def _digest(name: str, arguments: Any) -> str:
    body = msgspec.json.encode([name, thaw(arguments)], order="deterministic")
    return blake2b(body, digest_size=12).hexdigest()

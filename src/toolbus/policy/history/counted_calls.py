"""Counted calls: verdicts that depend on the session's earlier calls, and their record.

A rule with limits matches a call that breaks a limit; an allow rule matches a call that breaks
none. Verdict and count are one state update, so that parallel calls cannot each pass alone.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from toolbus.messages.immutable import thaw
from toolbus.policy.history.limits import LimitedCall, Quota, Repeats, is_alone
from toolbus.policy.history.session_record import CallTime, SessionRecord
from toolbus.policy.rules.judge import decided_part, evaluate, strictest
from toolbus.policy.rules.protection import tightened
from toolbus.policy.rules.records import RuleFinding
from toolbus.policy.rules.values import ConditionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import ToolMessage
    from toolbus.policy.facts import CallReading
    from toolbus.policy.paths.file_access import FileAccess
    from toolbus.policy.rules.judge import CallJudge
    from toolbus.policy.rules.records import CallVerdict, PolicyRule, PolicyRules
    from toolbus.policy.rules.tables import Default

_NANOSECOND = 1e-9
_WAITS = "pending"
_NEVER_RAN = frozenset({"denied", "unknown_tool", "invalid_arguments", _WAITS})


class CountedCall(NamedTuple):
    """A call whose verdict depends on earlier calls; *judgement* ignores limits.

    *default* is the policy's default, *protected_access* the access of each part to protected
    files. *named* maps each [[call]] name of this call to whether the name certainly applies.
    *shell* is the key of a shell that keeps its folder, and its folder at the start.
    """

    judgement: CallVerdict
    default: Default
    protected_access: tuple[FileAccess, ...]
    named: Mapping[str, bool]
    digest: str
    key: str
    run_id: str
    session_id: str
    shell: tuple[str, str | None] | None

    @classmethod
    def of(cls, judge: CallJudge, judgement: CallVerdict, scope: Scope) -> CountedCall:
        """Return the call of *judgement*; may access the file system."""
        facts = judgement.facts
        return cls(
            judgement,
            judge.rules.default,
            judge.protected_access(facts),
            _call_names(facts, judge.rules),
            _digest(facts.call.name, facts.call.arguments),
            call_key(scope, facts.call.id),
            scope.run_id,
            scope.session_id,
            (shell_key(scope, facts.call.name), facts.folder)
            if judge.rules.facts_of(facts.call.name).keeps_folder
            else None,
        )

    def limited_calls(self, now: float) -> list[tuple[PolicyRule, LimitedCall]]:
        """Return the rules with limits that matched a part, with the number of such parts."""
        when = CallTime(now, self.run_id, self.session_id, self.key)
        arguments = self.judgement.facts.call.arguments
        matched = [finding.rule for part in self.judgement.parts for finding in part.matched]
        times = Counter([rule.number for rule in matched if rule is not None and rule.limits])
        rules = {rule.number: rule for rule in matched if rule is not None}
        return [
            (rules[number], LimitedCall(rules[number].name, when, self.digest, arguments, count))
            for number, count in times.items()
        ]

    def verdict(self, record: SessionRecord, now: float) -> CallVerdict:
        """Return the verdict given the calls in *record*."""
        if self.judgement.failed is not None:
            return self.judgement
        broken: dict[int, str] = {}
        for rule, use in self.limited_calls(now):
            try:
                broken[rule.number] = _broken_limit(rule, use, record)
            except ConditionError as error:
                failed = RuleFinding(rule, "failed", error.reason, error.key)
                return self.judgement._replace(verdict="deny", parts=(), failed=failed)
        return with_limits(self.judgement, broken, self.default, self.protected_access)


def decide(calls: Sequence[CountedCall], record: SessionRecord, now: float) -> list[CallVerdict]:
    """Return the verdicts of all versions of a policy on one call; *calls* has it per version.

    Unless a version denies it, *record* then counts the call exactly once on each meter, also if
    the call waited for a person and was counted before.
    """
    record.take_back(calls[0].key)
    verdicts = [call.verdict(record, now) for call in calls]
    if not any(verdict.verdict == "deny" for verdict in verdicts):
        _begin(calls, record, now)
    return verdicts


def _begin(calls: Sequence[CountedCall], record: SessionRecord, now: float) -> None:
    """Count the call in *record*, once on each meter."""
    limits = _meters(calls, now)
    for limit, use in limits.values():
        limit.add(use, record)
    ending = {
        meter: [limit.measure, limit.seconds, limit.by_run]
        for meter, (limit, _) in limits.items()
        if isinstance(limit, Quota) and limit.counts_at_end
    }
    named = _surely_by_all([each for call in calls for each in call.named.items()])
    shell = next((call.shell for call in calls if call.shell is not None), None)
    record.begin(CallTime(now, calls[0].run_id, "", calls[0].key), ending, named, shell)


def _meters(
    calls: Sequence[CountedCall], now: float
) -> dict[str, tuple[Quota | Repeats, LimitedCall]]:
    """Return the limits that count *calls*, by meter; the versions of a rule share a meter."""
    meters: dict[str, tuple[Quota | Repeats, LimitedCall]] = {}
    for call in calls:
        for rule, use in call.limited_calls(now):
            for limit in rule.limits:
                if isinstance(limit, Quota | Repeats):
                    meters.setdefault(limit.meter(rule.name), (limit, use))
    return meters


def with_limits(
    judgement: CallVerdict,
    broken: Mapping[int, str],
    default: Default,
    protected_access: Sequence[FileAccess],
) -> CallVerdict:
    """Return the verdict given the *broken* limits: reasons by rule number.

    An allow rule with limits matches if no limit is broken, any other rule if one is. Protection
    still applies, by the *protected_access* of each part.
    """
    parts = []
    for part, access in zip(judgement.parts, protected_access, strict=True):
        findings = [_with_limits(finding, broken) for finding in part.matched]
        matched = tuple([finding for finding in findings if finding is not None])
        parts.append(tightened(decided_part(part.part, matched, default), access))
    return judgement._replace(verdict=strictest(parts), parts=tuple(parts))


def judge_first(judge: CallJudge, facts: CallReading) -> CallVerdict:
    """Return the verdict on the first call of a session."""
    call = CountedCall.of(judge, judge.judge(facts), facts.scope)
    return call.verdict(SessionRecord(None), 0.0)


def end_call(
    versions: Sequence[PolicyRules],
    record: SessionRecord,
    key: str,
    message: ToolMessage,
    now: float,
    *,
    folder: str | None = None,
) -> None:
    """Record the end of a call that ended with *message*; its shell is now in *folder*."""
    call = record.running(key)
    if call is None:
        return
    response = message.tool_response
    if response is not None and response.error_type == _WAITS:
        record.take_back(key)
        return
    when = CallTime(now, call["run"], "", key)
    for meter, (measure, seconds, by_run) in call["meters"].items():
        record.add(meter, _amount(measure, message), when, seconds, by_run=by_run)
    record.end(key, _endings(versions, message) if ran(message) else {})
    if "shell" in call:
        shell, start = call["shell"]
        record.move(shell, folder if ran(message) else start)


def _endings(versions: Sequence[PolicyRules], message: ToolMessage) -> dict[str, bool]:
    """Return the [[call]] names that ended as required, each with whether that is certain."""
    ends = [(each.name, each.ended(message)) for rules in versions for each in rules.calls]
    return _surely_by_all([(name, ended is True) for name, ended in ends if ended is not False])


def _surely_by_all(names: Sequence[tuple[str, bool]]) -> dict[str, bool]:
    """Return each of *names* with whether it is certain in all versions of the rules."""
    sure: dict[str, bool] = {}
    for name, is_sure in names:
        sure[name] = sure.get(name, True) and is_sure
    return sure


def shell_key(scope: Scope, tool_name: str) -> str:
    """Return the key of a session's shell in its record."""
    return f"{scope.session_id}/{tool_name}"


def call_key(scope: Scope, call_id: str) -> str:
    """Return the key of a session's call in its record."""
    return f"{scope.session_id}/{call_id}"


def _call_names(facts: CallReading, rules: PolicyRules) -> dict[str, bool]:
    named: dict[str, bool] = {}
    for each in rules.calls:
        statuses = [evaluate(each.rule, facts, part).status for part in facts.parts]
        if any(status != "not run" for status in statuses):
            named[each.name] = statuses[-1] == "denied" and is_alone(facts)
    return named


def _with_limits(finding: RuleFinding, broken: Mapping[int, str]) -> RuleFinding | None:
    """Return *finding* with limits applied; None if its rule then does not match."""
    rule = finding.rule
    if rule is None or not rule.limits:
        return finding
    reason = broken.get(rule.number, "")
    if rule.allows:
        return None if reason else finding
    return finding._replace(why=reason) if reason else None


def _broken_limit(rule: PolicyRule, use: LimitedCall, record: SessionRecord) -> str:
    """Return the reason of the first broken limit of *rule*, or ""."""
    reasons = (limit.broken_by(use, record) for limit in rule.limits)
    return next(filter(None, reasons), "")


def _amount(measure: str, message: ToolMessage) -> float:
    if measure == "bytes":
        return len(message.text.encode())
    response = message.tool_response
    if response is None or response.duration_ns is None or not ran(message):
        return 0
    return response.duration_ns * _NANOSECOND


def ran(message: ToolMessage) -> bool:
    """Return whether the tool ran; a call without a response may have run."""
    response = message.tool_response
    return response is None or response.error_type not in _NEVER_RAN


def _digest(name: str, arguments: Any) -> str:
    body = msgspec.json.encode([name, thaw(arguments)], order="deterministic")
    return blake2b(body, digest_size=12).hexdigest()

"""The proof of suggested rules: every recorded call, judged by the policy without and with them."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import TYPE_CHECKING

from msgspec import Struct, field

from toolbus.policy.history.counted_calls import judge_first
from toolbus.policy.tools.diagnostics import Diagnostic, pair_problems
from toolbus.replay.replayer import hidden_in
from toolbus.suggest.call_readings import CallReadings
from toolbus.suggest.evidence import AskedCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from toolbus.policy.rules.policy_file import PolicyFile
    from toolbus.policy.rules.records import CallVerdict
    from toolbus.suggest.recordings import Recordings

ENOUGH_CALLS = 1_000
"""The least judged calls after which a silent rule is worth a word."""


class ProofFigures(Struct, kw_only=True):
    """The recorded *calls* of some sessions, and the questions *before* and *after* a change."""

    calls: int = 0
    before: int = 0
    after: int = 0


class Proof(Struct, kw_only=True):
    """The effects of further rules on *older* sessions, with the evidence, and *newer* sessions.

    *denied* counts denied calls with a person's yes, *allowed* the allowed calls with a no, by the
    rules *blamed*. *shares* has the questions that each rule helps to answer. Calls with *hidden*
    values count as they were.
    """

    total: ProofFigures = field(default_factory=ProofFigures)
    older: ProofFigures = field(default_factory=ProofFigures)
    newer: ProofFigures = field(default_factory=ProofFigures)
    denied: int = 0
    allowed: int = 0
    hidden: int = 0
    blamed: set[str] = set()
    shares: Counter[str] = field(default_factory=Counter)


class JudgedCalls:
    """The calls of *recordings*, judged by *policy* once; `prove` judges again with further rules.

    Rules on the origin of words judge as with nothing in view. *show* gets the number of calls as
    text, and the finished part, from 0 to 1.
    """

    def __init__(
        self, policy: PolicyFile, recordings: Recordings, show: Callable[[str, float], object]
    ) -> None:
        self._policy, self._newer, self.today = policy, recordings.newer, Proof()
        """The figures without further rules."""
        self._open, self._spoken = list[tuple[AskedCall, str]](), Counter[int]()
        readings, steps = CallReadings(policy), recordings.steps
        for step, calls in enumerate(recordings.read(), 1):
            for call in calls:
                is_question = self._judge(call, readings)
                for part in self._parts(self.today, call):
                    part.calls += 1
                    part.before += is_question
                    part.after += is_question
            show(f"calls judged: {self.today.total.calls:,}", min(1.0, step / steps))

    def prove(self, after: PolicyFile) -> Proof:
        """Return the effects of *after*, which is the policy with further allow rules."""
        proof, readings = deepcopy(self.today), CallReadings(after)
        for call, before in self._open:
            verdict = _verdict(call, readings)
            was, now = before == "ask", verdict.verdict
            for part in self._parts(proof, call):
                part.after -= was and now != "ask"
            proof.denied += call.answer == "yes" and now == "deny" and before != "deny"
            if now == "allow" and before != "allow":
                rules = self._new_rules(verdict)
                proof.shares.update(rules if was else ())
                proof.allowed += call.answer == "no"
                proof.blamed |= rules if call.answer == "no" else set()
        return proof

    def find_removals(self) -> Iterator[Diagnostic]:
        """Yield the rules that add nothing to others, and of many calls those without any."""
        rules, calls = self._policy.read().rules, self.today.total.calls
        yield from pair_problems(self._policy, rules)
        for rule in rules if calls >= ENOUGH_CALLS else ():
            # The verdicts here know neither earlier calls nor the origin of words, and a rule that
            # skips a host's prompts does more than its verdict.
            is_known = not (rule.limits or rule.needs_origins or rule.skips_prompt)
            if is_known and not self._spoken[rule.number]:
                text = f"rule {rule.name!r} matched none of {calls:,} calls"
                text += "" if rule.allows else "; as a guard it may be why no such call came"
                yield Diagnostic(self._policy.line("rule", rule.number), "warning", text)

    def _judge(self, call: AskedCall, readings: CallReadings) -> bool:
        """Return whether *call* is a question, and keep it if further rules can change that."""
        # A refusal counts even if the rules see placeholders.
        if hidden_in(call.call) and call.answer != "no":
            self.today.hidden += 1
            return bool(call.asked_ns)
        verdict = _verdict(call, readings)
        self._spoken.update([each.rule.number for each in verdict.matched if each.rule])
        if verdict.verdict == "ask" or call.answer in {"yes", "no"}:
            self._open.append((call, verdict.verdict))
        return verdict.verdict == "ask"

    def _parts(self, proof: Proof, call: AskedCall) -> tuple[ProofFigures, ProofFigures]:
        """Return the figures of *proof* that count *call*."""
        return proof.total, proof.newer if call.session_id in self._newer else proof.older

    def _new_rules(self, verdict: CallVerdict) -> set[str]:
        """Return the names of the further rules that decide about parts of a call."""
        first = len(self._policy.table.get("rule", ()))
        rules = [part.decided.rule for part in verdict.parts]
        return {rule.name for rule in rules if rule and rule.number >= first}


def _verdict(call: AskedCall, readings: CallReadings) -> CallVerdict:
    read = readings.read(call)
    return judge_first(read.judge, read.reading)

"""The proof of suggested rules: every recorded call, judged by the policy without and with them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct, field

from toolbus.policy.call_reader import CallReader, LineCache
from toolbus.policy.projects import process_folder
from toolbus.policy.rules.judge import ProjectJudges
from toolbus.policy.shared_facts import StatedFacts
from toolbus.policy.tools.diagnostics import pair_problems
from toolbus.replay.replayer import hidden_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import ToolCall
    from toolbus.policy.rules.policy_file import PolicyFile
    from toolbus.policy.rules.records import CallVerdict
    from toolbus.suggest.recordings import RecordedCall, Recording

ENOUGH_CALLS = 1_000
"""The least judged calls for a proposal to remove a silent allow rule."""


class ProofFigures(Struct, kw_only=True):
    """The recorded *calls* of some sessions, and the questions *before* and *after* a change."""

    calls: int = 0
    before: int = 0
    after: int = 0


class Proof(Struct, kw_only=True):
    """The effects of suggested rules on *older* sessions, with the evidence, and *newer* sessions.

    *denied* counts denied calls with a person's yes, *allowed* the allowed calls with a no, by the
    rules *blamed*. *shares* has the questions that each rule helps to answer, *spoken* the calls
    matched by each rule of the present policy, by its number. Calls with *hidden* values count as
    they were.
    """

    total: ProofFigures = field(default_factory=ProofFigures)
    older: ProofFigures = field(default_factory=ProofFigures)
    newer: ProofFigures = field(default_factory=ProofFigures)
    denied: int = 0
    allowed: int = 0
    hidden: int = 0
    blamed: set[str] = set()
    shares: Counter[str] = field(default_factory=Counter)
    spoken: Counter[int] = field(default_factory=Counter)


class Removal(Struct, frozen=True, kw_only=True):
    """A useless rule: its *number* in the file, its name, and the *reason*.

    A silent rule is only *listed* if it denies or asks: it may be the reason why no call came.
    """

    number: int
    name: str
    reason: str
    listed: bool = False


def prove(
    before: PolicyFile,
    after: PolicyFile,
    recordings: Sequence[Recording],
    show: Callable[[str, float], object],
) -> Proof:
    """Return the effects of *after*, which is *before* with further allow rules.

    *show* gets the number of calls as text, and the finished part, from 0 to 1.
    """
    prover = _Prover(before, after)
    done, total = 0, max(1, sum([each.messages for each in recordings]))
    for recording in recordings:
        for call in recording.calls():
            prover.take(call, recording)
            show(
                f"calls judged: {prover.proof.total.calls:,}", min(1.0, (done + call.place) / total)
            )
        done += recording.messages
    return prover.proof


class _Prover:
    """Judges calls by the policy *before* and *after* a change, and adds up the *proof*.

    Rules on the origin of words judge as with nothing in view: so most calls are allowed.
    """

    def __init__(self, before: PolicyFile, after: PolicyFile) -> None:
        self._before, self._after = ProjectJudges(before.read), ProjectJudges(after.read)
        self._memory = LineCache()
        self._first_new = len(before.table.get("rule", ()))
        self.proof = Proof()

    def take(self, recorded: RecordedCall, recording: Recording) -> None:
        """Judge a call of *recording*."""
        asked = recording.asked.get((recorded.session, recorded.call.id))
        is_newer = recorded.session in recording.newer
        if hidden_in(recorded.call):
            self.proof.hidden += 1
            self._count(asked is not None, asked is not None, is_newer=is_newer)
            return
        before, after = self._verdicts(recorded.call, recorded.scope, is_asked=asked is not None)
        self._count(before.verdict == "ask", after.verdict == "ask", is_newer=is_newer)
        self.proof.spoken.update([each.rule.number for each in before.matched if each.rule])
        if before.verdict == "ask" and after.verdict == "allow":
            self.proof.shares.update(self._deciding(after))
        if asked is not None and before.verdict != after.verdict:
            self.proof.denied += asked.answer == "yes" and after.verdict == "deny"
            if asked.answer == "no" and after.verdict == "allow":
                self.proof.allowed += 1
                self.proof.blamed |= self._deciding(after)

    def _count(self, was: bool, will: bool, *, is_newer: bool) -> None:  # noqa: FBT001 - a pair
        for each in (self.proof.total, self.proof.newer if is_newer else self.proof.older):
            each.calls += 1
            each.before += was
            each.after += will

    def _verdicts(
        self, call: ToolCall, scope: Scope, *, is_asked: bool
    ) -> tuple[CallVerdict, CallVerdict]:
        """Return the verdicts on one reading of *call*, without and with the new rules."""
        judge = self._before.of(scope)
        origins = StatedFacts() if judge.needs_origins else None
        folder = scope.folder or (process_folder() if judge.rules.works_here else None)
        reader = CallReader(judge.rules, self._memory)
        reading = reader.facts(call, None, scope, folder, origins=origins)
        before = judge.judge(reading)
        # New rules only allow: without a question or an answer the verdict stays.
        if before.verdict != "ask" and not is_asked:
            return before, before
        return before, self._after.of(scope).judge(reading)

    def _deciding(self, verdict: CallVerdict) -> set[str]:
        """Return the names of the new rules that decide about parts of an allowed call."""
        rules = [part.decided.rule for part in verdict.parts]
        return {rule.name for rule in rules if rule and rule.number >= self._first_new}


def find_removals(file: PolicyFile, proof: Proof) -> Iterator[Removal]:
    """Yield the rules of *file* without effect beside other rules, and rules without a call.

    Rules on the origin of words are not silent: the proof cannot tell.
    """
    rules, calls = file.read().rules, proof.total.calls
    problems = {rule.number: problem.text for rule, problem in pair_problems(file, rules)}
    # A rule that skips a host's prompts does more than its verdict.
    for rule in [each for each in rules if not each.skips_prompt]:
        reason = problems.get(rule.number, "").removeprefix(f"rule {rule.name!r} ")
        if reason or not (proof.spoken[rule.number] or rule.needs_origins):
            yield Removal(
                number=rule.number,
                name=rule.name,
                reason=reason or f"matched no recorded call, of {calls:,}",
                listed=not (reason or (rule.allows and calls >= ENOUGH_CALLS)),
            )

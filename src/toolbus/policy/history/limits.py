"""Limits of a rule: how many calls, how much, after which named call, how often the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from toolbus.policy.rules.values import ConditionError, WrongTypeError, check_type, holds, values_at

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from toolbus.messages.records import ToolMessage
    from toolbus.policy.facts import CallFacts
    from toolbus.policy.history.session_record import CallTime, SessionRecord
    from toolbus.policy.rules.records import PolicyRule
    from toolbus.policy.rules.tables import Ending
    from toolbus.policy.rules.values import ValueTest

Measure: TypeAlias = Literal["calls", "bytes", "tool_seconds", "total"]
_UNITS = {"calls": "calls", "bytes": "bytes of results", "tool_seconds": "seconds of tools"}
_LONGEST_CYCLE = 4
"""How many different calls in turn are a loop."""


class LimitedCall(NamedTuple):
    """A call that the rule called *rule* speaks of, *times* over: once for each part that fits."""

    rule: str
    when: CallTime
    digest: str
    arguments: Mapping[str, Any]
    times: int


class Quota(NamedTuple):
    """At most *maximum* of something, in the last *seconds* or in all of the session, or run."""

    measure: Measure
    maximum: float
    seconds: float | None = None
    by_run: bool = False
    path: tuple[str, ...] = ()
    """The place of the argument that is added up, if the measure is "total"."""

    @property
    def counts_at_end(self) -> bool:
        """Whether nobody knows what a call adds before it has ended."""
        return self.measure in {"bytes", "tool_seconds"}

    def broken_by(self, call: LimitedCall, record: SessionRecord) -> str:
        """Return why *call* would be beyond it, "" if it is not; raises `ConditionError`."""
        used = record.used(self.meter(call.rule), call.when, self.seconds, by_run=self.by_run)
        amount = self._amount(call)
        is_over = bool(amount) and used + amount > self.maximum
        if not (used >= self.maximum if self.counts_at_end else is_over):
            return ""
        unit = _UNITS.get(self.measure) or ".".join(self.path)
        span = "" if self.seconds is None else f" in {self.seconds:g} seconds"
        run = " in this run" if self.by_run else ""
        return f"{used + amount:g} of at most {self.maximum:g} {unit}{span}{run}"

    def add(self, call: LimitedCall, record: SessionRecord) -> None:
        """Add a call that begins to what is remembered of the session."""
        amount = self._amount(call)
        record.add(self.meter(call.rule), amount, call.when, self.seconds, by_run=self.by_run)

    def meter(self, rule: str) -> str:
        """Return what it is counted by, which is its rule's, and lives as long as it looks back."""
        span = "session" if self.seconds is None else f"{self.seconds:g} s"
        return f"{rule}: {'.'.join((self.measure, *self.path))}, {span}{', run' * self.by_run}"

    def _amount(self, call: LimitedCall) -> float:
        if self.measure == "calls":
            return call.times
        if self.measure != "total":
            return 0
        amount = 0.0
        for value in values_at(call.arguments, self.path):
            try:
                check_type(value, "number")
            except WrongTypeError as error:
                raise ConditionError("at_most", f"{'.'.join(self.path)}: {error}") from None
            # A negative one gives nothing back: it would be a way round the limit.
            amount += max(value, 0)
        return amount


class OnlyAfter(NamedTuple):
    """Each of the calls called *names* must have happened before."""

    names: tuple[str, ...]

    def broken_by(self, _: LimitedCall, record: SessionRecord) -> str:
        """Return which of them did not happen."""
        missing = [name for name in self.names if not record.has_happened(name)]
        return f"{missing[0]!r} has not happened yet" if missing else ""


class NeverAfter(NamedTuple):
    """None of the calls called *names* may have happened before, or be running."""

    names: tuple[str, ...]

    def broken_by(self, _: LimitedCall, record: SessionRecord) -> str:
        """Return which of them happened, or may have."""
        happened = [name for name in self.names if record.may_have_happened(name)]
        if not happened:
            return ""
        sure = "has" if record.has_happened(happened[0]) else "may have"
        return f"{happened[0]!r} {sure} happened"


class Repeats(NamedTuple):
    """The same call, or up to four in turn, *times* over: a loop."""

    times: int

    def broken_by(self, call: LimitedCall, record: SessionRecord) -> str:
        """Return which loop *call* would close."""
        calls = [*record.recent(call.rule, call.when.session_id), call.digest]
        for length in range(1, _LONGEST_CYCLE + 1):
            tail = calls[-length * self.times :]
            if len(tail) == length * self.times and tail == tail[-length:] * self.times:
                what = "the same call" if length == 1 else f"the same {length} calls in turn"
                return f"{what}, {self.times} times"
        return ""

    def meter(self, rule: str) -> str:
        """Return what it is counted by: the calls that its rule spoke of."""
        return f"{rule}: calls"

    def add(self, call: LimitedCall, record: SessionRecord) -> None:
        """Add a call that begins to what is remembered of the session."""
        record.remember(call.rule, call.when.session_id, call.digest)


Limit: TypeAlias = Quota | OnlyAfter | NeverAfter | Repeats
LIMIT_NAMES: dict[type[Limit], str] = {
    Quota: "at_most",
    OnlyAfter: "only_after",
    NeverAfter: "never_after",
    Repeats: "repeats",
}
"""The name of each kind in the file."""


class Outcome(NamedTuple):
    """How a call must have ended: with *status* ("" for any), and a text that fits *tests*."""

    status: str
    tests: tuple[ValueTest, ...] = ()


class NamedCall(NamedTuple):
    """A call that fits *rule*, which denies nothing: only its conditions count.

    Without an *outcome* it happened surely if it succeeded, and perhaps if it ended otherwise.
    """

    rule: PolicyRule
    outcome: Outcome | None = None

    @property
    def name(self) -> str:
        """Its name in rules."""
        return self.rule.name

    def ended(self, message: ToolMessage) -> bool | None:
        """Return whether it has happened, now that *message* tells the end; None if perhaps."""
        status = ending_of(message)
        if self.outcome is None:
            return True if status == "success" else None
        if self.outcome.status not in {"", status}:
            return False
        return holds(self.outcome.tests, message.text)


def ending_of(message: ToolMessage) -> Ending:
    """Return how a call ended: an exit status other than 0 is an error, too."""
    response = message.tool_response
    if response is None:
        return "error"
    exit_status = response.metadata.get("exit_status", 0)
    return "error" if response.is_error or exit_status != 0 else "success"


def is_alone(facts: CallFacts) -> bool:
    """Return whether the final part is all that a line runs, but for `cd … &&` before it.

    Then it surely runs, and how it ends is how the call ends.
    """
    *before, final = facts.parts
    if final.is_tool:
        return True
    line = facts.line.strip()
    for part in before:
        if part.action[:1] != ("cd",) or not line.startswith(part.source):
            return False
        line = line.removeprefix(part.source).lstrip()
        if not line.startswith("&&"):
            return False
        line = line.removeprefix("&&").lstrip()
    # A line that turns the status round, or does not wait for it, tells nothing of the end.
    return (
        line == final.source.strip() and not line.startswith(("!", "coproc")) and line[-1:] != "&"
    )

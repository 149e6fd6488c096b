"""Limits of a rule: quotas, required and forbidden earlier calls, and repeated calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from toolbus.policy.rules.values import (
    ConditionError,
    WrongTypeError,
    check_type,
    passes,
    values_at,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from toolbus.messages.records import ToolMessage
    from toolbus.policy.facts import CallReading
    from toolbus.policy.history.session_record import CallTime, SessionRecord
    from toolbus.policy.rules.records import PolicyRule
    from toolbus.policy.rules.tables import Ending
    from toolbus.policy.rules.values import ValueTest

Measure: TypeAlias = Literal["calls", "bytes", "tool_seconds", "total"]
_UNITS = {"calls": "calls", "bytes": "bytes of results", "tool_seconds": "seconds of tools"}
_LONGEST_CYCLE = 4
"""The longest sequence of different calls that counts as a loop when repeated."""


class LimitedCall(NamedTuple):
    """A call matched by the rule named *rule*, *times* times: once per matching part."""

    rule: str
    when: CallTime
    digest: str
    arguments: Mapping[str, Any]
    times: int


class Quota(NamedTuple):
    """At most *maximum* of a measure, in the last *seconds* or in the whole session or run."""

    measure: Measure
    maximum: float
    seconds: float | None = None
    by_run: bool = False
    path: tuple[str, ...] = ()
    """The path of the summed argument, if the measure is "total"."""

    @property
    def counts_at_end(self) -> bool:
        """Whether the amount of a call is known only after its end."""
        return self.measure in {"bytes", "tool_seconds"}

    def broken_by(self, call: LimitedCall, record: SessionRecord) -> str:
        """Return why *call* would exceed the quota, or ""; raises `ConditionError`."""
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
        """Add the amount of a new call to the session's record."""
        amount = self._amount(call)
        record.add(self.meter(call.rule), amount, call.when, self.seconds, by_run=self.by_run)

    def meter(self, rule: str) -> str:
        """Return the name of its meter: one per rule, measure and time span."""
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
            # A negative value subtracts nothing: it would be a way around the limit.
            amount += max(value, 0)
        return amount


class OnlyAfter(NamedTuple):
    """Each call of *names* must have happened before."""

    names: tuple[str, ...]

    def broken_by(self, _: LimitedCall, record: SessionRecord) -> str:
        """Return a missing call as the reason, or ""."""
        missing = [name for name in self.names if not record.has_happened(name)]
        return f"{missing[0]!r} has not happened yet" if missing else ""


class NeverAfter(NamedTuple):
    """No call of *names* may have happened before, or be running."""

    names: tuple[str, ...]

    def broken_by(self, _: LimitedCall, record: SessionRecord) -> str:
        """Return a call that happened, or may have, as the reason, or ""."""
        happened = [name for name in self.names if record.may_have_happened(name)]
        if not happened:
            return ""
        sure = "has" if record.has_happened(happened[0]) else "may have"
        return f"{happened[0]!r} {sure} happened"


class Repeats(NamedTuple):
    """A loop: the same sequence of one to four calls, *times* times."""

    times: int

    def broken_by(self, call: LimitedCall, record: SessionRecord) -> str:
        """Return the loop that *call* would close, or ""."""
        calls = [*record.recent(call.rule, call.when.session_id), call.digest]
        for length in range(1, _LONGEST_CYCLE + 1):
            tail = calls[-length * self.times :]
            if len(tail) == length * self.times and tail == tail[-length:] * self.times:
                what = "the same call" if length == 1 else f"the same {length} calls in turn"
                return f"{what}, {self.times} times"
        return ""

    def meter(self, rule: str) -> str:
        """Return the name of its meter: one per rule."""
        return f"{rule}: calls"

    def add(self, call: LimitedCall, record: SessionRecord) -> None:
        """Add a new call to the session's record."""
        record.remember(call.rule, call.when.session_id, call.digest)


Limit: TypeAlias = Quota | OnlyAfter | NeverAfter | Repeats
LIMIT_NAMES: dict[type[Limit], str] = {
    Quota: "at_most",
    OnlyAfter: "only_after",
    NeverAfter: "never_after",
    Repeats: "repeats",
}
"""The key of each kind in the file."""


class Outcome(NamedTuple):
    """The required end of a call: a *status* ("" for any), and *tests* of the result's text."""

    status: str
    tests: tuple[ValueTest, ...] = ()


class NamedCall(NamedTuple):
    """A call described by the conditions of *rule*, whose verdict is unused.

    Without an *outcome* the call certainly happened if it succeeded, and perhaps if it failed.
    """

    rule: PolicyRule
    outcome: Outcome | None = None

    @property
    def name(self) -> str:
        """Its name in rules."""
        return self.rule.name

    def ended(self, message: ToolMessage) -> bool | None:
        """Return whether the call that ended with *message* has happened; None if perhaps."""
        status = ending_of(message)
        if self.outcome is None:
            return True if status == "success" else None
        if self.outcome.status not in {"", status}:
            return False
        return passes(self.outcome.tests, message.text)


def ending_of(message: ToolMessage) -> Ending:
    """Return the ending of a call; an exit status other than 0 is an error."""
    response = message.tool_response
    if response is None:
        return "error"
    exit_status = response.metadata.get("exit_status", 0)
    return "error" if response.is_error or exit_status != 0 else "success"


def is_alone(facts: CallReading) -> bool:
    """Return whether a line only runs its final part, apart from `cd … &&` before it.

    Then that part certainly runs, and the call ends as the part does.
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
    # A negated or background command hides how the part ended.
    return (
        line == final.source.strip() and not line.startswith(("!", "coproc")) and line[-1:] != "&"
    )

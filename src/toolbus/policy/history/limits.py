"""What a rule says of the calls before: how many, how much, after what, how often the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from toolbus.policy.rules.records import ConditionError
from toolbus.policy.rules.values import WrongTypeError, check_type, values_at

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from toolbus.policy.history.session_record import CallTime, SessionRecord

Measure: TypeAlias = Literal["calls", "bytes", "tool_seconds", "total"]
_LONGEST_CYCLE = 4
"""How many different calls in turn are a loop."""


class LimitedCall(NamedTuple):
    """A call that a rule speaks of, *times* over: once for each part that fits."""

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
    """Where the argument is that is added up, if the measure is "total"."""

    @property
    def key(self) -> str:
        """Its name in the file."""
        return "at_most"

    @property
    def counts_at_end(self) -> bool:
        """Whether nobody knows what a call adds before it has ended."""
        return self.measure in {"bytes", "tool_seconds"}

    def broken_by(self, call: LimitedCall, rule: str, record: SessionRecord) -> str:
        """Return why *call* would be beyond it, "" if it is not; raises `ConditionError`."""
        used = record.used(self.meter(rule), call.when, self.seconds, by_run=self.by_run)
        amount = self._amount(call)
        if (
            (used >= self.maximum)
            if self.counts_at_end
            else (amount and used + amount > self.maximum)
        ):
            return f"{used + amount:g} of at most {self.maximum:g} {self._unit}{self._span}"
        return ""

    def add(self, call: LimitedCall, rule: str, record: SessionRecord) -> None:
        """Add a call that begins to what is remembered of the session."""
        amount = self._amount(call)
        record.add(self.meter(rule), amount, call.when, self.seconds, by_run=self.by_run)

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
                raise ConditionError(self.key, f"{'.'.join(self.path)}: {error}") from None
            # A negative one gives nothing back: it would be a way round the limit.
            amount += max(value, 0)
        return amount

    @property
    def _unit(self) -> str:
        return {
            "calls": "calls",
            "bytes": "bytes of results",
            "tool_seconds": "seconds of tools",
            "total": ".".join(self.path),
        }[self.measure]

    @property
    def _span(self) -> str:
        where = " in this run" if self.by_run else ""
        return where if self.seconds is None else f" in {self.seconds:g} seconds{where}"


class OnlyAfter(NamedTuple):
    """Each of the calls called *names* must have happened before."""

    names: tuple[str, ...]

    @property
    def key(self) -> str:
        """Its name in the file."""
        return "only_after"

    def broken_by(self, call: LimitedCall, rule: str, record: SessionRecord) -> str:  # noqa: ARG002
        """Return which of them did not happen."""
        missing = [name for name in self.names if not record.has_happened(name)]
        return f"{missing[0]!r} has not happened yet" if missing else ""

    def meter(self, rule: str) -> str:  # noqa: ARG002 - others are counted by rules
        """Return what all of its kind are counted by."""
        return self.key

    def add(self, call: LimitedCall, rule: str, record: SessionRecord) -> None:
        """Add nothing: calls with names are noted by `SessionRecord.begin`."""


class NeverAfter(NamedTuple):
    """None of the calls called *names* may have happened before, or be running."""

    names: tuple[str, ...]

    @property
    def key(self) -> str:
        """Its name in the file."""
        return "never_after"

    def broken_by(self, call: LimitedCall, rule: str, record: SessionRecord) -> str:  # noqa: ARG002
        """Return which of them happened, or may have."""
        happened = [name for name in self.names if record.may_have_happened(name)]
        if not happened:
            return ""
        sure = "has" if record.has_happened(happened[0]) else "may have"
        return f"{happened[0]!r} {sure} happened"

    def meter(self, rule: str) -> str:  # noqa: ARG002 - others are counted by rules
        """Return what all of its kind are counted by."""
        return self.key

    def add(self, call: LimitedCall, rule: str, record: SessionRecord) -> None:
        """Add nothing, as `OnlyAfter`."""


class Repeats(NamedTuple):
    """The same call, or up to four in turn, *times* over: a loop."""

    times: int

    @property
    def key(self) -> str:
        """Its name in the file."""
        return "repeats"

    def broken_by(self, call: LimitedCall, rule: str, record: SessionRecord) -> str:
        """Return which loop *call* would close."""
        calls = [*record.recent(rule, call.when.session_id), call.digest]
        for length in range(1, _LONGEST_CYCLE + 1):
            tail = calls[-length * self.times :]
            if len(tail) == length * self.times and tail == tail[-length:] * self.times:
                what = "the same call" if length == 1 else f"the same {length} calls in turn"
                return f"{what}, {self.times} times"
        return ""

    def meter(self, rule: str) -> str:
        """Return what it is counted by: the calls that its rule spoke of."""
        return f"{rule}: calls"

    def add(self, call: LimitedCall, rule: str, record: SessionRecord) -> None:
        """Add a call that begins to what is remembered of the session."""
        record.remember(rule, call.when.session_id, call.digest)

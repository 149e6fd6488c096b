"""The conditions of rules on a call as a whole: its tool, its arguments, its speaker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from toolbus.events.subjects import matches
from toolbus.policy.rules.records import CallCondition, Holds
from toolbus.policy.rules.values import (
    ConditionError,
    ValueTest,
    WrongTypeError,
    holds,
    places_at,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolbus.policy.facts import CallFacts

_YES = Holds("yes")


class NamedTools(CallCondition, frozen=True):
    """The tool's name matches one of *patterns*."""

    is_fixed: ClassVar[bool] = True

    patterns: tuple[str, ...]

    @property
    def key(self) -> str:
        """Its name in the file."""
        return "tools"

    def holds_for(self, facts: CallFacts) -> Holds:
        """Return whether it holds."""
        if matches(self.patterns, facts.call.name):
            return _YES
        return Holds("no", f"{facts.call.name!r} is not {' or '.join(self.patterns)}")

    def covers(self, other: NamedTools) -> bool:
        """Return whether each pattern of *other* is one of its own, or matches one."""
        return include(self.patterns, other.patterns)


class SpeakerNames(CallCondition, frozen=True):
    """An id matches one of *patterns*: the agent's (*id_of* "agent"), or one above (lineage)."""

    is_fixed: ClassVar[bool] = True

    id_of: str
    patterns: tuple[str, ...]

    @property
    def key(self) -> str:
        """Its name in the file."""
        return self.id_of

    def holds_for(self, facts: CallFacts) -> Holds:
        """Return whether it holds."""
        scope = facts.scope
        names = (scope.agent_id,) if self.key == "agent" else scope.lineage
        if any(matches(self.patterns, name) for name in names):
            return _YES
        return Holds("no", f"{', '.join(map(repr, names)) or 'nobody'} is none of them")

    def covers(self, other: SpeakerNames) -> bool:
        """Return whether each pattern of *other* is one of its own, or matches one."""
        return self.id_of == other.id_of and include(self.patterns, other.patterns)


class ValuesAt(CallCondition, frozen=True):
    """Values of the call fit: of its arguments, its tool's annotations or its scope's context.

    The *source* is its key in the file; *tests* are by the path that was written, and its keys.
    """

    source: str
    tests: tuple[tuple[str, tuple[str, ...], tuple[ValueTest, ...]], ...]
    every: bool

    @property
    def key(self) -> str:
        """Its name in the file."""
        return self.source

    def holds_for(self, facts: CallFacts) -> Holds:
        """Return whether it holds; raises `ConditionError`."""
        values = self._values(facts)
        for name, path, tests in self.tests:
            try:
                places = places_at(values, path)
                reached = [value for value in places if value is not None]
                results = [holds(tests, value) for value in reached]
            except WrongTypeError as error:
                raise ConditionError(f"{self.key}.{name}", str(error)) from None
            # An item without the value is not one that fits.
            if not reached or (self.every and len(reached) < len(places)):
                return Holds("no", f"{name} is absent")
            if not (all(results) if self.every else any(results)):
                wanted = " and ".join(map(str, tests))
                return Holds("no", f"{name} is {shown(reached[0])}, not {wanted}")
        return _YES

    def covers(self, other: ValuesAt) -> bool:
        """Return whether *other* has all of its tests."""
        if (self.source, self.every) != (other.source, other.every):
            return False
        # By their texts, for 1 equals True.
        return {*map(repr, self.tests)} <= {*map(repr, other.tests)}

    def _values(self, facts: CallFacts) -> Mapping[str, Any]:
        if self.key == "arguments":
            return facts.call.arguments
        if self.key == "context":
            return facts.scope.context
        return {} if facts.tool is None else facts.tool.annotations


def include(patterns: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether each of *others* is one of the glob *patterns*, or matches one."""
    return all(each in patterns or matches(patterns, each) for each in others)

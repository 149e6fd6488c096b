"""What a rule asks of a call as a whole: its tool, its arguments, who speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.events.subjects import matches
from toolbus.policy.rules.argument_paths import places_at
from toolbus.policy.rules.records import ConditionError, Holds
from toolbus.policy.rules.value_tests import WrongTypeError, holds, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolbus.policy.facts import CallFacts
    from toolbus.policy.rules.value_tests import ValueTest

_YES = Holds("yes")


class NamedTools(NamedTuple):
    """The tool's name matches one of *patterns*."""

    patterns: tuple[str, ...]

    @property
    def key(self) -> str:
        """Its name in the file."""
        return "tools"

    @property
    def is_fixed(self) -> bool:
        """Whether it depends on the tool's name and the speaker's ids alone."""
        return True

    def holds_for(self, facts: CallFacts, *, every: bool) -> Holds:  # noqa: ARG002 - one name
        """Tell whether it holds."""
        if matches(self.patterns, facts.call.name):
            return _YES
        return Holds("no", f"{facts.call.name!r} is not {' or '.join(self.patterns)}")


class SpeakerNames(NamedTuple):
    """An id matches one of *patterns*: the agent's (*key* "agent"), or one above (lineage)."""

    key: str
    patterns: tuple[str, ...]

    @property
    def is_fixed(self) -> bool:
        """Whether it depends on the tool's name and the speaker's ids alone."""
        return True

    def holds_for(self, facts: CallFacts, *, every: bool) -> Holds:  # noqa: ARG002 - any above
        """Tell whether it holds."""
        scope = facts.scope
        names = (scope.agent_id,) if self.key == "agent" else scope.lineage
        if any(matches(self.patterns, name) for name in names):
            return _YES
        return Holds("no", f"{', '.join(map(repr, names)) or 'nobody'} is none of them")


class ValuesAt(NamedTuple):
    """Values of the call fit: of its arguments, its tool's annotations or its scope's context.

    *tests* are by the path that was written, and its keys.
    """

    key: str
    tests: tuple[tuple[str, tuple[str, ...], tuple[ValueTest, ...]], ...]

    @property
    def is_fixed(self) -> bool:
        """Whether it depends on the tool's name and the speaker's ids alone."""
        return False

    def holds_for(self, facts: CallFacts, *, every: bool) -> Holds:
        """Tell whether it holds; raises `ConditionError`."""
        values = self._values(facts)
        for name, path, tests in self.tests:
            try:
                places = places_at(values, path)
                reached = [value for value in places if value is not None]
                results = [holds(tests, value) for value in reached]
            except WrongTypeError as error:
                raise ConditionError(f"{self.key}.{name}", str(error)) from None
            # An item without the value is not one that fits.
            if not reached or (every and len(reached) < len(places)):
                return Holds("no", f"{name} is absent")
            if not (all(results) if every else any(results)):
                wanted = " and ".join(map(str, tests))
                return Holds("no", f"{name} is {shown(reached[0])}, not {wanted}")
        return _YES

    def _values(self, facts: CallFacts) -> Mapping[str, Any]:
        if self.key == "arguments":
            return facts.call.arguments
        if self.key == "context":
            return facts.scope.context
        return {} if facts.tool is None else facts.tool.annotations

"""Calls that rules can name, `[[call]]`, and how they must have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from toolbus.policy.rules.values import holds

if TYPE_CHECKING:
    from toolbus.messages.records import ToolMessage
    from toolbus.policy.facts import CallFacts
    from toolbus.policy.rules.records import PolicyRule
    from toolbus.policy.rules.tables import Ending
    from toolbus.policy.rules.values import ValueTest

Likeness: TypeAlias = Literal["no", "perhaps", "surely"]


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
        """What rules call it."""
        return self.rule.name

    def ended(self, message: ToolMessage) -> bool | None:
        """Tell whether it has happened, now that *message* tells the end; None if perhaps."""
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
    """Tell whether the final part is all that a line runs, but for `cd … &&` before it.

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

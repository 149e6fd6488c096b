"""Calls that rules can name, `[[call]]`, and how they must have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from toolbus.policy.rules.value_tests import WrongTypeError, holds, read_tests
from toolbus.settings.hints import hint, unknown_key
from toolbus.toml.values import MisfitError

if TYPE_CHECKING:
    from toolbus.messages.records import ToolMessage
    from toolbus.policy.facts import CallFacts
    from toolbus.policy.rules.records import PolicyRule
    from toolbus.policy.rules.value_tests import ValueTest

Likeness: TypeAlias = Literal["no", "perhaps", "surely"]
Ending: TypeAlias = Literal["success", "error"]
ENDINGS: tuple[Ending, ...] = ("success", "error")
_KEYS = ("status", "text")


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


def read_outcome(value: Any) -> Outcome:
    """Return what *value* of a file stands for; raises `MisfitError`."""
    table = {"status": value} if isinstance(value, str) else value
    if not isinstance(table, dict) or not table:
        raise MisfitError(f"expected one of {', '.join(ENDINGS)}, or a table, got {value!r}")
    for key in table:
        if key not in _KEYS:
            raise MisfitError(unknown_key(key, _KEYS), key)
    status = table.get("status", "")
    if "status" in table and status not in ENDINGS:
        raise MisfitError(f"unknown outcome {status!r}{hint(str(status), ENDINGS)}", "status")
    tests = read_tests(table["text"]) if "text" in table else ()
    try:
        holds(tests, "")
    except WrongTypeError as error:
        raise MisfitError(f"the text of a result is no such value: {error}", "text") from None
    return Outcome(status, tests)


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

"""The verification of one call of a user's function by the laws for all functions."""

from __future__ import annotations

import os
import random
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from toolbus.messages import schemas
from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import ToolCall, ToolMessage, ToolResponse, changed, encode
from toolbus.testing.laws import breach
from toolbus.testing.stopwatch import Stopwatch, TimeIsUp
from toolbus.testing.value_text import MOST_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from toolbus.events.catalogue import ToolSpec
    from toolbus.testing.laws import LawName

_OWN_FOLDER = os.path.dirname(__file__)  # noqa: PTH120 - compared with the names that code has
_SHARED: dict[str, Callable[[], object]] = {
    "the state of `random`": random.getstate,
    "os.environ": lambda: dict(os.environ),
    "the working directory": os.getcwd,
    "the recursion limit": sys.getrecursionlimit,
    "sys.path": lambda: list(sys.path),
}
_LEAVES_NO_RESULT = ("raises-nothing", "ends", "right-type", "valid-schema", "judges-only")
"""The laws whose breach leaves no result to check."""

Breaches: TypeAlias = "Iterator[tuple[LawName, str]]"
"""The laws that a result breaks, each with a predicate for the function's name."""


class Invocation(NamedTuple):
    """One call of a user's function: its *name*, *run* to call it, and its *inputs* by name."""

    name: str
    run: Callable[[], Any]
    inputs: Mapping[str, Any]


class NoResult(Exception):
    """An excluded law was broken, which leaves no result to check."""


class LawVerifier:
    """The verifier of *subject* by all laws except those of *without*."""

    def __init__(self, subject: str, without: Iterable[str], watch: Stopwatch) -> None:
        self._subject, self._without, self._watch = subject, frozenset(without), watch

    def perform(
        self, invocation: Invocation, judge: Callable[[Any], Breaches] = lambda _: iter(())
    ) -> Any:
        """Run *invocation* twice; return its first result, which *judge* checks for breaches."""
        before = {name: _encoded(value) for name, value in invocation.inputs.items()}
        shared = {name: state() for name, state in _SHARED.items()}
        result = self.once(invocation)
        # First of all: a changed input cannot be used for other checks.
        for name, value in invocation.inputs.items():
            if _encoded(value) != before[name]:
                self.broken("changes-nothing-given", invocation, f"changed its {name}")
        for law, problem in judge(result):
            self.broken(law, invocation, problem, {"returned": result})
        self.compare(invocation, result)
        for name, state in _SHARED.items():
            if state() != shared[name]:
                self.broken("touches-no-globals", invocation, f"changed {name}")
        return result

    def compare(self, invocation: Invocation, result: Any, after: str = "the second time") -> None:
        """Run *invocation* again, and check that it returns *result* again."""
        again = self.once(invocation)
        if differ(result, again):
            results = {"first": result, after: again}
            self.broken("repeatable", invocation, f"returned a different value {after}", results)

    def repeat(self, again: Invocation, result: Any) -> None:
        """Check that *again*, the application to *result*, changes nothing."""
        changed_again = self.once(again)
        if changed_again is not None and differ(result, changed_again):
            results = {"first": result, "then": changed_again}
            self.broken("idempotent", again, "changed its own result", results)

    def once(self, invocation: Invocation) -> Any:
        """Return the result of *invocation*; raises `NoResult` if there is none."""
        law: LawName
        try:
            return self._watch.run(invocation.run)
        except TimeIsUp:
            law, problem = "ends", f"took longer than {self._watch.limit:g} s"
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a law forbids exceptions
            message = f"{type(error).__name__}: {f'{error}'[:MOST_TEXT]}{_place(error)}"
            law, problem = "raises-nothing", f"raised {message}"
        self.broken(law, invocation, problem)
        return None

    def broken(
        self,
        law: LawName,
        invocation: Invocation,
        problem: str,
        results: Mapping[str, object] = EMPTY,
    ) -> None:
        """Raise `LawBroken`; for an excluded law, `NoResult` if there is no result."""
        if law not in self._without:
            case = {**invocation.inputs, **results}
            raise breach(law, self._subject, f"{invocation.name} {problem}", case)
        if law in _LEAVES_NO_RESULT:
            raise NoResult


def differ(before: Any, after: Any) -> bool:
    """Return whether two results differ; each may be None."""
    return type(before) is not type(after) or (before is not None and changed(before, after))


def schema_problem(tool: ToolSpec, value: Any) -> str | None:
    """Return why *value*, a call or an answer of *tool*, is invalid for its schema, else None."""
    match value:
        case ToolCall():
            return schemas.problem(tool.input_schema, value.arguments)
        case ToolMessage(tool_response=ToolResponse() as response):
            return schema_problem(tool, response)
        case ToolResponse(is_error=False) if None not in (tool.output_schema, value.structured):
            return schemas.problem(tool.output_schema or EMPTY, value.structured)
    return None


def _encoded(value: Any) -> bytes | None:
    """Return the encoding of *value*, None if there is none, as for values of users' events."""
    try:
        return encode(value)
    except (TypeError, ValueError, RecursionError):
        return None


def _place(error: BaseException) -> str:
    """Return " at file:line" of the user's code in which *error* was raised."""
    place, name = error.__traceback__, ""
    while place is not None:
        folder, file = os.path.split(place.tb_frame.f_code.co_filename)
        if folder != _OWN_FOLDER:
            name = f" at {file}:{place.tb_lineno}"
        place = place.tb_next
    return name

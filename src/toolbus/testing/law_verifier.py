"""Try one call of a user's function, and judge it by the laws that hold for all of them."""

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
_LEAVES_NO_RESULT = ("raises-nothing", "ends", "right-type", "sound-schema", "judges-only")
"""The laws without which there is nothing to go on with."""

Breaches: TypeAlias = "Iterator[tuple[LawName, str]]"
"""The laws that a result breaks, each with what the function did, without its name."""


class Invocation(NamedTuple):
    """One call of a user's function: its *name*, how to do it, and the records it is given."""

    name: str
    run: Callable[[], Any]
    inputs: Mapping[str, Any]


class NoResult(Exception):
    """A law was broken that was not asked about, and there is no result to go on with."""


class LawVerifier:
    """Judges what *subject* does by all laws but those of *without*."""

    def __init__(self, subject: str, without: Iterable[str], watch: Stopwatch) -> None:
        self._subject, self._without, self._watch = subject, frozenset(without), watch

    def perform(
        self, invocation: Invocation, judge: Callable[[Any], Breaches] = lambda _: iter(())
    ) -> Any:
        """Do *invocation* twice; return its first result, in which *judge* may find breaches."""
        before = {name: _encoded(value) for name, value in invocation.inputs.items()}
        shared = {name: state() for name, state in _SHARED.items()}
        result = self.once(invocation)
        # First, for what was changed cannot be judged.
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
        """Do *invocation* again, and see that it gives *result* again."""
        again = self.once(invocation)
        if differ(result, again):
            results = {"first": result, after: again}
            self.broken("repeatable", invocation, f"returned something else {after}", results)

    def repeat(self, again: Invocation, result: Any) -> None:
        """See that *again*, the same on its own *result*, leaves that alone."""
        changed_again = self.once(again)
        if changed_again is not None and differ(result, changed_again):
            results = {"first": result, "then": changed_again}
            self.broken("idempotent", again, "changed what it had made itself", results)

    def once(self, invocation: Invocation) -> Any:
        """Return what *invocation* returns; raises `NoResult` if it gives none."""
        law: LawName
        try:
            return self._watch.run(invocation.run)
        except TimeIsUp:
            law, problem = "ends", f"took longer than {self._watch.limit:g} s"
        except (Exception, SystemExit) as error:  # noqa: BLE001 - that is what was asked
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
        """Raise `LawBroken`; of a law that was not asked about at most `NoResult`."""
        if law not in self._without:
            case = {**invocation.inputs, **results}
            raise breach(law, self._subject, f"{invocation.name} {problem}", case)
        if law in _LEAVES_NO_RESULT:
            raise NoResult


def differ(before: Any, after: Any) -> bool:
    """Return whether two results differ; None is one of them."""
    return type(before) is not type(after) or (before is not None and changed(before, after))


def schema_problem(tool: ToolSpec, value: Any) -> str | None:
    """Return how *value*, a call or an answer of *tool*, breaks the schema that is for it."""
    match value:
        case ToolCall():
            return schemas.problem(tool.input_schema, value.arguments)
        case ToolMessage(tool_response=ToolResponse() as response):
            return schema_problem(tool, response)
        case ToolResponse(is_error=False) if None not in (tool.output_schema, value.structured):
            return schemas.problem(tool.output_schema or EMPTY, value.structured)
    return None


def _encoded(value: Any) -> bytes | None:
    """Return the encoding of *value*, None if it has none: values of users' events may not."""
    try:
        return encode(value)
    except (TypeError, ValueError, RecursionError):
        return None


def _place(error: BaseException) -> str:
    """Return " at file:line" of where *error* was raised, not by what a case's own values do."""
    place, name = error.__traceback__, ""
    while place is not None:
        folder, file = os.path.split(place.tb_frame.f_code.co_filename)
        if folder != _OWN_FOLDER:
            name = f" at {file}:{place.tb_lineno}"
        place = place.tb_next
    return name

"""Try one call of a user's function, and judge it by the laws that hold for all of them."""

from __future__ import annotations

import os
import random
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from toolbus.messages import schemas
from toolbus.messages.immutable import EMPTY
from toolbus.messages.records import ToolCall, ToolMessage, ToolResponse, changed, encode
from toolbus.testing.laws import breach
from toolbus.testing.limits import Stopwatch, TimeIsUp
from toolbus.testing.showing import MOST_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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


class Invocation(NamedTuple):
    """One call of a user's function: its *name*, how to do it, and the records it is given."""

    name: str
    run: Callable[[], Any]
    inputs: Mapping[str, Any]


class Abandoned(Exception):
    """A law was broken that was not asked about, so there is no result to go on with."""


class Trial:
    """Judges what *subject* does by all laws but those of *without*."""

    def __init__(self, subject: str, without: Iterable[str], watch: Stopwatch) -> None:
        self.subject, self.without, self._watch = subject, frozenset(without), watch

    def perform(self, invocation: Invocation, judge: Callable[[Any], object]) -> Any:
        """Do *invocation* twice; return its first result, which *judge* may find to be a breach."""
        before = {name: _encoded(value) for name, value in invocation.inputs.items()}
        shared = {name: state() for name, state in _SHARED.items()}
        result = self.once(invocation)
        # First, for what was changed cannot be judged.
        for name, value in invocation.inputs.items():
            if _encoded(value) != before[name]:
                self.broken(
                    "changes-nothing-given",
                    f"{invocation.name} changed its {name}",
                    invocation.inputs,
                )
        judge(result)
        self.compare(invocation, result)
        for name, state in _SHARED.items():
            if state() != shared[name]:
                self.broken(
                    "touches-no-globals", f"{invocation.name} changed {name}", invocation.inputs
                )
        return result

    def compare(self, invocation: Invocation, result: Any, after: str = "the second time") -> None:
        """Do *invocation* again, and see that it gives *result* again."""
        again = self.once(invocation)
        if differ(result, again):
            case = {**invocation.inputs, "first": result, after: again}
            self.broken("repeatable", f"{invocation.name} returned something else {after}", case)

    def repeat(self, again: Invocation, result: Any) -> None:
        """See that *again*, the same on its own *result*, leaves that alone."""
        changed_again = self.once(again)
        if changed_again is not None and differ(result, changed_again):
            case = {**again.inputs, "first": result, "then": changed_again}
            self.broken("idempotent", f"{again.name} changed what it had made itself", case)

    def once(self, invocation: Invocation) -> Any:
        """Return what *invocation* returns; raises `Abandoned` if it gives none."""
        try:
            return self._watch.run(invocation.run)
        except TimeIsUp:
            problem = f"{invocation.name} took longer than {self._watch.limit:g} s"
            self.fatal("ends", problem, invocation.inputs)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - that is what was asked
            message = f"{error}"[:MOST_TEXT]
            problem = f"{invocation.name} raised {type(error).__name__}: {message}{_place(error)}"
            self.fatal("raises-nothing", problem, invocation.inputs)

    def broken(self, law: LawName, problem: str, case: Mapping[str, Any]) -> None:
        """Raise `LawBroken`, unless *law* is one that was not asked about."""
        if law not in self.without:
            raise breach(law, self.subject, problem, case)

    def fatal(self, law: LawName, problem: str, case: Mapping[str, Any]) -> NoReturn:
        """Do as `broken`, and end this trial in any case."""
        self.broken(law, problem, case)
        raise Abandoned


def differ(before: Any, after: Any) -> bool:
    """Tell whether two results differ; None is one of them."""
    return type(before) is not type(after) or (before is not None and changed(before, after))


def misfit(tool: ToolSpec, value: Any) -> str | None:
    """Return how *value*, a call or an answer of *tool*, breaks the schema that is for it."""
    match value:
        case ToolCall():
            return schemas.problem(tool.input_schema, value.arguments)
        case ToolMessage(tool_response=ToolResponse() as response):
            return misfit(tool, response)
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

"""Try one call of a user's function, and judge it by the laws that hold for all of them."""

from __future__ import annotations

import os
import random
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from toolbus.messages.records import changed, encode
from toolbus.testing.laws import breach
from toolbus.testing.limits import Stopwatch, TimeIsUp
from toolbus.testing.showing import MOST_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from toolbus.testing.laws import LawName

_SHARED: dict[str, Callable[[], object]] = {
    "the state of `random`": random.getstate,
    "os.environ": lambda: dict(os.environ),
    "the working directory": os.getcwd,
    "the recursion limit": sys.getrecursionlimit,
    "sys.path": lambda: list(sys.path),
}


class Deed(NamedTuple):
    """One call of a user's function: its *name*, how to do it, and the records it is *given*.

    *finish* makes the result of what it returned.
    """

    name: str
    run: Callable[[], Any]
    given: Mapping[str, Any]
    finish: Callable[[Any], Any] = lambda returned: returned


class Abandoned(Exception):
    """A law was broken that was not asked about, so there is no result to go on with."""


class Trial:
    """Judges what *subject* does by all laws but those of *without*."""

    def __init__(self, subject: str, without: Iterable[str], watch: Stopwatch) -> None:
        self.subject, self.without, self._watch = subject, frozenset(without), watch

    def perform(self, deed: Deed, judge: Callable[[Any], object]) -> Any:
        """Do *deed* twice; return its first result, which *judge* may find to be a breach."""
        before = {name: _encoded(value) for name, value in deed.given.items()}
        shared = {name: state() for name, state in _SHARED.items()}
        result = self.once(deed)
        # First, for what was changed cannot be judged.
        for name, value in deed.given.items():
            if _encoded(value) != before[name]:
                self.broken("changes-nothing-given", f"{deed.name} changed its {name}", deed.given)
        judge(result)
        self.compare(deed, result)
        for name, state in _SHARED.items():
            if state() != shared[name]:
                self.broken("touches-no-globals", f"{deed.name} changed {name}", deed.given)
        return result

    def compare(self, deed: Deed, result: Any, after: str = "the second time") -> None:
        """Do *deed* again, and see that it gives *result* again."""
        again = self.once(deed)
        if differ(result, again):
            case = {**deed.given, "first": result, after: again}
            self.broken("repeatable", f"{deed.name} returned something else {after}", case)

    def once(self, deed: Deed) -> Any:
        """Return what *deed* returns; raises `Abandoned` if it gives none."""
        try:
            return deed.finish(self._watch.run(deed.run))
        except TimeIsUp:
            problem = f"{deed.name} took longer than {self._watch.limit:g} s"
            self.fatal("ends", problem, deed.given)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - that is what was asked
            said = f"{error}"[:MOST_TEXT]
            problem = f"{deed.name} raised {type(error).__name__}: {said}{_place(error)}"
            self.fatal("raises-nothing", problem, deed.given)

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


def _encoded(value: Any) -> bytes | None:
    """Return the encoding of *value*, None if it has none: values of users' events may not."""
    try:
        return encode(value)
    except (TypeError, ValueError, RecursionError):
        return None


def _place(error: BaseException) -> str:
    """Return " at file:line" of where *error* was raised."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return ""
    return f" at {os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno}"  # noqa: PTH119 - a name, no path

"""`check_adapter`, `check_guard` and `check_handler`: hunt for broken laws."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolbus.bus import EventBus
from toolbus.components import AgentComponent
from toolbus.errors import RegistrationError
from toolbus.events import Scope
from toolbus.testing.adapters import AdapterExam, as_adapter, corners
from toolbus.testing.cases import Cases
from toolbus.testing.hunting import hunt
from toolbus.testing.laws import check_names
from toolbus.testing.limits import Stopwatch
from toolbus.testing.texts import HOSTILE_TEXTS
from toolbus.testing.trials import Trial
from toolbus.tools import Toolset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from hypothesis.strategies import SearchStrategy

    from toolbus.adapting import ToolAdapter
    from toolbus.events import ToolSpec
    from toolbus.messages import ToolCall, ToolResponse
    from toolbus.testing.laws import LawName
    from toolbus.tools import Tool


class Stage:
    """What a component is installed on while it is checked, unless it is installed already."""

    def __init__(self) -> None:
        self.bus, self.tools, self.scope = EventBus(), Toolset(), Scope(agent_id="checked")


def check_adapter(
    adapter: ToolAdapter | AgentComponent | Callable[..., Any],
    *,
    tools: Iterable[Tool | ToolSpec | Callable[..., Any]] = (),
    calls: SearchStrategy[ToolCall] | None = None,
    responses: SearchStrategy[ToolResponse] | None = None,
    idempotent: bool = False,
    without: Collection[LawName] = (),
    examples: int = 100,
    seed: int = 0,
    limit: float = 10.0,
) -> None:
    """Hunt for a case in which *adapter* breaks a law; raises `LawBroken` with the smallest.

    Signatures, calls and responses pass it as they would in an agent, friendly and hostile ones:
    empty, huge, deeply nested, of unusual Unicode, with arguments that models make up. What must
    hold stands in `toolbus.testing.laws`: it raises for no value, ends in time, keeps ids and
    names, changes nothing that it was given, leaves other tools alone, gives the same result for
    the same value, publishes sound schemas, and what it makes still fits them.

        def test_my_adapter_keeps_the_laws():
            check_adapter(Shorten())

    Args:
        adapter: an adapter, a component (then all of its adapters), or a function of a response,
            and of its call if it takes two arguments.
        tools: tools to try it with, if it knows their arguments or results; else made-up ones.
        calls: drawn in place of calls that fit.
        responses: drawn in place of responses; ids and names are stamped on them.
        idempotent: claims that it leaves alone what it made itself.
        without: names of laws that it may break.
        examples: how many cases to draw, besides a list of hostile ones.
        seed: another one draws other cases, the same one the same.
        limit: seconds that one call of it may take.
    """
    given = tuple(tools)
    with _stopwatch(adapter, limit) as watch:
        for one in _adapters_of(adapter):
            patterns = (one.tools,) if isinstance(one.tools, str) else tuple(one.tools)
            trial = Trial(f"adapter {one.name!r}", check_names(without), watch)
            cases = Cases(patterns, given, calls, responses)
            exam = AdapterExam(one, cases, trial, idempotent=idempotent)
            hunt(exam.examine, examples=examples, seed=seed)
            if responses is None:
                corners(exam, HOSTILE_TEXTS)


def _adapters_of(subject: Any) -> tuple[ToolAdapter, ...]:
    if not isinstance(subject, AgentComponent):
        return (as_adapter(subject),)
    if not subject.adapters:
        raise RegistrationError(f"component {subject.name!r}", "it has no adapters to check")
    return subject.adapters


@contextmanager
def _stopwatch(subject: object, limit: float) -> Iterator[Stopwatch]:
    """Give what runs the functions of *subject*, which is installed meanwhile if a component."""
    watch = Stopwatch(limit)
    try:
        if not isinstance(subject, AgentComponent) or subject.host is not None:
            yield watch
            return
        stage = Stage()
        subject.setup(stage)
        try:
            watch.run(lambda: subject.install(stage))
            try:
                yield watch
            finally:
                watch.run(subject.close)
        finally:
            subject.teardown()
    finally:
        watch.close()

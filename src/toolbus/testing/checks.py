"""`check_adapter`, `check_guard` and `check_handler`: hunt for broken laws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.bus.dispatch.callables import name_of
from toolbus.bus.dispatch.options import SubscriptionOptions
from toolbus.bus.dispatch.options import check_handler as check_handler_of
from toolbus.components.components import AgentComponent
from toolbus.components.marks import marked
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import TOOL_CALL_BEFORE
from toolbus.events.subjects import tool_of
from toolbus.testing.adapters import AdapterExam, as_adapter, hostile_calls, hostile_responses
from toolbus.testing.cases import Cases
from toolbus.testing.handlers import Claims, HandlerExam, Subject
from toolbus.testing.hunting import hunt
from toolbus.testing.installed import InstalledAdapter, installed
from toolbus.testing.laws import check_names
from toolbus.testing.situations import Situations
from toolbus.testing.texts import HOSTILE_TEXTS
from toolbus.testing.trials import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from hypothesis.strategies import SearchStrategy

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.marks import Mark
    from toolbus.events.catalogue import Event, ToolSpec, TransformEvent
    from toolbus.messages.records import ToolCall, ToolResponse
    from toolbus.testing.laws import LawName
    from toolbus.tools.definitions import Tool


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
    specs, names = tuple(tools), check_names(without)
    with installed(adapter, limit) as watch:
        for checked in _adapters_of(adapter):
            trial = Trial(f"adapter {checked.name!r}", names, watch)
            examined = checked
            if isinstance(adapter, AgentComponent):
                examined = InstalledAdapter(adapter, checked)
            cases = Cases(checked.tools, specs, calls, responses)
            exam = AdapterExam(examined, cases, trial, idempotent=idempotent)
            hunt(exam.examine, examples=examples, seed=seed)
            if responses is None:
                hostile_responses(exam, HOSTILE_TEXTS)
            if calls is None:
                hostile_calls(exam, HOSTILE_TEXTS)


def check_guard(
    guard: AgentComponent | Callable[..., Any],
    event: TransformEvent[Any, Any] = TOOL_CALL_BEFORE,
    *,
    tools: Iterable[Tool | ToolSpec | Callable[..., Any]] = (),
    values: SearchStrategy[Any] | None = None,
    without: Collection[LawName] = (),
    examples: int = 100,
    seed: int = 0,
    limit: float = 10.0,
) -> None:
    """Hunt for a case in which *guard* breaks a law; raises `LawBroken` with the smallest.

    It gets values as they reach a guard in an agent, also calls whose arguments fit no schema:
    guards judge those as well. The laws are those of `check_adapter` as far as they apply, and:
    a guard judges and changes nothing, its verdict says why, and it asks only where one may.

    Args:
        guard: a function of an `EventContext`, or a component: then all of its guards, each with
            the event that it is marked with.
        event: what a function guards.
        tools: tools whose calls it shall judge; else made-up ones.
        values: drawn in place of values of *event*; an event of your own may need it.
        without: names of laws that it may break.
        examples: how many cases to draw, besides a list of hostile ones.
        seed: another one draws other cases, the same one the same.
        limit: seconds that one call of it may take.
    """
    cases, names = Cases(tools=tools), check_names(without)
    with installed(guard, limit) as watch:
        for subject in _subjects_of(guard, event, is_guard=True):
            situations = Situations(subject.event, cases, values)
            trial = Trial(f"guard {subject.name!r}", names, watch)
            _search(HandlerExam(subject, situations, trial, Claims()), situations, examples, seed)


def check_handler(
    handler: AgentComponent | Callable[..., Any],
    event: Event = TOOL_CALL_BEFORE,
    *,
    tools: Iterable[Tool | ToolSpec | Callable[..., Any]] = (),
    values: SearchStrategy[Any] | None = None,
    only: Iterable[str] | str = ("*",),
    roles: Collection[str] | None = None,
    idempotent: bool = False,
    without: Collection[LawName] = (),
    examples: int = 100,
    seed: int = 0,
    limit: float = 10.0,
) -> None:
    """Do as `check_guard` for what `bus.on` takes; a component: all that it marked with `@on`.

    A replacement must keep role and ids, arguments and results that fitted must still fit, and
    an observer must return nothing.

    Args:
        handler: a function of an `EventContext`, or a component.
        event: what a function handles.
        tools: as in `check_guard`.
        values: as in `check_guard`.
        only: glob patterns of the tools that it is for: others' calls and results must stay.
        roles: the roles of the messages that it is for: others must stay.
        idempotent: claims that it leaves alone what it made itself.
        without: as in `check_guard`.
        examples: as in `check_guard`.
        seed: as in `check_guard`.
        limit: as in `check_guard`.
    """
    cases = Cases(only, tools)
    names = check_names(without)
    claims = Claims(cases.is_named, None if roles is None else frozenset(roles), idempotent)
    with installed(handler, limit) as watch:
        for subject in _subjects_of(handler, event, is_guard=False):
            situations = Situations(subject.event, cases, values)
            trial = Trial(f"handler {subject.name!r}", names, watch)
            _search(HandlerExam(subject, situations, trial, claims), situations, examples, seed)


def _search(exam: HandlerExam, situations: Situations, examples: int, seed: int) -> None:
    hunt(exam.examine, examples=examples, seed=seed)
    exam.corners(situations.hostile())


def _adapters_of(subject: Any) -> tuple[ToolAdapter, ...]:
    if not isinstance(subject, AgentComponent):
        return (as_adapter(subject),)
    if not subject.adapters:
        raise RegistrationError(f"component {subject.name!r}", "it has no adapters to check")
    return subject.adapters


def _when(component: AgentComponent, mark: Mark) -> Callable[[EventContext[Any]], bool]:
    """Return what lets a context pass to a method of *component*, as its subscription does."""
    wanted = mark.options.get("when")

    def when(ctx: EventContext[Any]) -> bool:
        name = tool_of(ctx.value)
        mine = name is None or component.is_for(name)
        return mine and (wanted is None or wanted(ctx))

    return when


def _subjects_of(subject: Any, event: Event, *, is_guard: bool) -> list[Subject]:
    """Return the handlers of a component, or the one that *subject* is."""
    kind = "guard" if is_guard else "on"
    if not isinstance(subject, AgentComponent):
        check_handler_of(event, subject, SubscriptionOptions())
        return [Subject(name_of(subject), event, subject, is_guard)]
    subjects = [
        Subject(name_of(method), mark.event, method, is_guard, _when(subject, mark))
        for name, mark in marked(type(subject))
        if mark.kind == kind and (method := getattr(subject, name)) is not None
    ]
    if not subjects:
        reason = f"no method of it is marked with `@{kind}`, so there is nothing to check"
        raise RegistrationError(f"component {subject.name!r}", reason)
    return subjects

"""`check_adapter`, `check_guard` and `check_handler`: hunt for broken laws."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.components.components import AgentComponent
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import TOOL_CALL_BEFORE
from toolbus.events.subjects import ToolSelector
from toolbus.testing.adapters import AdapterExam, as_adapter, hostile_calls, hostile_responses
from toolbus.testing.cases import Cases
from toolbus.testing.handlers import Claims, HandlerExam
from toolbus.testing.hunting import hunt
from toolbus.testing.installed import InstalledAdapter, installed
from toolbus.testing.laws import check_names
from toolbus.testing.questions import Questions
from toolbus.testing.situations import Situations
from toolbus.testing.subjects import find_subjects
from toolbus.testing.texts import HOSTILE_TEXTS
from toolbus.testing.trials import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from hypothesis.strategies import SearchStrategy

    from toolbus.components.adapters import ToolAdapter
    from toolbus.events.catalogue import Event, ToolSpec, TransformEvent
    from toolbus.messages.records import ToolCall, ToolResponse
    from toolbus.testing.laws import LawName
    from toolbus.testing.subjects import Subject
    from toolbus.tools.definitions import Tool

_MOST_ROUNDS = 3
_MOST_LEVELS = 8
"""How deep below each other arguments are looked for."""


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

    >>> check_adapter(lambda response: response.with_text(response.text.upper()))
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
    event: TransformEvent[Any, Any] | AgentComponent | Callable[..., Any],
    guard: AgentComponent | Callable[..., Any] | None = None,
    /,
    *,
    tools: Iterable[Tool | ToolSpec | Callable[..., Any]] = (),
    values: SearchStrategy[Any] | None = None,
    without: Collection[LawName] = (),
    examples: int = 100,
    seed: int = 0,
    limit: float = 10.0,
) -> None:
    """Hunt for a case in which a guard breaks a law; raises `LawBroken` with the smallest.

    It gets values as they reach a guard in an agent, also calls whose arguments fit no schema:
    guards judge those as well. The laws are those of `check_adapter` as far as they apply, and:
    a guard judges and changes nothing, its verdict says why, and it asks only where one may.

        check_guard(inside_only)                    # a guard of `TOOL_CALL_BEFORE`
        check_guard(MESSAGE_APPEND_BEFORE, clean)   # of another event, as in `bus.guard`
        check_guard(component)                      # all guards of it, each with its own event
        check_guard(component.inside_only)          # one of them

    Arguments that it asks for by name are made up as well, so `arguments.get("command")` meets
    calls with a command. What no case reached (a guard for tools of certain names, for one) is a
    breach too, of the law "is-reached": give *tools*, or *values*.

    Args:
        event: what a function guards, or the guard itself.
        guard: a function of an `EventContext`, a component, or a method of one.
        tools: tools whose calls it shall judge; else made-up ones.
        values: drawn in place of values of the event; an event of your own may need it.
        without: names of laws that it may break.
        examples: how many cases to draw, besides a list of hostile ones.
        seed: another one draws other cases, the same one the same.
        limit: seconds that one call of it may take.

    >>> def no_deploys(ctx):
    ...     return Deny("no") if ctx.value.name == "deploy" else None
    >>> check_guard(no_deploys, tools=[ToolSpec(name="deploy")])
    """
    source = _CaseSource(tuple(tools), values, examples, seed)
    _check(find_subjects(event, guard, "guard"), source, Claims(), without, limit)


def check_handler(
    event: Event | AgentComponent | Callable[..., Any],
    handler: AgentComponent | Callable[..., Any] | None = None,
    /,
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
    """Do as `check_guard` for what `bus.on` takes, in its order: `check_handler(EVENT, handler)`.

    A component, or a method that is marked with `@on`, tells its events itself. A replacement
    must keep role and ids, arguments and results that fitted must still fit, and an observer
    must return nothing.

    Args:
        event: what a function handles; a component, or a method of one, by itself.
        handler: a function of an `EventContext`, or a component.
        tools: as in `check_guard`.
        values: as in `check_guard`.
        only: glob patterns of the tools that it is for: others' calls and results must stay.
        roles: the roles of the messages that it is for: others must stay.
        idempotent: claims that it leaves alone what it made itself.
        without: as in `check_guard`.
        examples: as in `check_guard`.
        seed: as in `check_guard`.
        limit: as in `check_guard`.

    >>> check_handler(events.TOOL_CALL_BEFORE, lambda ctx: None)
    """
    source = _CaseSource(tuple(tools), values, examples, seed, only)
    names = None if roles is None else frozenset(roles)
    claims = Claims(ToolSelector(only).matches, names, idempotent)
    _check(find_subjects(event, handler, "on"), source, claims, without, limit)


class _CaseSource(NamedTuple):
    """Where cases come from: *tools* and *values* if they are given, else they are made up."""

    tools: tuple[Tool | ToolSpec | Callable[..., Any], ...]
    values: SearchStrategy[Any] | None
    examples: int
    seed: int
    patterns: Iterable[str] | str = "*"


def _check(
    subjects: list[Subject],
    source: _CaseSource,
    claims: Claims,
    without: Collection[LawName],
    limit: float,
) -> None:
    names = check_names(without)
    with installed(subjects[0].component, limit) as watch:
        for subject in subjects:
            kind = "guard" if subject.is_guard else "handler"
            trial = Trial(f"{kind} {subject.name!r}", names, watch)
            _search(HandlerExam(subject, trial, claims), subject, source, trial)


def _search(exam: HandlerExam, subject: Subject, source: _CaseSource, trial: Trial) -> None:
    """Hunt, and once more with the arguments that were asked for and that no case had."""
    questions, schema = Questions(), dict[str, Any]()
    for _ in range(_MOST_ROUNDS):
        patterns = source.patterns if "*" in subject.patterns else subject.patterns
        cases = Cases(patterns, source.tools, schema=schema or None)
        situations = Situations(subject.event, cases, questions, source.values)
        hunt(partial(exam.examine, situations), examples=source.examples, seed=source.seed)
        exam.corners(situations.hostile())
        if source.tools or not situations.is_ours:
            break
        asked, unanswered = questions.asked, questions.unanswered
        for _ in range(_MOST_LEVELS):
            exam.corners(situations.answers())
        is_new = bool(unanswered) or questions.asked != asked
        if not is_new or questions.schema() == schema:
            break
        schema = questions.schema()
    for problem in _unreached(exam, subject, source, questions):
        trial.broken("is-reached", problem, {})


def _unreached(
    exam: HandlerExam, subject: Subject, source: _CaseSource, questions: Questions
) -> Iterator[str]:
    """Say what no case reached; what was to be tried was given, so only that counts."""
    if not exam.reached:
        yield f"its predicate let none of {exam.cases} cases pass"
    if source.tools or source.values is not None:
        return
    if questions.unanswered:
        yield f"no case reached `{questions.unanswered[0]}`"
    judges_calls = subject.is_guard and subject.event is TOOL_CALL_BEFORE
    if judges_calls and not questions.asked and not exam.has_spoken:
        yield f"it let all {exam.reached} cases pass and asked for no argument of theirs"


def _adapters_of(subject: Any) -> tuple[ToolAdapter, ...]:
    if not isinstance(subject, AgentComponent):
        return (as_adapter(subject),)
    if not subject.adapters:
        raise RegistrationError(f"component {subject.name!r}", "it has no adapters to check")
    return subject.adapters

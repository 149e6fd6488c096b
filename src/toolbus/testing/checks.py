"""`check_adapter`, `check_guard` and `check_handler`: the search for broken laws."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from inspect import ismethod
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from toolbus.bus import subscriptions
from toolbus.bus.dispatch.callables import name_of, takes
from toolbus.bus.subscriptions import as_tuple, selections, settings_of
from toolbus.components.adapters import ToolAdapter
from toolbus.components.components import AgentComponent
from toolbus.components.marks import marked, marks_of
from toolbus.components.participants import ComponentHost, check_no_class
from toolbus.errors import DeadlineError, RegistrationError
from toolbus.events.catalogue import TOOL_CALL_BEFORE, ObserveEvent, TransformEvent, check_event
from toolbus.events.subjects import ToolSelector
from toolbus.testing.case_search import search_cases
from toolbus.testing.cases import Cases
from toolbus.testing.law_checks import CHECKED, AdapterCheck, HandlerCheck, Subject
from toolbus.testing.law_verifier import LawVerifier
from toolbus.testing.laws import check_names
from toolbus.testing.stopwatch import Stopwatch, TimeIsUp

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Unpack

    from hypothesis.strategies import SearchStrategy

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.marks import Mark
    from toolbus.events.catalogue import Event, ToolSpec
    from toolbus.messages.records import ToolCall, ToolResponse
    from toolbus.testing.laws import LawName
    from toolbus.tools.definitions import Tool


def _find_subjects(first: Any, second: Any, kind: Literal["on", "guard"]) -> list[Subject]:
    """Return the handlers to check, from `(handler)`, `(component)` or `(EVENT, handler)`.

    Raises `RegistrationError` if there is none of the *kind*.
    """
    event, subject = (None, first) if second is None else (first, second)
    _check_order(event, subject, "check_guard" if kind == "guard" else "check_handler")
    marked_methods = [
        _marked(mark, method)
        for mark, method in _marks_of(subject)
        if mark.kind == kind and event in (None, mark.event)
    ]
    if not isinstance(subject, AgentComponent):
        return marked_methods or [_function(subject, event, kind)]
    if not marked_methods:
        mark = f"@{kind}" if event is None else f"@{kind}({event.name})"
        reason = f"it has no method marked with `{mark}`, so there is nothing to check"
        raise RegistrationError(f"component {subject.name!r}", reason)
    return marked_methods


def _check_order(event: Any, subject: Any, check: str) -> None:
    """Raise `RegistrationError` unless *event* is an event or None, and *subject* is not one."""
    if isinstance(subject, TransformEvent | ObserveEvent):
        problem = "the handler is missing" if event is None else "the event comes first"
        reason = f"{problem}: `{check}(EVENT, handler)`"
        raise RegistrationError(f"{check} of {subject.name!r}", reason)
    if event is not None:
        check_event(event)


def _marks_of(subject: Any) -> list[tuple[Mark, Any]]:
    """Return pairs of mark and method of a component, or of a single method."""
    if isinstance(subject, type) and issubclass(subject, AgentComponent):
        check_no_class("component", subject)
    if isinstance(subject, AgentComponent):
        marks = [(mark, getattr(subject, name)) for name, mark in marked(type(subject))]
        return [(mark, method) for mark, method in marks if method is not None]
    return [(mark, subject) for mark in marks_of(subject)] if ismethod(subject) else []


def _function(function: Any, event: Event | None, kind: Literal["on", "guard"]) -> Subject:
    """Return *function*, which has no mark, as a handler of *event*."""
    if event is None and (marks := marks_of(function)):
        other = "check_handler" if kind == "guard" else "check_guard"
        reason = f"it is marked with `@{marks[0].kind}`; use `{other}`"
        raise RegistrationError(f"handler {name_of(function)!r}", reason)
    if event is None and kind == "on":
        reason = "it has no mark with an event; give the event: `check_handler(EVENT, handler)`"
        raise RegistrationError(f"handler {function!r}", reason)
    event = TOOL_CALL_BEFORE if event is None else event
    settings = settings_of(event, "guard" if kind == "guard" else "observer", {})
    subscriptions.check_handler(event, function, settings)
    owner = getattr(function, "__self__", None)
    component = owner if isinstance(owner, AgentComponent) else None
    return Subject(event, function, kind == "guard", component=component)


def _marked(mark: Mark, method: Any) -> Subject:
    component, wanted = method.__self__, mark.options.get("when") or (lambda _: True)
    tools, roles = as_tuple(mark.options.get("tools")), as_tuple(mark.options.get("roles"))
    selects = [component.selector.admits, *selections(tools, roles)]

    def when(ctx: EventContext[Any]) -> bool:
        # The conditions of its subscription.
        return all(select(ctx.value) for select in selects) and wanted(ctx)

    patterns = tools if tools and component.selector.is_everything else component.selector.patterns
    return Subject(mark.event, method, mark.kind == "guard", when, component, patterns)


class CheckOptions(TypedDict, total=False):
    """The options of every check, as keyword arguments.

    Args:
        tools: tools whose signatures, calls and results are drawn; by default made-up ones.
        without: names of laws that the handler may break.
        examples: the number of cases to draw, in addition to a list of hostile ones; 100 by
            default.
        seed: the seed of the cases; 0 by default.
        limit: the time limit of one call of the handler in seconds; 10 by default.
    """

    tools: Iterable[Tool | ToolSpec | Callable[..., Any]]
    without: Collection[LawName]
    examples: int
    seed: int
    limit: float


_DEFAULTS = CheckOptions(tools=(), without=(), examples=100, seed=0, limit=10.0)


def check_adapter(
    adapter: ToolAdapter | AgentComponent | Callable[..., Any],
    *,
    calls: SearchStrategy[ToolCall] | None = None,
    responses: SearchStrategy[ToolResponse] | None = None,
    idempotent: bool = False,
    **options: Unpack[CheckOptions],
) -> None:
    """Search for a case in which *adapter* breaks a law; raises `LawBroken` with the smallest.

    It gets signatures, calls and responses as in an agent, also hostile ones: empty, huge, deeply
    nested, of unusual Unicode, with invented arguments, or without any where a response has lost
    its parameters. The laws are in `toolbus.testing.laws`.

    Args:
        adapter: an adapter, a component (all of its adapters), or a function of a response, and of
            its call if it has two parameters.
        calls: the strategy of calls, in place of calls that match the schema.
        responses: the strategy of responses; ids, names and parameters are stamped on them.
        idempotent: claims that a second application changes nothing.
        options: see `CheckOptions`.

    >>> check_adapter(lambda response: response.with_text(response.text.upper()))
    """
    chosen = _chosen(options)
    component = adapter if isinstance(adapter, AgentComponent) else None
    selector = ToolSelector("*") if component is None else component.selector
    with _installed(component, chosen["limit"]) as watch:
        for each in _adapters_of(adapter):
            verifier = LawVerifier(f"adapter {each.name!r}", chosen["without"], watch)
            cases = Cases(each.tools, chosen["tools"], calls, responses)
            _try(AdapterCheck(each, selector, cases, verifier, idempotent=idempotent), chosen)


def check_guard(
    event: TransformEvent[Any, Any] | AgentComponent | Callable[..., Any],
    guard: AgentComponent | Callable[..., Any] | None = None,
    /,
    *,
    values: SearchStrategy[Any] | None = None,
    **options: Unpack[CheckOptions],
) -> None:
    """Search for a case in which a guard breaks a law; raises `LawBroken` with the smallest.

    It gets values as in an agent, also calls whose arguments do not match the schema, since guards
    judge these, too. The laws are those of `check_adapter` as far as they apply, and: a guard
    judges and changes nothing, its verdict has a reason, and it asks only if the event allows it.

        check_guard(inside_only)                    # a guard of `TOOL_CALL_BEFORE`
        check_guard(MESSAGE_APPEND_BEFORE, clean)   # of another event, as in `bus.guard`
        check_guard(component)                      # all of its guards, each with its own event
        check_guard(component.inside_only)          # one of them

    Arguments that it looks up by name are made up as well, so `arguments.get("command")` gets calls
    with a command. A guard that no case reaches (such as one for certain names of tools) breaks
    the law "is-reached": give *tools*, or *values*.

    Args:
        event: the event of a function, or the guard itself.
        guard: a function of an `EventContext`, a component, or a method of a component.
        values: the strategy of values of the event; your own events may need one.
        options: see `CheckOptions`.

    >>> def no_deploys(ctx):
    ...     return Deny("no") if ctx.value.name == "deploy" else None
    >>> check_guard(no_deploys, tools=[ToolSpec(name="deploy")])
    """
    _check(_find_subjects(event, guard, "guard"), values, _chosen(options))


def check_handler(
    event: Event | AgentComponent | Callable[..., Any],
    handler: AgentComponent | Callable[..., Any] | None = None,
    /,
    *,
    values: SearchStrategy[Any] | None = None,
    only: Iterable[str] | str = ("*",),
    roles: Collection[str] | None = None,
    idempotent: bool = False,
    **options: Unpack[CheckOptions],
) -> None:
    """Check a handler as `check_guard` does, with the arguments of `bus.on`: `(EVENT, handler)`.

    A component, or a method with the mark `@on`, has its own events. A replacement must keep role
    and ids, valid arguments and results must stay valid, and an observer must return nothing.

    Args:
        event: the event of a function; or a component, or a method of a component.
        handler: a function of an `EventContext`, or a component.
        values: as in `check_guard`.
        only: glob patterns of the tools that it may change: all other calls and results must stay.
        roles: the roles of the messages that it may change: all other messages must stay.
        idempotent: claims that a second application changes nothing.
        options: see `CheckOptions`.

    >>> check_handler(events.TOOL_CALL_BEFORE, lambda ctx: None)
    """
    names = None if roles is None else frozenset(roles)
    subjects = [
        subject._replace(tools=ToolSelector(only), roles=names, idempotent=idempotent)
        for subject in _find_subjects(event, handler, "on")
    ]
    _check(subjects, values, _chosen(options))


@contextmanager
def _installed(component: AgentComponent | None, limit: float) -> Iterator[Stopwatch]:
    """Return a context with the runner of functions, in which *component* is installed."""
    watch = Stopwatch(limit)
    try:
        with ExitStack() as stack:
            if component is not None and component.host is None:
                host = ComponentHost(scope=CHECKED)
                component.setup(host)
                stack.callback(component.teardown)
                watch.run(partial(component.install, host))
                stack.callback(watch.run, component.close)
            yield watch
    except TimeIsUp:
        raise DeadlineError(limit) from None
    finally:
        watch.close()


def _chosen(options: CheckOptions) -> CheckOptions:
    """Return *options* with defaults; raises `TypeError` or `ValueError` for an unknown name."""
    if unknown := sorted(options.keys() - _DEFAULTS.keys()):
        msg = f"unknown option {unknown[0]!r} of a check; known: {', '.join(_DEFAULTS)}"
        raise TypeError(msg)
    chosen = CheckOptions(**{**_DEFAULTS, **options})
    check_names(chosen["without"])
    return {**chosen, "tools": tuple(chosen["tools"])}


def _check(
    subjects: list[Subject],
    values: SearchStrategy[Any] | None,
    options: CheckOptions,
) -> None:
    with _installed(subjects[0].component, options["limit"]) as watch:
        for subject in subjects:
            kind = "guard" if subject.is_guard else "handler"
            verifier = LawVerifier(f"{kind} {subject.name!r}", options["without"], watch)
            patterns = subject.tools.patterns if "*" in subject.patterns else subject.patterns
            cases = Cases(patterns, options["tools"])
            _try(HandlerCheck(subject, cases, verifier, values), options)


def _try(check: AdapterCheck | HandlerCheck, options: CheckOptions) -> None:
    search_cases(check.examine, examples=options["examples"], seed=options["seed"])
    check.check_edge_cases()


def _adapters_of(subject: Any) -> tuple[ToolAdapter, ...]:
    if isinstance(subject, AgentComponent):
        if not subject.adapters:
            raise RegistrationError(f"component {subject.name!r}", "it has no adapters to check")
        return subject.adapters
    if isinstance(subject, ToolAdapter):
        return (subject,)
    if callable(subject) and not isinstance(subject, type):
        return (FunctionAdapter(subject),)
    reason = "expected an adapter, a function or a component"
    raise RegistrationError(f"adapter {subject!r}", reason)


class FunctionAdapter(ToolAdapter):
    """An adapter that calls a function of a response, and of its call if it has two parameters."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        self._function, self._takes_call = function, takes(function, 2)

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> Any:
        """Return the result of the function."""
        return self._function(response, call) if self._takes_call else self._function(response)

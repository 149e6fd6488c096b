"""What a check of guards or other handlers is about: functions, marked methods, components."""

from __future__ import annotations

from inspect import ismethod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toolbus.bus.dispatch.callables import name_of
from toolbus.bus.subscribing import as_tuple, check_handler, selections, settings_of
from toolbus.components.components import AgentComponent
from toolbus.components.marks import marked, marks_of
from toolbus.components.participants import check_no_class
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import TOOL_CALL_BEFORE, ObserveEvent, TransformEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.marks import Mark
    from toolbus.events.catalogue import Event


class Subject(NamedTuple):
    """A handler of *event*; *when* is its predicate, *component* what it is a method of.

    *patterns* are the glob patterns of the tools that it is for.
    """

    event: Event
    handler: Callable[[EventContext[Any]], Any]
    is_guard: bool
    when: Callable[[EventContext[Any]], bool] | None = None
    component: AgentComponent | None = None
    patterns: tuple[str, ...] = ("*",)

    @property
    def name(self) -> str:
        """What people call it."""
        return name_of(self.handler)


def find_subjects(first: Any, second: Any, kind: Literal["on", "guard"]) -> list[Subject]:
    """Return what is to be checked: `(handler)`, `(component)`, `(EVENT, handler)` and the like.

    Raises `RegistrationError` if it is nothing of the *kind*.
    """
    event, subject = (None, first) if second is None else (first, second)
    check = "check_guard" if kind == "guard" else "check_handler"
    if isinstance(subject, TransformEvent | ObserveEvent):
        what = "what to check is missing" if second is None else "the event comes first"
        raise RegistrationError(
            f"{check} of {subject.name!r}", f"{what}: `{check}(EVENT, handler)`"
        )
    if second is not None and not isinstance(event, TransformEvent | ObserveEvent):
        raise RegistrationError(
            f"event {event!r}", f"expected one, as in `{check}(EVENT, handler)`"
        )
    if isinstance(subject, type) and issubclass(subject, AgentComponent):
        check_no_class("component", subject)
    if isinstance(subject, AgentComponent):
        return _of_component(subject, event, kind)
    return _of_function(subject, event, kind)


def _of_component(
    component: AgentComponent, event: Event | None, kind: Literal["on", "guard"]
) -> list[Subject]:
    subjects = [
        _marked(mark, method)
        for name, mark in marked(type(component))
        if mark.kind == kind and event in (None, mark.event)
        if (method := getattr(component, name)) is not None
    ]
    if not subjects:
        what = f"@{kind}" if event is None else f"@{kind}({event.name})"
        reason = f"no method of it is marked with `{what}`, so there is nothing to check"
        raise RegistrationError(f"component {component.name!r}", reason)
    return subjects


def _of_function(function: Any, event: Event | None, kind: Literal["on", "guard"]) -> list[Subject]:
    marks = marks_of(function)
    ours = [mark for mark in marks if mark.kind == kind and event in (None, mark.event)]
    if ours and ismethod(function):
        return [_marked(mark, function) for mark in ours]
    if event is None:
        if marks:
            other = "check_handler" if kind == "guard" else "check_guard"
            reason = f"it is marked with `@{marks[0].kind}`; use `{other}`"
            raise RegistrationError(f"handler {name_of(function)!r}", reason)
        if kind == "on":
            reason = "no mark tells its event; give that first: `check_handler(EVENT, handler)`"
            raise RegistrationError(f"handler {function!r}", reason)
        event = TOOL_CALL_BEFORE
    settings = settings_of(event, "guard" if kind == "guard" else "observer", {})
    check_handler(event, function, settings)
    owner = getattr(function, "__self__", None)
    component = owner if isinstance(owner, AgentComponent) else None
    return [Subject(event, function, kind == "guard", component=component)]


def _marked(mark: Mark, method: Any) -> Subject:
    component, wanted = method.__self__, mark.options.get("when")
    tools, roles = as_tuple(mark.options.get("tools")), as_tuple(mark.options.get("roles"))
    selects = [component.selector.admits, *selections(tools, roles)]

    def when(ctx: EventContext[Any]) -> bool:
        # As its subscription has it.
        return all(select(ctx.value) for select in selects) and (wanted is None or wanted(ctx))

    patterns = tools if tools and component.selector.is_everything else component.selector.patterns
    return Subject(mark.event, method, mark.kind == "guard", when, component, patterns)

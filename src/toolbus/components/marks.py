"""Marks on methods: which event a component's method handles, and which methods are tools."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, Unpack, overload

from toolbus.dispatch.bindings import Options, check_options
from toolbus.events import Ask, Deny, ObserveEvent, TransformEvent
from toolbus.tools import FunctionTool

if TYPE_CHECKING:
    from toolbus.bus.registry import HandlerOptions
    from toolbus.dispatch import EventContext
    from toolbus.events import Event
    from toolbus.ledger import HandlerKind

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V")
R = TypeVar("R")
_MARKS = "__toolbus_marks__"


class Mark(NamedTuple):
    """That a method handles *event*, and how."""

    event: Event
    kind: Literal["on", "guard"]
    options: HandlerOptions


@overload
def on(
    event: TransformEvent[V, R], **options: Unpack[HandlerOptions]
) -> Callable[
    [Callable[[Any, EventContext[V]], R | Coroutine[Any, Any, R | None] | None]],
    Callable[[Any, EventContext[V]], R | Coroutine[Any, Any, R | None] | None],
]: ...
@overload
def on(
    event: ObserveEvent[V], **options: Unpack[HandlerOptions]
) -> Callable[
    [Callable[[Any, EventContext[V]], Coroutine[Any, Any, None] | None]],
    Callable[[Any, EventContext[V]], Coroutine[Any, Any, None] | None],
]: ...
def on(event: Any, **options: Unpack[HandlerOptions]) -> Any:
    """Mark a component's method as a handler of *event*; the options are those of `EventBus.on`.

    Without *sender* it hears its agent and that one's sub-agents. Marks can be stacked. Raises
    `RegistrationError` for options that could never work.
    """
    return _marker(Mark(event, "on", options))


def guard(
    event: TransformEvent[V, Any], **options: Unpack[HandlerOptions]
) -> Callable[
    [Callable[[Any, EventContext[V]], Deny | Ask | Coroutine[Any, Any, Deny | Ask | None] | None]],
    Callable[[Any, EventContext[V]], Deny | Ask | Coroutine[Any, Any, Deny | Ask | None] | None],
]:
    """Mark a component's method as a guard; the options are those of `EventBus.on`."""
    return _marker(Mark(event, "guard", options))


def _marker(mark: Mark) -> Callable[[F], F]:
    observed = isinstance(mark.event, ObserveEvent)
    kind: HandlerKind = "observer" if observed else "transformer"
    check_options(mark.event, "guard" if mark.kind == "guard" else kind, Options(**mark.options))

    def remember(method: F) -> F:
        function = _unwrapped(method)
        setattr(function, _MARKS, (*getattr(function, _MARKS, ()), mark))
        return method

    return remember


def marked(kind: type) -> Iterator[tuple[str, Mark]]:
    """Give the marks of a class in order of definition.

    An overriding method keeps its marks, or has others; None in its place takes it away.
    """
    marks: dict[str, tuple[Mark, ...]] = {}
    for name, member in _members(kind):
        if member is None:
            marks.pop(name, None)
        elif found := getattr(member, _MARKS, ()):
            marks[name] = found
    for name, found in marks.items():
        yield from [(name, mark) for mark in found]


def tools_of(component: object) -> Iterator[FunctionTool]:
    """Give the methods of *component* that are tools, in order of definition.

    An overriding method is one with the same options; None in its place takes it away.
    """
    tools: dict[str, FunctionTool] = {}
    for name, member in _members(type(component)):
        if member is None:
            tools.pop(name, None)
        elif isinstance(member, FunctionTool):
            tools[name] = member
    for name, tool in tools.items():
        method = getattr(component, name)
        yield method if isinstance(method, FunctionTool) else tool.with_function(method)


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Give what a class and those above it define, the uppermost first."""
    for owner in reversed(kind.__mro__):
        yield from [(name, _unwrapped(member)) for name, member in vars(owner).items()]


def _unwrapped(member: Any) -> Any:
    """Return what a static or class method wraps: a mark may stand above or below that."""
    return member.__func__ if isinstance(member, staticmethod | classmethod) else member

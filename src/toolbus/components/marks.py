"""Marks on methods: which event a component's method handles, and which methods are tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from inspect import getattr_static
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, Unpack, overload

from toolbus.events import Ask, Deny, ObserveEvent, TransformEvent
from toolbus.tools import FunctionTool

if TYPE_CHECKING:
    from toolbus.bus.registry import HandlerOptions
    from toolbus.dispatch import EventContext
    from toolbus.events import Event

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
    [Callable[[Any, EventContext[V]], R | Awaitable[R | None] | None]],
    Callable[[Any, EventContext[V]], R | Awaitable[R | None] | None],
]: ...
@overload
def on(
    event: ObserveEvent[V], **options: Unpack[HandlerOptions]
) -> Callable[
    [Callable[[Any, EventContext[V]], Awaitable[None] | None]],
    Callable[[Any, EventContext[V]], Awaitable[None] | None],
]: ...
def on(event: Any, **options: Unpack[HandlerOptions]) -> Any:
    """Mark a component's method as a handler of *event*; the options are those of `EventBus.on`."""
    return _marker(Mark(event, "on", options))


def guard(
    event: TransformEvent[V, Any], **options: Unpack[HandlerOptions]
) -> Callable[
    [Callable[[Any, EventContext[V]], Deny | Ask | Awaitable[Deny | Ask | None] | None]],
    Callable[[Any, EventContext[V]], Deny | Ask | Awaitable[Deny | Ask | None] | None],
]:
    """Mark a component's method as a guard; the options are those of `EventBus.on`."""
    return _marker(Mark(event, "guard", options))


def _marker(mark: Mark) -> Callable[[F], F]:
    def remember(function: F) -> F:
        setattr(function, _MARKS, (*getattr(function, _MARKS, ()), mark))
        return function

    return remember


def marked(kind: type) -> Iterator[tuple[str, Mark]]:
    """Give the marks of a class in order of definition; an overriding method keeps its marks."""
    marks: dict[str, tuple[Mark, ...]] = {}
    for owner in reversed(kind.__mro__):
        for name, member in vars(owner).items():
            if found := getattr(member, _MARKS, ()):
                marks[name] = found
    for name, found in marks.items():
        yield from [(name, mark) for mark in found]


def tool_names(kind: type) -> list[str]:
    """Return the names of the methods of a class that are tools."""
    names = dict.fromkeys(name for owner in reversed(kind.__mro__) for name in vars(owner))
    return [name for name in names if isinstance(getattr_static(kind, name), FunctionTool)]

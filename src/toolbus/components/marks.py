"""Marks on the methods of a component: the events they handle, and the tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack, overload

from msgspec import Struct

from toolbus.bus.subscriptions import HandlerOptions, settings_of
from toolbus.events.catalogue import Ask, Deny, Event, ObserveEvent, TransformEvent
from toolbus.tools.definitions import FunctionTool

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.ledger.records import HandlerKind

C = TypeVar("C")
S = TypeVar("S")
V = TypeVar("V")
R = TypeVar("R")
_MARKS = "__toolbus_marks__"
_WRAPPING = (staticmethod, classmethod)


class Mark(Struct, frozen=True):
    """The mark that a method handles *event*, with its options."""

    event: Event
    kind: Literal["on", "guard"]
    options: HandlerOptions


class Marker(Generic[C, R]):
    """A decorator that marks a method from `C` to `R`, and returns it unchanged."""

    __slots__ = ("_mark",)

    def __init__(self, mark: Mark) -> None:
        kind: HandlerKind = "observer" if isinstance(mark.event, ObserveEvent) else "transformer"
        kind = "guard" if mark.kind == "guard" else kind
        settings_of(mark.event, kind, mark.options)
        self._mark = mark

    @overload
    def __call__(
        self, method: Callable[[S, C], Coroutine[Any, Any, R]], /
    ) -> Callable[[S, C], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, method: Callable[[S, C], R], /) -> Callable[[S, C], R]: ...
    def __call__(self, method: Callable[..., Any], /) -> Callable[..., Any]:
        """Mark *method*."""
        function = _unwrapped(method)
        setattr(function, _MARKS, (*getattr(function, _MARKS, ()), self._mark))
        return method


@overload
def on(
    event: TransformEvent[V, R], **options: Unpack[HandlerOptions]
) -> Marker[EventContext[V], R | None]: ...
@overload
def on(
    event: ObserveEvent[V], **options: Unpack[HandlerOptions]
) -> Marker[EventContext[V], None]: ...
def on(event: Any, **options: Unpack[HandlerOptions]) -> Any:
    """Mark a component's method as a handler of *event*; the options are those of `EventBus.on`.

    It fails open, as described at `EventBus.on`. Without *sender* it applies to its agent and its
    sub-agents. Marks can be stacked. Raises `RegistrationError` for options that could never work.

    >>> class Watch(AgentComponent):
    ...     @on(events.TOOL_CALL_AFTER)
    ...     def show(self, ctx):
    ...         print(ctx.value.status)
    """
    return Marker(Mark(event, "on", options))


def guard(
    event: TransformEvent[V, Any], **options: Unpack[HandlerOptions]
) -> Marker[EventContext[V], Deny | Ask | None]:
    """Mark a component's method as a guard; the options are those of `EventBus.on`.

    Its failure denies. Raises `RegistrationError` for options that could never work.

    >>> class Careful(AgentComponent):
    ...     @guard(events.TOOL_CALL_BEFORE, tools="delete")
    ...     def never(self, ctx):
    ...         return Deny("nothing is deleted here")
    """
    return Marker(Mark(event, "guard", options))


def marked(kind: type) -> Iterator[tuple[str, Mark]]:
    """Yield the marks of a class in order of definition.

    An overriding method keeps its marks, or has others; None in its place removes it.
    """
    marks: dict[str, tuple[Mark, ...]] = {}
    for name, attribute in _attributes(kind):
        if attribute is None:
            marks.pop(name, None)
        elif method_marks := getattr(attribute, _MARKS, ()):
            marks[name] = method_marks
    for name, method_marks in marks.items():
        yield from [(name, mark) for mark in method_marks]


def marks_of(method: Any) -> tuple[Mark, ...]:
    """Return the marks of one *method*, bound to its component or not."""
    marks: tuple[Mark, ...] = getattr(_unwrapped(method), _MARKS, ())
    return marks


def tools_of(component: object) -> Iterator[FunctionTool[..., Any]]:
    """Yield the methods of *component* that are tools, in order of definition.

    An overriding method is a tool with the same options; None in its place removes it.
    """
    tools: dict[str, FunctionTool[..., Any]] = {}
    for name, attribute in _attributes(type(component)):
        if attribute is None:
            tools.pop(name, None)
        elif isinstance(attribute, FunctionTool):
            tools[name] = attribute
    for name, tool in tools.items():
        method = getattr(component, name)
        yield method if isinstance(method, FunctionTool) else tool.with_function(method)


def _attributes(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of *kind* and its base classes, the topmost first, unwrapped."""
    for owner in reversed(kind.__mro__):
        for name, attribute in vars(owner).items():
            yield name, attribute.__func__ if isinstance(attribute, _WRAPPING) else attribute


def _unwrapped(attribute: Any) -> Any:
    """Return the function of a static or class method: a mark may be above or below it."""
    return attribute.__func__ if isinstance(attribute, _WRAPPING) else attribute

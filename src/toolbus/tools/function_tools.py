"""A function as a tool: `@tool`."""

from __future__ import annotations

import inspect
from functools import partial, update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from toolbus.errors import RegistrationError
from toolbus.tools.definitions import Tool
from toolbus.tools.functions import documentation, name_of, parameters_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.messages.records import JsonObject

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


class FunctionTool(Tool, Generic[P, R]):
    """A function as a tool; `run` is the function.

    Called by its author's own program, it is the plain function still: no handler and no guard
    sees that call. A tool that calls another one on behalf of a model uses `ToolContext.call`.
    """

    def __init__(self, function: Callable[P, R], **options: Unpack[ToolOptions]) -> None:
        self._options = options
        self.run = function
        # Its name, its docstring and so on, for whoever looks at it as at a function.
        update_wrapper(self, function, updated=())
        self.name = name_of(function)
        for option, value in options.items():
            setattr(self, option, value)
        # A method is described when it is reached through its object, which fills `self`.
        if next(iter(parameters_of(function)), None) != "self":
            self.spec  # noqa: B018 - what is wrong with the function is found here

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as it was written, past no handler; an async one gives a coroutine."""
        return self.run(*args, **kwargs)  # type: ignore[no-any-return]  # a `Tool` runs anything

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> FunctionTool[P, R]: ...
    @overload
    def __get__(
        self: FunctionTool[Concatenate[Any, Q], R], instance: object, owner: type | None = None
    ) -> FunctionTool[Q, R]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any:
        # A `partial`, and an object that can be called, is no method of the class it stands in.
        if instance is None or isinstance(self.run, partial) or not hasattr(self.run, "__get__"):
            return self
        return self.with_function(self.run.__get__(instance, owner))

    def with_function(self, function: Callable[Q, R]) -> FunctionTool[Q, R]:
        """Return a tool of *function* with the same options."""
        return FunctionTool(function, **self._options)

    def with_options(self, options: ToolOptions) -> FunctionTool[P, R]:
        """Return a tool of the same function, with *options* over its own."""
        merged: ToolOptions = {**self._options, **options}
        return FunctionTool(self.run, **merged)

    @property
    def _documentation(self) -> str:
        return documentation(self.run)


class ToolOptions(TypedDict, total=False):
    """What `@tool` takes; see there."""

    name: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject
    annotations: JsonObject
    timeout: float | None
    idempotent: bool
    lenient: bool


@overload
def tool(function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> FunctionTool[P, R]: ...
@overload
def tool(
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Make a tool of a function: a schema from its signature, texts from its docstring.

    The function itself is the tool's `run`, and the tool can be called as the function was, past
    no handler. What `functools.partial` gives is no parameter, and no call can replace it. Raises
    `RegistrationError` if a parameter has no type hint.

    Args:
        function: a function, a bound method, a `functools.partial` or an object that can be
            called; sync (it will run in a thread) or async; a tool, to have it with other options.
        options: *name*, *description*, *input_schema*, *output_schema*, *annotations* in place
            of what the function says; *timeout* in seconds; *idempotent* allows `Retry`; without
            *lenient* an argument "3" is invalid where only an integer fits.

    >>> tool(greet, name="welcome", timeout=5.0).spec.name
    'welcome'
    """
    if unknown := options.keys() - ToolOptions.__annotations__.keys():
        raise RegistrationError("@tool", f"unknown options: {', '.join(sorted(unknown))}")
    if function is None:
        return lambda function: tool(function, **options)
    if inspect.isclass(function):
        reason = f"it is a class; give an instance, `{function.__name__}(…)`"
        raise RegistrationError(f"tool {function.__name__!r}", reason)
    if isinstance(function, FunctionTool):
        made: FunctionTool[..., Any] = function.with_options(options)
        return made
    if not callable(function):
        raise RegistrationError(f"tool {function!r}", "expected a function")
    return FunctionTool(function, **options)

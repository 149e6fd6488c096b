"""What a tool can be made of: functions, methods, partial ones, and objects that can be called."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from toolbus.errors import RegistrationError

if TYPE_CHECKING:
    from collections.abc import Callable


def routine(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function or method that runs when *function* is called, below any `partial`."""
    while isinstance(function, partial):
        function = function.func
    # A wrapper (of `functools.wraps`, `lru_cache`, `@tool`) shows what it wraps by itself.
    if inspect.isroutine(function) or hasattr(function, "__wrapped__"):
        return function
    method: Callable[..., Any] = function.__call__  # type: ignore[operator]  # an object's own
    return method


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of *function*; an object is called as its class."""
    below = routine(function)
    for named in (function, below):
        name = getattr(named, "__name__", "__call__")
        if name != "__call__":
            return str(name)
    return type(getattr(below, "__self__", function)).__name__


def what(function: Callable[..., Any]) -> str:
    """Return how errors call the tool that is made of *function*."""
    return f"tool {getattr(function, '__qualname__', None) or name_of(function)!r}"


def documentation(function: Callable[..., Any]) -> str:
    """Return the docstring of *function*, or of the class of an object whose call has none."""
    # That of a `partial` tells of `partial`, unless somebody gave it one.
    text = vars(function).get("__doc__") if isinstance(function, partial) else None
    below = routine(function)
    if text is None and getattr(below, "__name__", "") == "__call__":
        text = below.__doc__ or type(getattr(below, "__self__", None)).__doc__
        return inspect.cleandoc(text or "")
    return inspect.cleandoc(text) if text else inspect.getdoc(below) or ""


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return what a call of *function* may give; raises `RegistrationError` if nobody can tell.

    What a `partial` gives is not among it: it stands, whatever a model says.
    """
    try:
        parameters, bound = inspect.signature(function).parameters, fixed(function)
    except ValueError as error:
        raise RegistrationError(what(function), str(error)) from None
    return {name: parameter for name, parameter in parameters.items() if name not in bound}


def fixed(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of the arguments that a `partial`, anywhere in *function*, gives."""
    names: set[str] = set()
    while function is not None:
        if isinstance(function, partial):
            parameters = inspect.signature(function.func).parameters
            names.update(function.keywords, list(parameters)[: len(function.args)])
            function = function.func
        else:
            function = getattr(function, "__wrapped__", None)  # type: ignore[assignment]
    return frozenset(names)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the type hints of *function*; raises `RegistrationError` if they cannot be read."""
    # A wrapper shows the signature of what it wraps, which was perhaps defined elsewhere.
    try:
        return get_type_hints(routine(inspect.unwrap(routine(function))), include_extras=True)
    except (NameError, SyntaxError, TypeError) as error:
        reason = f"its type hints cannot be read: {error}"
        raise RegistrationError(what(function), reason) from None


def injected(function: Callable[..., Any], context: type) -> tuple[str, ...]:
    """Return the parameters of *function* whose hint is *context*, `context[…]` or a union of it.

    What has no such parameter by name cannot be given it.
    """
    hints, parameters = hints_of(function), parameters_of(function)
    return tuple(
        [
            name
            for name, hint in hints.items()
            if name in parameters and any(_is(kind, context) for kind in (hint, *get_args(hint)))
        ]
    )


def _is(hint: Any, context: type) -> bool:
    """Tell whether *hint* is *context*, with type arguments or without."""
    return hint is context or get_origin(hint) is context

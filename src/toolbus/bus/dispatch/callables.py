"""Facts about callables, without a call: name, place, signature, async or not."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Composite:
    """A handler that only runs parts; each reports its work by `EventContext.step`."""

    __slots__ = ()


def is_async(handler: Callable[..., Any]) -> bool:
    """Return whether *handler* returns a coroutine; partials and callable objects are unwrapped."""
    return any(map(inspect.iscoroutinefunction, (handler, _function_of(handler))))


def name_of(handler: Any) -> str:
    """Return the readable name of *handler*: a function's, `Owner.method`, an object's class."""
    handler = _unwrapped(handler)
    if inspect.ismethod(handler):
        owner = handler.__self__
        owner = owner if inspect.isclass(owner) else type(owner)
        return f"{owner.__name__}.{handler.__name__}"
    named = inspect.isroutine(handler) or inspect.isclass(handler)
    return handler.__name__ if named else type(handler).__name__


def is_generator(handler: Callable[..., Any]) -> bool:
    """Return whether *handler* returns a generator."""
    function = _function_of(handler)
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def is_local(handler: Callable[..., Any]) -> bool:
    """Return whether *handler* is a lambda, or defined inside a function."""
    return inspect.isfunction(handler) and (
        handler.__name__ == "<lambda>" or "<locals>" in handler.__qualname__
    )


def takes(function: Callable[..., Any], count: int) -> bool:
    """Return whether *function* can be called with *count* arguments."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        return True  # A builtin without a signature may well accept them.
    return True


def _unwrapped(handler: Any) -> Any:
    while isinstance(handler, partial):
        handler = handler.func
    return handler


def _function_of(handler: Any) -> Any:
    """Return the function behind a partial or an object with `__call__`."""
    handler = _unwrapped(handler)
    return handler if inspect.isroutine(handler) else type(handler).__call__


def place_of(handler: Any) -> str:
    """Return file and line of the handler's definition, or "" if it is not in Python."""
    code = getattr(inspect.unwrap(_function_of(handler)), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"

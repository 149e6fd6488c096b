"""Which handlers may keep their context: told beforehand, by reading their code.

The handlers of a dispatch share one context until one of them changes something or keeps it, since
nobody may write into a later turn. A reference count tells that somebody kept it, but to ask for it
costs half as much as a call. So a handler that does no more with its context than to read and
assign what is public in it, as most do, is known to keep nothing, and is never asked about.
"""

from __future__ import annotations

import dis
import inspect
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from toolbus.dispatch.contexts import EventContext

if TYPE_CHECKING:
    from collections.abc import Callable

# Not its methods: who keeps a bound method keeps the context.
_PUBLIC = {name for name, kind in vars(EventContext).items() if isinstance(kind, property)}
_ATTRIBUTES = {"LOAD_ATTR", "STORE_ATTR"}
_VARIABLES = {*dis.haslocal, *dis.hasfree}
# What gives all variables of a function, whatever their names.
_REVEALING = {"locals", "vars", "eval", "exec", "dir", "_getframe", "currentframe", "stack"}


def may_keep(handler: Callable[..., Any]) -> bool:
    """Tell whether *handler* may hold on to its context; what cannot be read may."""
    function = handler.__func__ if inspect.ismethod(handler) else handler
    if not isinstance(function, FunctionType):
        return True
    return _may_keep(function.__code__, int(inspect.ismethod(handler)))


@lru_cache(maxsize=4096)
def _may_keep(code: CodeType, place: int) -> bool:
    """Tell whether *code* may hold on to its argument number *place*."""
    if place >= code.co_argcount or not _REVEALING.isdisjoint(code.co_names):
        return True
    name = code.co_varnames[place]
    return not all(
        _is_harmless(name, step, after)
        for step, after in pairwise(dis.get_instructions(code))
        if step.opcode in _VARIABLES and name in _names(step)
    )


def _is_harmless(name: str, step: dis.Instruction, after: dis.Instruction) -> bool:
    """Tell whether *step* loads the variable *name* only to use a public attribute of it."""
    *others, last = _names(step)
    loads = "LOAD_FAST" in step.opname and "CLEAR" not in step.opname
    reached = after.opname in _ATTRIBUTES and after.argval in _PUBLIC
    return loads and last == name and name not in others and reached


def _names(step: dis.Instruction) -> tuple[Any, ...]:
    # Since CPython 3.13 one instruction may be about two variables.
    return step.argval if isinstance(step.argval, tuple) else (step.argval,)

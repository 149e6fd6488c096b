"""Weak references to handlers: one goes with its owner, or with who holds its subscription."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext

Handler: TypeAlias = Callable[..., Any]


class Held:
    """A handler and its predicate, for as long as somebody holds this; the bus does not."""

    __slots__ = ("__weakref__", "handler", "when")

    def __init__(self, handler: Handler, when: Handler | None) -> None:
        self.handler, self.when = handler, when


def reference(handler: Any, on_end: Callable[[], object]) -> weakref.ref[Any]:
    """Return a weak reference to *handler*; *on_end* is called when it is dead."""
    kind = weakref.WeakMethod if inspect.ismethod(handler) else weakref.ref
    return kind(handler, lambda _: on_end())


def can_be_weak(handler: Any) -> bool:
    """Tell whether there are weak references to *handler*."""
    try:
        reference(handler, lambda: None)
    except TypeError:
        return False
    return True


def calling(target: weakref.ref[Any], *, is_async: bool) -> Handler:
    """Return what calls *target*, a handler or a `Held` one, if it lives; else it gives None."""
    return partial(_call_weak, target, _nothing if is_async else _none)


def asking(target: weakref.ref[Any], when: Handler | None) -> Handler | None:
    """Return the predicate of *target*; that of a `Held` one says no once it is dead."""
    is_held = when is not None and type(target()) is Held
    return partial(_ask_weak, target) if is_held else when


def _call_weak(
    target: weakref.ref[Any], otherwise: Callable[[], Any], context: EventContext[Any]
) -> Any:
    handler = target()
    if type(handler) is Held:
        handler = handler.handler
    return otherwise() if handler is None else handler(context)


def _none() -> None:
    pass


async def _nothing() -> None:
    """Do nothing; an async handler is awaited, also a dead one."""


def _ask_weak(target: weakref.ref[Held], context: EventContext[Any]) -> Any:
    held = target()
    return held is not None and (held.when is None or held.when(context))

"""How to subscribe, and what can be wrong with it: that is found before a handler ever runs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args

from msgspec import Struct

from toolbus.bus.dispatch.callables import is_async, is_generator, is_local, takes
from toolbus.bus.dispatch.contexts import EventContext
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    ObserveEvent,
    Scope,
    check_event,
)
from toolbus.events.subjects import Role, RoleSelector, ToolSelector, has_messages, has_tools

if TYPE_CHECKING:
    from toolbus.bus.ledger.records import HandlerKind
    from toolbus.events.catalogue import Event

Policy = Literal["open", "closed", "raise"]
Choice: TypeAlias = Collection[str] | str | None
Predicate: TypeAlias = Callable[[EventContext[Any]], bool]


class Speaker(Protocol):
    """Anything that speaks under a scope of its own, an agent above all."""

    @property
    def scope(self) -> Scope:
        """Who it is."""


class SubscriptionOptions(Struct, frozen=True, kw_only=True):
    """How to subscribe; see `EventBus.on`."""

    priority: int = 100
    when: Predicate | None = None
    tools: Collection[str] | str | None = None
    roles: Collection[Role] | Role | None = None
    sender: Speaker | str | None = None
    on_error: Policy | None = None
    timeout: float | None = None
    thread: bool = False
    once: bool = False
    weak: bool = False
    incremental: bool = False
    name: str | None = None


def check_options(event: Event, kind: HandlerKind, options: SubscriptionOptions) -> None:
    """Raise `RegistrationError` for what could never work, whatever the handler is."""
    check_event(event)
    for problem in _problems(event, kind, options):
        raise RegistrationError(f"handler of {event.name!r}", problem)


def check_handler(event: Event, handler: Callable[..., Any], options: SubscriptionOptions) -> None:
    """Raise `RegistrationError` for a handler that could never work."""
    for problem in _handler_problems(handler, options):
        raise RegistrationError(f"handler {handler!r} of {event.name!r}", problem)


def sender_id(sender: Any) -> Any:
    """Return the agent's id of *sender*, or what it is instead of an agent or an id."""
    if sender is None or isinstance(sender, str):
        return sender
    scope = getattr(sender, "scope", None)
    return scope.agent_id if isinstance(scope, Scope) else sender


def _problems(event: Event, kind: HandlerKind, options: SubscriptionOptions) -> Iterator[str]:
    observed, seconds = isinstance(event, ObserveEvent), options.timeout
    if kind == "guard" and observed:
        yield "a guard judges, and this event is only observed; use `on`"
    if not isinstance(options.priority, int) or isinstance(options.priority, bool):
        yield f"priority must be an integer, not {options.priority!r}"
    if options.on_error not in (None, *get_args(Policy)):
        yield f"on_error must be one of open, closed, raise, not {options.on_error!r}"
    if observed and options.on_error not in (None, "open"):
        yield "an observer cannot deny or raise; leave out on_error"
    if options.incremental and event is not MESSAGE_APPEND_BEFORE:
        yield "only answers grow, at MESSAGE_APPEND_BEFORE; leave out incremental=True"
    if options.incremental and options.once:
        yield "what judges an answer while it grows runs more than once; leave out once=True"
    if seconds is not None and not _is_positive(seconds):
        yield f"timeout must be a positive number of seconds, not {seconds!r}"
    yield from _problems_of_choice(options)
    yield from _problems_of_selection(event, options.tools, options.roles)


def _is_positive(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 < number < inf


def _problems_of_choice(options: SubscriptionOptions) -> Iterator[str]:
    """Give what is wrong with the choice of dispatches, by sender and predicate."""
    sender, when = sender_id(options.sender), options.when
    if sender is not None and not isinstance(sender, str):
        yield f"sender must be an agent or an agent's id, not {options.sender!r}"
    if sender == "":
        yield "sender has no id, so it cannot be told from others"
    if when is not None and not takes(when, 1):
        yield "when must take one argument, the context"
    elif when is not None and is_async(when):
        yield "when must be sync"


def _handler_problems(handler: Callable[..., Any], options: SubscriptionOptions) -> Iterator[str]:
    if not callable(handler):
        yield "a handler must be callable, with one argument, the context"
        return
    if not takes(handler, 1):
        yield "a handler must take one argument, the context"
    if is_generator(handler):
        yield "a generator gives no single answer; return one"
    if is_async(handler):
        if options.thread:
            yield "an async handler needs no thread; leave out thread=True"
    elif options.timeout is not None and not options.thread:
        yield "a sync handler cannot be timed out; add thread=True"
    if options.weak and not _can_be_weak(handler):
        yield "it cannot be held weakly; leave out weak=True"
    if options.weak and is_local(handler):
        reason = "nobody else holds a lambda or a function inside a function for long"
        yield f"{reason}; leave out weak=True, or give a method of an object that lives on"


def _can_be_weak(handler: Callable[..., Any]) -> bool:
    try:
        weakref.ref(getattr(handler, "__self__", handler))
    except TypeError:
        return False
    return True


def _problems_of_selection(event: Event, tools: Choice, roles: Choice) -> Iterator[str]:
    """Give what is wrong with *tools* and *roles* for handlers of *event*."""
    if tools is not None:
        # An iterator would be used up by this look at it.
        if not isinstance(tools, str | Collection) or isinstance(tools, bytes):
            yield f"tools must be names or glob patterns, in a list, not {tools!r}"
        elif problem := ToolSelector(tools).problem:
            yield problem
        elif not has_tools(event):
            yield "its values name no tool, so it has nothing to do with tools=; use when="
    if roles is not None:
        if not isinstance(roles, str | Collection) or isinstance(roles, bytes):
            yield f"roles must be roles of messages, in a list, not {roles!r}"
        elif problem := RoleSelector(roles).problem:
            yield problem
        elif not has_messages(event):
            yield "its values are no messages, so it has nothing to do with roles=; use when="


def as_tuple(choice: Choice) -> tuple[str, ...]:
    """Return what *choice* holds, nothing for None."""
    if choice is None:
        return ()
    return (choice,) if isinstance(choice, str) else tuple(choice)


def selections(
    tools: tuple[str, ...], roles: tuple[str, ...]
) -> Iterator[Callable[[object], bool]]:
    """Give what decides for a value whether its tool and its role are among these, if any are."""
    if roles:
        yield RoleSelector(roles).selects
    if tools:
        yield ToolSelector(tools).selects

"""Which values a handler is for, by their tool and their role: `tools=` and `roles=`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, TypeAlias

from toolbus.events.subjects import RoleSelector, ToolSelector, has_messages, has_tools

if TYPE_CHECKING:
    from toolbus.events.kinds import Event

Choice: TypeAlias = Collection[str] | str | None


def problems_of_selection(event: Event, tools: Choice, roles: Choice) -> Iterator[str]:
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

"""Limits of a component: the tools it applies to, and one priority for its handlers."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.errors import RegistrationError
from toolbus.events.subjects import tool_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.components.marks import Mark


class Limits(NamedTuple):
    """The tools that a component applies to, as glob patterns, and its handlers' *priority*."""

    tools: tuple[str, ...] = ("*",)
    priority: int | None = None

    @property
    def gate(self) -> Callable[[EventContext[Any]], bool] | None:
        """What decides whether a handler may see a context, None if it may see all."""
        return None if self.tools == ("*",) else self.allow

    def covers(self, tool_name: str) -> bool:
        """Tell whether the tool *tool_name* is one of *tools*."""
        return any(fnmatchcase(tool_name, pattern) for pattern in self.tools)

    def allow(self, ctx: EventContext[Any]) -> bool:
        """Tell whether a handler may see *ctx*: its value belongs to one of *tools*, or to none."""
        name = tool_of(ctx.value)
        return name is None or self.covers(name)

    def ordered(self, marks: Iterable[tuple[str, Mark]]) -> Iterable[tuple[str, Mark]]:
        """Return *marks* in the order of their own priorities, if one priority is given to all."""
        if self.priority is None:
            return marks
        return sorted(marks, key=lambda one: -one[1].options.get("priority", 100))


NO_LIMITS = Limits()


def make_limits(what: str, tools: Iterable[str] | str, priority: int | None) -> Limits:
    """Return limits for *what*; raises `RegistrationError` for those that make no sense."""
    patterns = (tools,) if isinstance(tools, str) else tuple(tools)
    if not patterns or not all(isinstance(one, str) and one for one in patterns):
        raise RegistrationError(what, f"tools must be names or glob patterns, not {patterns!r}")
    if priority is not None and type(priority) is not int:
        raise RegistrationError(what, f"priority must be an integer, not {priority!r}")
    return Limits(patterns, priority)

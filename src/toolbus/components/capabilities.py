"""Interfaces of components that can do something for several wings; most components cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.messages.records import ToolCall

R = TypeVar("R")


@runtime_checkable
class CallAllower(Protocol):
    """A component with rules by which its person allowed calls beforehand."""

    async def allows(self, ctx: EventContext[ToolCall]) -> bool:
        """Return whether a host that asks about every call need not ask about that of *ctx*."""
        ...


@runtime_checkable
class PromptSkipper(Protocol):
    """A component with rules by which allowed calls run without the host's own prompt."""

    async def skips_prompt(self, call: ToolCall, tool: ToolSpec | None, scope: Scope) -> bool:
        """Return whether *call* may run without the host's own prompt.

        Asked of calls that no handler denied, asked about or changed.
        """
        ...


@runtime_checkable
class Concealer(Protocol):
    """A component that takes values out of records that a person reads, as secrets out of a log."""

    async def concealed(self, record: R, scope: Scope) -> R | None:
        """Return *record*, a message, call or text, without these values.

        None if the record cannot be examined: then nothing of it may be shown.
        """
        ...

"""Interfaces by which a component spares its person a question about a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.messages.records import ToolCall


@runtime_checkable
class CallAllower(Protocol):
    """A component that knows which calls its person has allowed beforehand, by a rule."""

    async def allows(self, ctx: EventContext[ToolCall]) -> bool:
        """Return whether a host that asks about every call need not ask about that of *ctx*."""
        ...


@runtime_checkable
class PromptSkipper(Protocol):
    """A component that knows which allowed calls its person wants to run without a prompt."""

    async def skips_prompt(self, call: ToolCall, tool: ToolSpec | None, scope: Scope) -> bool:
        """Return whether *call* may run without the host's own prompt.

        Asked of calls that no handler denied, asked about or changed.
        """
        ...

"""Optional interfaces of components, for use by several wings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.messages.records import ToolCall

R = TypeVar("R")


@runtime_checkable
class CallAllower(Protocol):
    """A component with rules by which a person allowed calls in advance."""

    async def allows(self, ctx: EventContext[ToolCall]) -> bool:
        """Return whether a host may skip its usual question about the call of *ctx*."""
        ...


@runtime_checkable
class PromptSkipper(Protocol):
    """A component with rules by which allowed calls run without the host's own prompt."""

    async def skips_prompt(self, call: ToolCall, tool: ToolSpec | None, scope: Scope) -> bool:
        """Return whether *call* may run without the host's own prompt.

        Called only if no handler denied, asked about or changed the call.
        """
        ...


@runtime_checkable
class DisplayRedactor(Protocol):
    """A redactor of records for a person, such as secrets in a log."""

    async def for_display(self, record: R, scope: Scope) -> R | None:
        """Return *record*, a message, call or text, redacted.

        None if the record cannot be examined: then no part of it may be shown.
        """
        ...

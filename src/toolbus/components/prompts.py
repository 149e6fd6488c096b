"""The interface by which a component spares its person a permission prompt of a coding agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.messages.records import ToolCall


@runtime_checkable
class PromptSkipper(Protocol):
    """A component that knows which allowed calls its person wants to run without a prompt."""

    async def skips_prompt(self, call: ToolCall, tool: ToolSpec | None, scope: Scope) -> bool:
        """Return whether *call* may run without the host's own prompt.

        Asked of calls that no handler denied, asked about or changed.
        """
        ...

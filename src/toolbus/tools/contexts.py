"""What a tool may know of its call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.messages.immutable import EMPTY

if TYPE_CHECKING:
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import JsonObject, ToolResponse

Progress: TypeAlias = Callable[[str, str, float | None], None]
"""Takes the call's id, a text for people, and the finished part between 0 and 1, if known."""


class ToolContext:
    """What a tool may know of its call; the runner fills the parameter annotated with it."""

    __slots__ = ("_call", "_progress", "approvals", "call_id", "scope")

    def __init__(
        self,
        scope: Scope,
        call_id: str,
        call: Callable[[str, Mapping[str, Any]], Awaitable[ToolResponse]],
        progress: Progress,
        approvals: Any = None,
    ) -> None:
        # Who is asked about what runs below the tool, if that has nobody to ask.
        self.approvals = approvals
        self.scope, self.call_id, self._call, self._progress = scope, call_id, call, progress

    def progress(self, text: str, part: float | None = None) -> None:
        """Tell whoever watches how far the tool is; *part* is between 0 and 1."""
        self._progress(self.call_id, text, part)

    async def call(self, name: str, arguments: JsonObject = EMPTY) -> ToolResponse:
        """Call another tool through the same handlers and guards; return its response.

        Adapters and guards see its result as they see any; no message is appended for it, since
        no model asked. Only an async tool can wait for it.
        """
        return await self._call(name, arguments)

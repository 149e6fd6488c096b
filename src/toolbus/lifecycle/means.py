"""What all calls of one runner share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.lifecycle.offers import ArgumentsCheck

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.bus import EventBus
    from toolbus.events import Scope
    from toolbus.lifecycle.approvals import Approvals
    from toolbus.messages import JsonObject, ToolResponse
    from toolbus.tools import Progress, Toolset


class Means:
    """The bus, the tools and all else that the calls of one runner share."""

    def __init__(
        self,
        bus: EventBus,
        toolset: Toolset,
        scope: Scope,
        approvals: Approvals,
        *,
        max_attempts: int,
        progress: Progress,
        nested: Callable[[str, JsonObject], Awaitable[ToolResponse]],
        clock: Callable[[], int],
    ) -> None:
        self.bus, self.toolset, self.scope, self.approvals = bus, toolset, scope, approvals
        self.max_attempts, self.progress, self.nested = max_attempts, progress, nested
        self.check, self.clock = ArgumentsCheck(toolset), clock

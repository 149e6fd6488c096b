"""What all calls of one runner share."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from toolbus.tools.calls.advertised import ArgumentsCheck
from toolbus.tools.contexts import NO_DEPS, ToolContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.bus import EventBus
    from toolbus.events.catalogue import Scope
    from toolbus.messages.records import JsonObject, ToolCall, ToolResponse
    from toolbus.tools.calls.gate import CallGate
    from toolbus.tools.contexts import Progress
    from toolbus.tools.toolset import Toolset

logger = logging.getLogger("toolbus")


def log_progress(call_id: str, text: str, part: float | None) -> None:
    """Tell of the progress of a call where nobody else does."""
    logger.debug("tool call %s: %s (%s)", call_id, text, part)


class CallEnvironment:
    """The bus, the tools and all else that the calls of one runner share.

    A runner is one. Two objects that hold each other would be garbage for the collector to find,
    and some programs make a runner for each call.
    """

    def __init__(
        self,
        bus: EventBus,
        toolset: Toolset,
        scope: Scope,
        gate: CallGate | None,
        *,
        max_attempts: int,
        progress: Progress,
        clock: Callable[[], int],
        deps: Any = NO_DEPS,
    ) -> None:
        self.bus, self.toolset, self.scope, self.gate = bus, toolset, scope, gate
        self.max_attempts, self.progress, self.deps = max_attempts, _guarded(progress), deps
        self.check, self.clock = ArgumentsCheck(toolset), clock

    def context_of(self, call: ToolCall, *, continued: bool = False) -> ToolContext:
        """Return what the tool of *call* may know of it; *continued*: it began before."""
        return ToolContext(
            self.scope,
            call.id,
            self.nested,
            self.progress,
            self.gate,
            deps=self.deps,
            bus=self.bus,
            continued=continued,
        )

    async def nested(self, name: str, arguments: JsonObject) -> ToolResponse:
        """Run a call for a tool."""
        raise NotImplementedError


def _guarded(progress: Progress) -> Progress:
    """Return *progress* as one whose failure does not reach the tool."""

    def report(call_id: str, text: str, part: float | None) -> None:
        try:
            progress(call_id, text, part)
        except Exception:
            logger.exception("the progress of tool call %s could not be told", call_id)

    return report

"""What happens when a tool has failed: what handlers are told, and whether it may run again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from toolbus.events.catalogue import ToolCallFailure

if TYPE_CHECKING:
    from toolbus.events.catalogue import ToolCallOutcome
    from toolbus.tools.definitions import Tool

logger = logging.getLogger("toolbus")


def failure_of(outcome: ToolCallOutcome) -> ToolCallFailure:
    """Return the failure that *outcome* tells of."""
    return ToolCallFailure(
        call=outcome.executed or outcome.requested,
        response=outcome.response,
        error_type=outcome.response.error_type or "error",
        error_text=outcome.response.text,
        attempts=outcome.attempts,
    )


def may_retry(tool: Tool, attempts: int, max_attempts: int) -> bool:
    """Tell whether *tool* may run again; why not is logged."""
    reason = f"{attempts} attempts were made"
    if not tool.idempotent:
        reason = "it is not marked idempotent"
    elif attempts < max_attempts:
        return True
    logger.warning("no retry of tool %r: %s", tool.spec.name, reason)
    return False

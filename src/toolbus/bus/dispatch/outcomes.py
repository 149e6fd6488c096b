"""How a dispatch ended, as the ledger says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.bus.dispatch.details import NO_DETAILS

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.ledger.records import Outcome


def outcome_of(
    context: EventContext[Any], differs: Callable[[object], bool]
) -> tuple[Outcome, str | None]:
    """Return how the dispatch that left *context* ended, and why; *differs* judges the value."""
    more = context._more or NO_DETAILS
    if more.rejected is not None:
        return "rejected", more.rejected.reason
    if more.denied is not None:
        return "denied", more.denied.reason
    if more.asks:
        return "asked", "\n".join(more.asks)
    if more.answer is not None:
        return "answered", None
    return ("changed" if differs(context._value) else "unchanged"), None

"""Which priority a handler has that stands behind those of other components."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolbus.events.catalogue import Event

_BEHIND_ALL = -1_000_000, 100_000
"""From where on such handlers have their priorities, and how far they go from there."""
_BEHIND = -500, 400
"""Below 0 and above -1,000: what comes last on purpose still does, as a redaction of the copy."""


def rank_behind(event: Event, kind: str, priority: int) -> int:
    """Return the priority of a handler of *kind* that asked for *priority*, behind all others.

    Nothing comes after guards, and who answers an event ends it for all that come later: there
    it is behind whatever others have.
    """
    is_last = kind == "guard" or bool(getattr(event, "answer", ()))
    start, reach = _BEHIND_ALL if is_last else _BEHIND
    return start + max(-reach, min(priority, reach))

"""Labels: where each text of a session came from, and what calls carry of it."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.flow.flow_guard import FlowGuard as FlowGuard

__getattr__, __dir__ = lazy_exports(__name__, {"FlowGuard": "flow_guard"})

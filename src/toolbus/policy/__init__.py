"""A policy: rules that allow, ask about or deny tool calls, and say why; and pinned tools."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.policy.pins.pin_tools import PinTools as PinTools
    from toolbus.policy.policy import Policy as Policy

__getattr__, __dir__ = lazy_exports(__name__, {"PinTools": "pins.pin_tools", "Policy": "policy"})

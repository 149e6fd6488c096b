"""The bridge to Strands: components as hooks of an agent."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.bridges.strands.hook_provider import StrandsBridge as StrandsBridge

__getattr__, __dir__ = lazy_exports(__name__, {"StrandsBridge": "hook_provider"})

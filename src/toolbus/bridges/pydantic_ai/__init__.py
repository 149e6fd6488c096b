"""The bridge to Pydantic AI: components as a capability of its agents."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.bridges.pydantic_ai.capability import PydanticAIBridge as PydanticAIBridge

__getattr__, __dir__ = lazy_exports(__name__, {"PydanticAIBridge": "capability"})

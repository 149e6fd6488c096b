"""The bridge to Pydantic AI: components as a capability of its agents."""

from toolbus.bridges.pydantic_ai.capability import PydanticAIBridge

__all__ = ["PydanticAIBridge"]

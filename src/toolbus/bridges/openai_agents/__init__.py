"""The bridge to the OpenAI Agents SDK: components in wrapped agents."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.bridges.openai_agents.runner import OpenAIAgentsBridge as OpenAIAgentsBridge

__getattr__, __dir__ = lazy_exports(__name__, {"OpenAIAgentsBridge": "runner"})

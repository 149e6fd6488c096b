"""The bridge to LangChain and LangGraph: components as a middleware of an agent."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.bridges.langchain.bridge import LangChainBridge as LangChainBridge

__getattr__, __dir__ = lazy_exports(__name__, {"LangChainBridge": "bridge"})

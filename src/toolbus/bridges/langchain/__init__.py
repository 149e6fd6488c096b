"""The bridge into LangChain and LangGraph."""

from toolbus.bridges.langchain.bridge import LangChainBridge as LangChainBridge

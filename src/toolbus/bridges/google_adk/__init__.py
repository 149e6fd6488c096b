"""The bridge to Google ADK: components as a plugin of its `Runner`."""

from toolbus.bridges.google_adk.plugin import GoogleADKBridge

__all__ = ["GoogleADKBridge"]

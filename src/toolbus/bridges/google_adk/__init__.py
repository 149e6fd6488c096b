"""The bridge to Google ADK: components as a plugin of its `Runner`."""

from typing import TYPE_CHECKING

from toolbus.settings.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolbus.bridges.google_adk.plugin import GoogleADKBridge as GoogleADKBridge

__getattr__, __dir__ = lazy_exports(__name__, {"GoogleADKBridge": "plugin"})

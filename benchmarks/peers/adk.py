"""Plugins and the function flow by Google's Agent Development Kit."""

from __future__ import annotations

from benchmarks.handlers import functions
from benchmarks.harness import Contender


def observe_async(count: int) -> Contender:
    """Build a callback that runs through all plugins."""
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.plugins.plugin_manager import PluginManager

    source = "async def handler(self, *, user_message, invocation_context): pass"
    plugins = [
        type("Plugin", (BasePlugin,), {"on_user_message_callback": handler})(name=f"plugin-{at}")
        for at, handler in enumerate(functions(count, source))
    ]
    names = {"run": PluginManager(plugins=plugins).run_on_user_message_callback}
    statement = "await run(user_message=None, invocation_context=None)"
    lacks = "a failure stops the rest; the first answer ends it; no priorities"
    return Contender("google-adk", statement, names, lacks, count)

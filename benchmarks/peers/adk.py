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


def tool_call() -> Contender:
    """Build the function flow of an agent's turn."""
    from google.adk.agents import LlmAgent
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.flows.llm_flows.functions import handle_function_call_list_async
    from google.adk.sessions import InMemorySessionService, Session
    from google.adk.tools import FunctionTool
    from google.genai import types

    async def noop(value: int) -> str:
        """Do nothing."""
        return "done"

    tool = FunctionTool(noop)
    context = InvocationContext(
        invocation_id="i-1",
        agent=LlmAgent(name="bench", model="none", tools=[tool]),
        session=Session(id="s-1", app_name="bench", user_id="u-1"),
        session_service=InMemorySessionService(),
    )
    names = {
        "flow": handle_function_call_list_async,
        "context": context,
        "calls": [types.FunctionCall(id="c-1", name="noop", args={"value": 1})],
        "tools": {"noop": tool},
    }
    lacks = "no transcript, no ledger; a failing plugin ends the call; its spans were switched off"
    return Contender("adk function flow", "await flow(context, calls, tools)", names, lacks)

"""The function tool of OpenAI's Agents SDK."""

from __future__ import annotations

from typing import Any

from benchmarks.harness import Contender

LACKS = "no transcript, no ledger, no hooks, no task, no check of the call; the tool's part alone"


def tool_call() -> Contender:
    """Build `invoke_function_tool`, which keeps the tool's timeout."""
    from agents.tool import invoke_function_tool

    tool, context = _noop()
    names = {"invoke": invoke_function_tool, "tool": tool, "context": context}
    statement = "await invoke(function_tool=tool, context=context, arguments='{\"value\": 1}')"
    return Contender("openai-agents", statement, names, LACKS)


def tool_call__on_invoke_tool() -> Contender:
    """Build the tool's own `on_invoke_tool`."""
    tool, context = _noop()
    names = {"invoke": tool.on_invoke_tool, "context": context}
    statement = "await invoke(context, '{\"value\": 1}')"
    return Contender("openai-agents on_invoke_tool", statement, names, LACKS)


def _noop() -> tuple[Any, Any]:
    from agents import function_tool
    from agents.tool_context import ToolContext

    @function_tool
    async def noop(value: int) -> str:
        """Do nothing."""
        return "done"

    context = ToolContext(None, tool_name="noop", tool_call_id="c-1", tool_arguments='{"value": 1}')
    return noop, context

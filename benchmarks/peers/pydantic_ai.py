"""The tool manager of Pydantic AI."""

from __future__ import annotations

from benchmarks.harness import Contender


def tool_call() -> Contender:
    """Build `manager.handle_call` of a step that has begun."""
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tool_manager import ToolManager
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai.usage import RunUsage

    toolset = FunctionToolset()

    @toolset.tool_plain
    async def noop(value: int) -> str:
        """Do nothing."""
        return "done"

    context = RunContext(deps=None, model=TestModel(), usage=RunUsage(), run_step=1)
    names = {
        "manager": ToolManager(toolset),
        "context": context,
        "part": ToolCallPart("noop", {"value": 1}, "c-1"),
    }
    lacks = "no transcript, no ledger, no hooks in this call, no task of its own; an error ends it"
    statement = "await (await manager.for_run_step(context)).handle_call(part)"
    return Contender("pydantic-ai", statement, names, lacks)

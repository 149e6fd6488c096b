"""The tool node of LangGraph."""

from __future__ import annotations

from benchmarks.harness import Contender


def tool_call() -> Contender:
    """Build `node.ainvoke`, outside a graph."""
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool
    from langgraph.prebuilt import ToolNode
    from langgraph.runtime import Runtime

    @tool
    async def noop(value: int) -> str:
        """Do nothing."""
        return "done"

    call = {"name": "noop", "args": {"value": 1}, "id": "c-1"}
    names = {
        "invoke": ToolNode([noop]).ainvoke,
        "state": {"messages": [AIMessage("", tool_calls=[call])]},
        # What a graph puts there when it runs the node.
        "config": {"configurable": {"__pregel_runtime": Runtime()}},
    }
    lacks = "no transcript, no ledger, no hooks in this call"
    return Contender("langgraph tool node", "await invoke(state, config)", names, lacks)

"""Middleware and in-process tool calls by FastMCP."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.handlers import functions
from benchmarks.harness import Contender

_HANDLER = """
async def handler(self, context, call_next):
    await call_next(context)
    return ToolResult(content=[content])
"""
LACKS = "a failure ends the call; no priorities; no check of what is returned"


def transform(count: int) -> Contender:
    """Build what a server does with its middlewares on each call, around a finished result."""
    from fastmcp import FastMCP

    middlewares, context, finished = _chain(count)
    server = FastMCP("bench")
    for middleware in middlewares:
        server.add_middleware(middleware)
    # Inside the server's public `call_tool`, which finds and runs a tool as well.
    names = {"run": server._run_middleware, "context": context, "finished": finished}  # noqa: SLF001 - as said
    return Contender("fastmcp", "await run(context, finished)", names, LACKS, count)


def transform__composed_once(count: int) -> Contender:
    """Build the same middlewares, composed before the clock starts."""
    middlewares, context, chain = _chain(count)
    for middleware in middlewares:
        chain = partial(middleware, call_next=chain)
    names = {"chain": chain, "context": context}
    return Contender("fastmcp composed once", "await chain(context)", names, LACKS, count)


def _chain(count: int) -> tuple[list[Any], Any, Any]:
    """Return middlewares that replace a result, a context, and what gives the result."""
    import mcp_types
    from fastmcp.server.middleware import Middleware, MiddlewareContext
    from fastmcp.tools.base import ToolResult

    content = mcp_types.TextContent(type="text", text="42 files, 3 of them changed")
    given = ToolResult(content=[content])

    async def finished(_: object) -> Any:
        return given

    middlewares = [
        type("Middle", (Middleware,), {"on_call_tool": handler})()
        for handler in functions(count, _HANDLER, ToolResult=ToolResult, content=content)
    ]
    params = mcp_types.CallToolRequestParams(name="read", arguments={})
    return middlewares, MiddlewareContext(message=params, method="tools/call"), finished


def tool_call() -> Contender:
    """Build `server.call_tool`."""
    return _call_tool(0)


def tool_call__3_middlewares() -> Contender:
    """Build the same with three middlewares that replace the result."""
    return _call_tool(3)


def _call_tool(count: int) -> Contender:
    import mcp_types
    from fastmcp import FastMCP
    from fastmcp.server.middleware import Middleware
    from fastmcp.tools.base import ToolResult

    server = FastMCP("bench")

    @server.tool
    async def noop(value: int) -> str:
        return "done"

    content = mcp_types.TextContent(type="text", text="done")
    for handler in functions(count, _HANDLER, ToolResult=ToolResult, content=content):
        server.add_middleware(type("Middle", (Middleware,), {"on_call_tool": handler})())
    name = "fastmcp call_tool" + (", 3 middlewares" if count else "")
    lacks = "no transcript, no guards; a failing middleware ends the call"
    statement = 'await call("noop", {"value": 1})'
    return Contender(name, statement, {"call": server.call_tool}, lacks)

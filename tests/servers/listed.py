"""An MCP server that says what it is told to: `listed.py FILE`, with pages of tools and results.

FILE is JSON: `pages`, lists of tools; `results` by tool; `circle`, whether the pages have no end.
"""

import json
import sys
from pathlib import Path

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, ListToolsResult, Tool

TOLD = json.loads(Path(sys.argv[1]).read_text())


async def list_tools(ctx, params):
    at = int(params.cursor or 0) if params else 0
    more = str(at + 1) if at + 1 < len(TOLD["pages"]) else None
    tools = [Tool.model_validate(one, by_name=False) for one in TOLD["pages"][at]]
    return ListToolsResult(tools=tools, next_cursor="0" if TOLD.get("circle") else more)


async def call_tool(ctx, params):
    return CallToolResult.model_validate(TOLD["results"][params.name], by_name=False)


async def main():
    server = Server("listed", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)

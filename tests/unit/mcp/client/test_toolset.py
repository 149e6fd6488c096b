"""What a toolset holds of what an MCP server lists."""

import mcp.types

from toolbus.mcp import client


def listed(*names):
    return [mcp.types.Tool(name=name, input_schema={"type": "object"}) for name in names]


def test_tools_keep_their_order_when_listed_again():
    tools = client.tools("server")
    tools._opened = True

    tools._replace_tools(listed("b", "a", "c"))
    tools._replace_tools(listed("c", "d", "b", "a"))

    assert [tool.spec.name for tool in tools] == ["b", "a", "c", "d"]

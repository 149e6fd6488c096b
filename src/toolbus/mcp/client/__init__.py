"""The MCP client: tools of MCP servers for an agent; needs the extra `mcp`."""

from toolbus.mcp.client.toolset import McpOptions as McpOptions
from toolbus.mcp.client.toolset import McpTools as McpTools
from toolbus.mcp.client.toolset import tools as tools

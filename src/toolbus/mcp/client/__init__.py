"""The tools of MCP servers, as tools of an agent."""

from toolbus.mcp.client.options import McpOptions as McpOptions
from toolbus.mcp.client.tools import McpTools as McpTools

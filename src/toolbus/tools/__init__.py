"""Tools: their definition, and the way of a call to a response."""

from toolbus.tools.contexts import Progress as Progress
from toolbus.tools.contexts import ToolContext as ToolContext
from toolbus.tools.definitions import FunctionTool as FunctionTool
from toolbus.tools.definitions import Tool as Tool
from toolbus.tools.definitions import tool as tool
from toolbus.tools.toolset import Toolset as Toolset

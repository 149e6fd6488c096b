"""One tool call, from the request to the response."""

from toolbus.tools.calls.runner import ToolRunner as ToolRunner

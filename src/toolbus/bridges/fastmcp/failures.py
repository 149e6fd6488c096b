"""The failures of a FastMCP server's tools, kept out of its log and its traces."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from fastmcp.exceptions import FastMCPError, MCPError, ToolError
from fastmcp.server.transforms import Transform
from fastmcp.tools.base import Tool, ToolResult

from toolbus.tasks.loops import set_context

if TYPE_CHECKING:
    from fastmcp.server.transforms import GetToolNext
    from fastmcp.utilities.versions import VersionSpec

_WITHHELD = "toolbus keeps this text out of traces and logs"

FAILURES: ContextVar[list[Exception] | None] = ContextVar("toolbus_fastmcp_failures", default=None)
"""The failures of the tool that a bridge runs in this context."""


class FailureShield(Transform):
    """A transform whose tools raise failures without their text, while a bridge runs them.

    FastMCP 4.2 writes a tool's exception to its log and its spans before any middleware gets it.
    """

    async def get_tool(
        self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None
    ) -> Tool | None:
        """Return the tool *name*; shielded if a bridge runs it."""
        tool = await call_next(name, version=version)
        if tool is None or FAILURES.get() is None:
            return tool
        fields = {field: getattr(tool, field) for field in Tool.model_fields}
        return _ShieldedTool.model_construct(shielded=tool, **fields)


class _ShieldedTool(Tool):
    """The tool *shielded*, with its exception kept for the bridge."""

    shielded: Tool

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        failures = FAILURES.get()
        try:
            # The program's own function gets tools without a shield.
            with set_context(FAILURES, None):
                return await self.shielded.run(arguments)
        except MCPError:
            raise  # Its code is for the client.
        except Exception as error:  # noqa: BLE001 - it is raised again by the bridge
            failure = error
        if failures is None:
            raise failure
        failures.append(failure)
        if isinstance(failure, FastMCPError):
            raise ToolError(_WITHHELD, log_level=failure.log_level)
        raise RuntimeError(_WITHHELD)


def original_failure(error: Exception, failures: list[Exception]) -> Exception:
    """Return *error* with the text of the tool's failure, as FastMCP would have raised it.

    The server's own text for it stays: a server may mask failures.
    """
    if not failures or _WITHHELD not in str(error):
        return error
    failure = failures[-1]
    if isinstance(failure, FastMCPError):
        return failure
    original = ToolError(str(error).replace(_WITHHELD, str(failure)))
    original.__cause__ = failure
    return original

"""The failures of a FastMCP server's tools, kept out of its log and its traces."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from fastmcp.exceptions import FastMCPError, MCPError, ToolError
from fastmcp.server.providers.fastmcp_provider import FastMCPProvider
from fastmcp.server.transforms import Transform
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.tools.function_tool import FunctionTool
from fastmcp.utilities.exceptions import get_http_status_code, is_timeout_error
from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY

from toolbus.tasks.loops import set_context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastmcp import FastMCP
    from fastmcp.server.providers.base import Provider
    from fastmcp.server.transforms import GetToolNext
    from fastmcp.utilities.versions import VersionSpec

_WITHHELD = "toolbus keeps this text out of traces and logs"
_TOO_MANY_REQUESTS = 429

_FAILURES: ContextVar[list[Exception] | None] = ContextVar("toolbus_fastmcp_failures", default=None)


class FailureShield(Transform):
    """A transform whose tools raise failures without their text, while a bridge runs them.

    FastMCP 4.2 writes a tool's exception to its log and its spans before any middleware gets it.
    """

    def install(self, server: FastMCP) -> None:
        """Add this to *server* and the servers mounted in it."""
        if self not in server.transforms:
            server.add_transform(self)
        for provider in server.providers:
            mounted = _mounted(provider)
            if mounted is not None:
                self.install(mounted)

    async def get_tool(
        self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None
    ) -> Tool | None:
        """Return the tool *name*; shielded if a bridge runs it."""
        tool = await call_next(name, version=version)
        if tool is None or _FAILURES.get() is None:
            return tool
        fields = {field: getattr(tool, field) for field in Tool.model_fields}
        return _ShieldedTool.model_construct(shielded=tool, **fields)


class _ShieldedTool(Tool):
    """The tool *shielded*, with its exception kept for the bridge."""

    shielded: Tool

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        failures = _FAILURES.get()
        # The program's own function gets tools without a shield.
        below = None if isinstance(self.shielded, FunctionTool) else failures
        try:
            with set_context(_FAILURES, below):
                return await self.shielded.run(arguments)
        except Exception as error:  # noqa: BLE001 - it is raised again by the bridge
            failure = error
        # A mounted server has withheld the text already.
        if failures is None or _reads_type(failure) or _WITHHELD in str(failure):
            raise failure
        failures.append(failure)
        if isinstance(failure, FastMCPError):
            raise ToolError(_WITHHELD, log_level=failure.log_level)
        raise _WithheldError(_WITHHELD)

    def get_span_attributes(self) -> dict[str, Any]:
        return self.shielded.get_span_attributes()


class _WithheldError(Exception):
    """A failure whose text is withheld."""


@contextmanager
def withheld_failures() -> Iterator[list[Exception]]:
    """Keep the failures of the tool run in this context."""
    failures: list[Exception] = []
    with set_context(_FAILURES, failures):
        yield failures


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


def _reads_type(failure: Exception) -> bool:
    """Return whether FastMCP answers *failure* by its type and not by its text."""
    if isinstance(failure, MCPError):
        return failure.error.code == MISSING_REQUIRED_CLIENT_CAPABILITY
    return is_timeout_error(failure) or get_http_status_code(failure) == _TOO_MANY_REQUESTS


def _mounted(provider: Provider) -> FastMCP | None:
    """Return the server mounted by *provider*, or None.

    `_inner` is private, but a provider with a namespace shows its server nowhere else: FastMCP 4.2,
    `FastMCP.mount`.
    """
    while (inner := getattr(provider, "_inner", None)) is not None:
        provider = inner
    return provider.server if isinstance(provider, FastMCPProvider) else None

"""The tools of an MCP server as a toolset.

Needs the official SDK, from the extra `mcp`. A server is a command on its standard streams, or the
URL of a Streamable HTTP server.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self, Unpack

from toolbus.errors import RegistrationError, ToolServerError
from toolbus.events.subjects import ToolSelector, matches
from toolbus.settings.extras import needs_extra
from toolbus.tools.toolset import Toolset

try:
    from toolbus.mcp.client.connections import Link
    from toolbus.mcp.client.servers import McpOptions, server_of
    from toolbus.mcp.client.translation import McpTool
except ImportError as error:
    msg = needs_extra("the tools of an MCP server need the MCP SDK", "mcp")
    raise ImportError(msg, name=error.name) from error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mcp.types import Tool as ListedTool

    from toolbus.tools.definitions import Tool

__all__ = ["McpOptions", "McpTools", "tools"]

logger = logging.getLogger("toolbus")


class McpTools(Toolset):
    """The tools of one MCP server, which is connected inside `async with`.

    The tools follow changes of the server's list, also after a reconnection. A call running when
    the server is lost fails and is never repeated; the next call reconnects. Raises
    `RegistrationError` for invalid options; entering raises `ToolServerError` if the server cannot
    be reached.
    """

    def __init__(
        self, server: str, args: Sequence[str] = (), **options: Unpack[McpOptions]
    ) -> None:
        super().__init__()
        self._server = server_of(server, args, options)
        self.source = self._server.label
        self._prefix = options.get("prefix", "")
        self._include = ToolSelector(options.get("include", "*"))
        self._exclude = ToolSelector(options.get("exclude", ()))
        self._timeout = options.get("timeout", 300.0)
        self._listed: frozenset[str] = frozenset()
        self._opened = False
        self._link = Link(
            self._server,
            self._replace_tools,
            seconds=options.get("connect_timeout", 60.0),
            reconnects=options.get("reconnects", 3),
            mode=options.get("mode", "auto"),
        )

    async def __aenter__(self) -> Self:
        if self._opened:
            reason = "the toolset was opened before; make a new one"
            raise ToolServerError(self._server.label, reason, "closed")
        self._opened = True
        await self._link.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._link.close()

    def __iter__(self) -> Iterator[Tool]:
        if not self._opened:
            reason = "the tools are not known yet; open the toolset first, with `async with`"
            raise RegistrationError(f"mcp server {self._server.label!r}", reason)
        return super().__iter__()

    def _replace_tools(self, listed: Sequence[ListedTool]) -> None:
        """Replace the tools by the selected ones of *listed*."""
        self._warn_of_unmatched([tool.name for tool in listed])
        made: dict[str, McpTool] = {}
        for tool in listed:
            if self._include.matches(tool.name) and not self._exclude.matches(tool.name):
                self._make(tool, made)
        with self._lock:
            others = {key: entry for key, entry in self._tools.items() if key not in self._listed}
            # In their former order, so that a model's prompt cache stays valid.
            order = dict.fromkeys([*[name for name in self._tools if name in made], *made])
            self._tools = others | {name: (made[name], lambda: True) for name in order}
            self._listed = frozenset(made)

    def _warn_of_unmatched(self, names: list[str]) -> None:
        for pattern in self._include.patterns:
            if not any(matches(pattern, name) for name in names):
                text = "mcp server %r has no tool %r; its tools: %s"
                logger.warning(text, self._server.label, pattern, ", ".join(names) or "none")

    def _make(self, listed: ListedTool, made: dict[str, McpTool]) -> None:
        """Add a tool to *made*; an invalid tool is left out with a warning."""
        tool = McpTool(listed, self._link.call, prefix=self._prefix, timeout=self._timeout)
        try:
            name = tool.spec.name
        except RegistrationError as error:
            logger.warning("mcp server %r: left out %s", self._server.label, error)
            return
        if made.setdefault(name, tool) is not tool:
            logger.warning("mcp server %r lists tool %r twice", self._server.label, name)


def tools(server: str, args: Sequence[str] = (), **options: Unpack[McpOptions]) -> McpTools:
    """Return the tools of an MCP server, which is connected inside `async with`.

    *server* is a command with *args*, or the `http(s)://` URL of a Streamable HTTP server; for
    *options* see `McpOptions`. Raises as `McpTools` does.
    """
    return McpTools(server, args, **options)

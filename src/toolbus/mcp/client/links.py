"""The link to a server: calls over the connection of the moment, and a new one when it is lost."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED

from toolbus.errors import ToolServerError
from toolbus.mcp.client.connections import Connection
from toolbus.mcp.client.servers import Delivery, delivery_under_way
from toolbus.tasks.shielding import shield_until_done

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp.shared.dispatcher import ProgressFnT
    from mcp.types import CallToolResult
    from mcp.types import Tool as ListedTool

    from toolbus.mcp.client.servers import Server


class Link:
    """Calls tools of *server*; *on_listed* gets its tools whenever they were listed.

    *seconds* bound connecting and each listing; a call tries to connect *reconnects* times.
    """

    def __init__(
        self,
        server: Server,
        on_listed: Callable[[Sequence[ListedTool]], None],
        *,
        seconds: float,
        reconnects: int,
        mode: str,
    ) -> None:
        self._server, self._reconnects = server, reconnects
        self._connect = partial(Connection, server, on_listed, seconds=seconds, mode=mode)
        self._current: Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def open(self) -> None:
        """Connect; raises `ToolServerError` if the server cannot be reached."""
        self._loop = asyncio.get_running_loop()
        self._current = self._connect(attempts=1, after=None)
        try:
            await self._current.client()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the connection, and wait until nothing of it is left, also if cancelled meanwhile."""
        self._closed = True
        if self._current is None:
            return
        self._current.stop()
        await shield_until_done(self._current.wait)

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        progress: ProgressFnT,
        /,
    ) -> CallToolResult:
        """Call the tool *name* once; being cancelled tells the server so.

        Raises `ToolServerError` if the server is lost meanwhile, or cannot be reached.
        """
        first = Delivery()
        try:
            return await self._deliver(first, name, arguments, progress)
        except ToolServerError:
            if not first.refused:
                raise
        # Not even looked at: it had lost our session, or was not there.
        return await self._deliver(Delivery(), name, arguments, progress)

    async def _deliver(
        self, delivery: Delivery, name: str, arguments: dict[str, Any], progress: ProgressFnT
    ) -> CallToolResult:
        connection = await self._connected()
        client = await connection.client()
        delivery_under_way.set(delivery)
        try:
            return await client.call_tool(name, arguments, progress_callback=progress)
        except MCPError as error:
            if error.code != CONNECTION_CLOSED and not connection.ended:
                raise
            connection.doubted = True
            reason = connection.reason or error.message
            raise ToolServerError.lost(self._server.label, reason) from error

    async def _connected(self) -> Connection:
        """Return the connection of the moment, or the one that shall take its place."""
        if self._closed or self._current is None:
            raise ToolServerError(self._server.label, "it is closed; open a new one", "closed")
        if asyncio.get_running_loop() is not self._loop:
            reason = "it belongs to another event loop; use it where it was opened"
            raise ToolServerError(self._server.label, reason, "other_loop")
        if self._current.doubted and not self._current.ended:
            await self._current.probe()
        if self._current.ended:
            self._current = self._connect(attempts=self._reconnects, after=self._current)
        return self._current

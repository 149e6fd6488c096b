"""The link to a server: calls over the current connection, and a new one when it is lost.

A connection is entered, held and left in one task, as the SDK's cancel scopes require. Other tasks
only send requests over it, so each call is cancelled in its own task.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
from mcp.client import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp.types import Implementation, ToolListChangedNotification
from mcp_types import CONNECTION_CLOSED
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolbus.errors import ToolServerError
from toolbus.mcp.client.servers import Delivery, delivery_under_way
from toolbus.tasks.shield import shield_until_done

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcp.client import IncomingMessage
    from mcp.shared.dispatcher import ProgressFnT
    from mcp.types import CallToolResult, LoggingMessageNotificationParams
    from mcp.types import Tool as ListedTool

    from toolbus.mcp.client.servers import Server

logger = logging.getLogger("toolbus")

# The errors of listing tools; pydantic's errors are ValueErrors.
_FAILURES = (MCPError, TimeoutError, ToolServerError, ValueError)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 30.0


class Connection:
    """A connection that is connecting, connected, or has *ended* for *reason*.

    It *needs_probe* after a lost response, which may be an isolated failure. Connecting takes up to
    *attempts* attempts of *seconds* each, and begins when the connection *after* has ended
    completely. *on_listed* receives the tools before the first call, and after each change.
    """

    def __init__(
        self,
        server: Server,
        on_listed: Callable[[Sequence[ListedTool]], None],
        *,
        seconds: float,
        attempts: int,
        mode: str,
        after: Connection | None,
    ) -> None:
        self.ended, self.needs_probe, self.reason = False, False, ""
        self._server, self._on_listed, self._mode = server, on_listed, mode
        self._seconds, self._attempts, self._after = seconds, attempts, after
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._end, self._changed = asyncio.Event(), asyncio.Event()
        self._scope = anyio.CancelScope()
        self._task = asyncio.create_task(self._run())

    async def client(self) -> Client:
        """Return the SDK's client once it is connected; raises `ToolServerError` if it is not."""
        return await asyncio.shield(self._ready)

    async def probe(self) -> None:
        """Check the connection by listing the tools, which has no effects."""
        try:
            await self._list(await self.client())
            self.needs_probe = False
        except _FAILURES as error:
            self._mark_lost(text_of(error))

    def stop(self) -> None:
        """Begin to end the connection."""
        self.reason = self.reason or "the connection was closed"
        self.ended = True
        self._end.set()
        if not self._ready.done():
            self._scope.cancel()

    async def wait(self) -> None:
        """Wait until the connection has ended completely."""
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        """Hold the connection from its first attempt to its end."""
        try:
            with self._scope:
                if self._after is not None:
                    await self._after.wait()
                for attempt in range(self._attempts):
                    await anyio.sleep(attempt and _FIRST_PAUSE * 2**attempt)
                    await self._hold()
                    if self._ready.done():
                        break
        finally:
            self._after, self.ended = None, True
            if not self._ready.done():
                reason = self.reason or "the connection was lost, and `reconnects` is 0"
                self._ready.set_exception(ToolServerError(self._server.label, reason))
                # Retrieved here, or asyncio would report it as never retrieved.
                self._ready.exception()

    async def _hold(self) -> None:
        """Connect once, and hold the connection until its end."""
        self._end.clear()
        self.reason = ""
        try:
            # The deadline for connecting is lifted afterwards: a scope around connecting alone
            # would be left before the inner scopes of the client.
            with anyio.CancelScope(deadline=anyio.current_time() + self._seconds) as scope:
                transport = self._server.transport(self._mark_lost)
                handlers = {"message_handler": self._on_message, "logging_callback": self._log}
                async with make_client(transport, self._mode, **handlers) as client:
                    await self._list(client)
                    scope.deadline = inf
                    self._ready.set_result(client)
                    await self._until_end(client)
        except Exception as error:  # noqa: BLE001 - any failure of a server is a reason
            last_error = f" ({self._server.last_error})" if self._server.last_error else ""
            self._mark_lost(f"{text_of(error)}{last_error}")
        else:
            if scope.cancelled_caught:
                self._mark_lost(f"no answer within {self._seconds:g} s")

    def _mark_lost(self, reason: str) -> None:
        """Mark the connection as lost, so that later calls reconnect."""
        self.reason = self.reason or reason
        if self._ready.done() and not self.ended:
            self.ended = True
            logger.warning("mcp server %r was lost: %s", self._server.label, reason)
        self._end.set()

    async def _until_end(self, client: Client) -> None:
        tells = client.server_capabilities.tools
        async with anyio.create_task_group() as group:
            group.start_soon(self._follow, client)
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS and tells and tells.list_changed:
                group.start_soon(self._subscribe, client)
            await self._end.wait()
            group.cancel_scope.cancel()

    async def _list(self, client: Client) -> None:
        with anyio.fail_after(self._seconds):
            self._on_listed(await all_pages(client.list_tools, "tools"))

    async def _follow(self, client: Client) -> None:
        """List the tools again after each change."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._list(client)
            except _FAILURES as error:
                text = "mcp server %r: its tools changed, and listing them failed: %s"
                logger.warning(text, self._server.label, text_of(error))

    async def _subscribe(self, client: Client) -> None:
        """Hold the subscription for changes at a stateless server."""
        pause = _FIRST_PAUSE
        while True:
            try:
                async with client.listen(tools_list_changed=True) as subscription:
                    # Changes before the subscription were not notified.
                    self._changed.set()
                    async for _ in subscription:
                        pause = _FIRST_PAUSE
                        self._changed.set()
            except (MCPError, SubscriptionLost, TimeoutError) as error:
                text = "mcp server %r: the subscription to its tools ended: %s"
                logger.info(text, self._server.label, text_of(error))
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed.set()

    async def _log(self, params: LoggingMessageNotificationParams) -> None:
        logger.debug("mcp server %r: %s: %s", self._server.label, params.level, params.data)


class Link:
    """The link to *server*; *on_listed* receives its tools after each listing.

    *seconds* limit connecting and each listing; a call tries to reconnect *reconnects* times.
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
        """End the connection and wait for its end, even if cancelled meanwhile."""
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
        """Call the tool *name* once; a cancellation is sent to the server.

        Raises `ToolServerError` if the server is lost or cannot be reached.
        """
        first = Delivery()
        try:
            return await self._deliver(first, name, arguments, progress)
        except ToolServerError:
            if not first.refused:
                raise
        # Safe to repeat: the server had lost the session or was unreachable.
        return await self._deliver(Delivery(), name, arguments, progress)

    async def _deliver(
        self, delivery: Delivery, name: str, arguments: dict[str, Any], progress: ProgressFnT
    ) -> CallToolResult:
        connection = await self._connection()
        client = await connection.client()
        delivery_under_way.set(delivery)
        try:
            return await client.call_tool(name, arguments, progress_callback=progress)
        except MCPError as error:
            if error.code != CONNECTION_CLOSED and not connection.ended:
                raise
            connection.needs_probe = True
            reason = connection.reason or error.message
            raise ToolServerError.lost(self._server.label, reason) from error

    async def _connection(self) -> Connection:
        """Return the current connection, or a new one in its place."""
        if self._closed or self._current is None:
            reason = "the toolset is closed; open a new one"
            raise ToolServerError(self._server.label, reason, "closed")
        if asyncio.get_running_loop() is not self._loop:
            reason = "the toolset belongs to another event loop; use it where it was opened"
            raise ToolServerError(self._server.label, reason, "other_loop")
        if self._current.needs_probe and not self._current.ended:
            await self._current.probe()
        if self._current.ended:
            self._current = self._connect(attempts=self._reconnects, after=self._current)
        return self._current


def make_client(transport: Any, mode: str, **handlers: Any) -> Client:
    """Return a client of the SDK that identifies itself as toolbus."""
    info = Implementation(name="toolbus", version=own_version())
    return Client(transport, mode=mode, cache=None, client_info=info, **handlers)


async def all_pages(list_page: Callable[..., Awaitable[Any]], member: str) -> list[Any]:
    """Return the items *member* of all pages; raises `ValueError` for a repeated cursor."""
    items: list[Any] = []
    cursor: str | None = None
    cursors: set[str | None] = set()
    while True:
        page = await list_page(cursor=cursor)
        items += getattr(page, member)
        cursor = page.next_cursor
        if cursor is None:
            return items
        if cursor in cursors:
            msg = f"{member}/list returned the cursor {cursor!r} twice"
            raise ValueError(msg)
        cursors.add(cursor)


def own_version() -> str:
    """Return the version of toolbus, or "unknown"."""
    try:
        return version("toolbus")
    except PackageNotFoundError:
        return "unknown"


def text_of(error: BaseException) -> str:
    """Return the first line of *error*, or of the first error in a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error).partition("\n")[0] or type(error).__name__

"""One connection to a server: entered, kept and left in one task, as the SDK's scopes demand.

Other tasks only send requests over it, so each call is cancelled in the task that makes it.
"""

from __future__ import annotations

import asyncio
import logging
from importlib.metadata import PackageNotFoundError, version
from math import inf
from typing import TYPE_CHECKING

import anyio
from mcp.client import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp.types import Implementation, ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolbus.errors import ToolServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp.client import IncomingMessage
    from mcp.types import LoggingMessageNotificationParams
    from mcp.types import Tool as ListedTool

    from toolbus.mcp.client.servers import Server

logger = logging.getLogger("toolbus")

# What listing the tools may raise; pydantic's errors are ValueErrors.
_FAILURES = (MCPError, TimeoutError, ToolServerError, ValueError)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 30.0


class Connection:
    """A connection that is being made, is there, or has *ended*, for *reason*.

    It is *doubted* once the answer to a call was lost, though perhaps that alone was.

    It is made in up to *attempts* attempts, each of which may take *seconds*, once the one that
    it comes *after* has left nothing behind. *on_listed* gets the tools before anybody can call
    one, and whenever the server says that they changed.
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
        self.ended, self.doubted, self.reason = False, False, ""
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
        """Find out whether it is there still, by what has no effects."""
        try:
            await self._list(await self.client())
            self.doubted = False
        except _FAILURES as error:
            self._lose(text_of(error))

    def stop(self) -> None:
        """Let it come to its end."""
        self.reason = self.reason or "it was closed"
        self.ended = True
        self._end.set()
        if not self._ready.done():
            self._scope.cancel()

    async def wait(self) -> None:
        """Wait until nothing of it is left."""
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        """Hold the connection from its first attempt to its end."""
        try:
            with self._scope:
                if self._after is not None:
                    await self._after.wait()
                for attempt in range(self._attempts):
                    await anyio.sleep(attempt and _FIRST_PAUSE * 2**attempt)
                    await self._live()
                    if self._ready.done():
                        break
        finally:
            self._after, self.ended = None, True
            if not self._ready.done():
                reason = self.reason or "it was lost, and `reconnects` is 0"
                self._ready.set_exception(ToolServerError(self._server.label, reason))
                # Unasked, asyncio would report it as never retrieved.
                self._ready.exception()

    async def _live(self) -> None:
        """Connect once, and stay until the end."""
        self._end.clear()
        self.reason = ""
        try:
            # The deadline of connecting, lifted once that is done: a scope around connecting
            # alone would be left before those that the client has entered inside it.
            with anyio.CancelScope(deadline=anyio.current_time() + self._seconds) as scope:
                async with self._make_client() as client:
                    await self._list(client)
                    scope.deadline = inf
                    self._ready.set_result(client)
                    await self._stay(client)
        except Exception as error:  # noqa: BLE001 - whatever a server does is a reason
            trouble = f" ({self._server.trouble})" if self._server.trouble else ""
            self._lose(f"{text_of(error)}{trouble}")
        else:
            if scope.cancelled_caught:
                self._lose(f"no answer within {self._seconds:g} s")

    def _make_client(self) -> Client:
        return Client(
            self._server.transport(self._lose),
            mode=self._mode,
            cache=None,
            client_info=Implementation(name="toolbus", version=own_version()),
            message_handler=self._hear,
            logging_callback=self._log,
        )

    def _lose(self, reason: str) -> None:
        """Note that the connection is lost: from now on calls need another one."""
        self.reason = self.reason or reason
        if self._ready.done() and not self.ended:
            self.ended = True
            logger.warning("mcp server %r was lost: %s", self._server.label, reason)
        self._end.set()

    async def _stay(self, client: Client) -> None:
        tells = client.server_capabilities.tools
        async with anyio.create_task_group() as group:
            group.start_soon(self._follow, client)
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS and tells and tells.list_changed:
                group.start_soon(self._subscribe, client)
            await self._end.wait()
            group.cancel_scope.cancel()

    async def _list(self, client: Client) -> None:
        with anyio.fail_after(self._seconds):
            self._on_listed(await every_tool(client))

    async def _follow(self, client: Client) -> None:
        """List the tools anew whenever they changed."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._list(client)
            except _FAILURES as error:
                text = "mcp server %r: its tools changed, and listing them failed: %s"
                logger.warning(text, self._server.label, text_of(error))

    async def _subscribe(self, client: Client) -> None:
        """Keep the subscription that a server without handshake tells changes to."""
        pause = _FIRST_PAUSE
        while True:
            try:
                async with client.listen(tools_list_changed=True) as subscription:
                    # What changed before it was there, nobody told.
                    self._changed.set()
                    async for _ in subscription:
                        pause = _FIRST_PAUSE
                        self._changed.set()
            except (MCPError, SubscriptionLost, TimeoutError) as error:
                text = "mcp server %r: the subscription to its tools ended: %s"
                logger.info(text, self._server.label, text_of(error))
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _hear(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed.set()

    async def _log(self, params: LoggingMessageNotificationParams) -> None:
        logger.debug("mcp server %r: %s: %s", self._server.label, params.level, params.data)


async def every_tool(client: Client) -> list[ListedTool]:
    """Return the tools of all pages; raises `ValueError` if these go round in a circle."""
    tools: list[ListedTool] = []
    cursor: str | None = None
    cursors: set[str] = set()
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return tools
        if cursor in cursors:
            msg = f"tools/list gives the cursor {cursor!r} twice"
            raise ValueError(msg)
        cursors.add(cursor)


def own_version() -> str:
    """Return the version of this package, as servers are told."""
    try:
        return version("toolbus")
    except PackageNotFoundError:
        return "unknown"


def text_of(error: BaseException) -> str:
    """Return the first line of what went wrong, of the first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error).partition("\n")[0] or type(error).__name__

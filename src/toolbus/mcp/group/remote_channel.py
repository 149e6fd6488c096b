"""The way to a server of a group that is at an address; it knows h11, the extra `toolbus[http]`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from toolbus.mcp.transport.remote import RemoteServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import Any
    from urllib.parse import SplitResult

    from toolbus.mcp.transport.limits import ProxyLimits


class RemoteChannel:
    """The way to the server at *url*, which gets *headers*; *is_open* tells what it owes."""

    def __init__(
        self,
        url: SplitResult,
        headers: Iterable[tuple[str, str]],
        limits: ProxyLimits,
        is_open: Callable[[Any], bool],
    ) -> None:
        self._remote = RemoteServer(url, limits, None, headers)
        self._remote.is_open = is_open
        self._finished = asyncio.Event()
        self.write = self._remote.write

    async def run(self, take: Callable[[bytes], Awaitable[None]]) -> str:
        """Give *take* each line that the server says, until `finish`."""
        self._remote.take = take
        await self._finished.wait()
        return "is left: the proxy has ended"

    def signal(self, number: int) -> None:
        """There is no process."""

    def finish(self) -> None:
        """Say no more to it."""
        self._finished.set()

    async def end(self, grace: float, *, at_once: bool) -> None:
        """Wait at most *grace* seconds for what it still does."""
        self.finish()
        if not at_once:
            await self._remote.settle(grace)

    async def kill(self) -> None:
        """End the session at the server."""
        await self._remote.close()

"""The way to a server of a group that is at an address; it knows h11, the extra `toolbus[http]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.mcp.transport.remote import RemoteServer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from typing import Any
    from urllib.parse import SplitResult

    from toolbus.mcp.transport.limits import ProxyLimits


class RemoteChannel:
    """The way to the server at *url*, which gets *headers*."""

    def __init__(
        self,
        url: SplitResult,
        headers: Iterable[tuple[str, str]],
        limits: ProxyLimits,
    ) -> None:
        self._remote = RemoteServer(url, limits, None, headers)
        self.write, self.finish = self._remote.write, self._remote.finish

    async def run(self, take: Callable[[bytes], Coroutine[Any, Any, None]]) -> str:
        """Give *take* each line that the server says, until `finish`."""
        await self._remote.lines(0, take, lambda: None)
        return "is left: the proxy has ended"

    def signal(self, number: int) -> None:
        """There is no process."""

    async def end(self, grace: float, *, at_once: bool) -> None:
        """Wait at most *grace* seconds for what it still does."""
        await self._remote.end(grace, at_once=at_once)

    async def kill(self) -> None:
        """End the session at the server."""
        await self._remote.kill()

"""The way to a server: a process, an address, or a group of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

Wait: TypeAlias = Coroutine[Any, Any, None] | None
"""A coroutine to await before more is taken, or None."""


class ServerLink(Protocol):
    """The way to a server, line by line."""

    def write(self, line: bytes) -> None:
        """Send a line; after the end of the server it is dropped."""

    def drain(self) -> Wait:
        """Return what to await while too much waits to be sent, or None."""

    async def lines(
        self, limit: int, take: Callable[[bytes], Wait], drain: Callable[[], Wait]
    ) -> str:
        """Give *take* each line of the server until its end, and wait for *drain* in between.

        A line has at most *limit* bytes. Returns why the server must be ended, empty if it has
        ended by itself.
        """

    def signal(self, number: int) -> None:
        """Pass a signal on."""

    def finish(self) -> None:
        """Tell the server that nothing more comes."""

    async def end(self, grace: float, *, at_once: bool = False) -> int:
        """End the server, after *grace* seconds by force; return its exit code.

        It may end by itself, unless it is to end *at_once*.
        """

    async def kill(self) -> None:
        """Leave nothing of it behind."""

"""The link to a server: a protocol for processes, remote servers and groups."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

Wait: TypeAlias = Coroutine[Any, Any, None] | None
"""A coroutine to await before the next line is taken, or None."""


class ServerLink(Protocol):
    """A link to a server that carries lines."""

    def write(self, line: bytes) -> None:
        """Send a line; it is dropped if the server has ended."""

    def drain(self) -> Wait:
        """Return a coroutine to await while the write buffer is full, or None."""

    async def lines(
        self, limit: int, take: Callable[[bytes], Wait], drain: Callable[[], Wait]
    ) -> str:
        """Pass each line of the server to *take* until its end, and wait for *drain* in between.

        A line has at most *limit* bytes. Returns the reason to end the server, empty if the server
        has ended itself.
        """

    def signal(self, number: int) -> None:
        """Forward a signal."""

    def finish(self) -> None:
        """Close the server's input."""

    async def end(self, grace: float, *, at_once: bool = False) -> int:
        """End the server, after *grace* seconds by force; return its exit code.

        The server has the chance to exit without a signal, unless *at_once*.
        """

    async def kill(self) -> None:
        """Kill the server and release its resources."""

"""The link to a server process on pipes, which ends together with the proxy."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from toolbus.mcp.protocol.jsonrpc import FrameTooLongError, LineSplitter
from toolbus.mcp.transport.launch import launch
from toolbus.mcp.transport.pipes import open_sink, read_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from toolbus.mcp.transport.launch import LaunchedServer
    from toolbus.mcp.transport.link import Wait
    from toolbus.mcp.transport.pipes import ByteSink

logger = logging.getLogger("toolbus")

PROXY_FAILED = "the proxy failed; see its log"
"""The error text for an unexpected exception in the proxy."""

_REST = 0.5
"""Seconds without output after which the output of an exited server counts as complete."""


async def start(command: Sequence[str], env: Mapping[str, str] | None = None) -> Process:
    """Start *command* in the environment *env*, as `launch` does; raises `OSError`."""
    return await adopt(launch(command, env))


async def adopt(launched: LaunchedServer) -> Process:
    """Return a link to the server *launched*."""
    try:
        return Process(launched, await open_sink(launched.sink))
    finally:
        os.close(launched.sink)


class Process:
    """The `ServerLink` to a launched server."""

    def __init__(self, launched: LaunchedServer, sink: ByteSink) -> None:
        self._launched, self._sink = launched, sink
        self._ended = _exit_future(launched)
        self._reads, self._is_reading = 0, True
        self.write, self.drain, self.signal = sink.write, sink.drain, launched.signal

    def finish(self) -> None:
        """Close the server's input after the buffered lines, which a hanging server never reads."""
        self._sink.finish()

    async def end(self, grace: float, *, at_once: bool = False) -> int:
        """End the server, after *grace* seconds by force; return its exit code.

        Its input is closed, then it gets SIGTERM, then SIGKILL: MCP 2025-11-25, basic/lifecycle,
        "Shutdown". With *at_once* the first signal is sent without a wait.
        """
        self.finish()
        for number in (0, signal.SIGTERM, signal.SIGKILL):
            if number or not at_once:
                self.signal(number)
                if (await asyncio.wait({self._ended}, timeout=grace))[0]:
                    break
        returncode = self._launched.process.returncode or 0
        return returncode if returncode >= 0 else 128 - returncode

    async def lines(
        self, limit: int, take: Callable[[bytes], Wait], drain: Callable[[], Wait]
    ) -> str:
        """Pass each line to *take* until the server ends, and wait for *drain* in between.

        Returns the reason to end the server, empty if the server has ended itself.
        """
        reading = asyncio.create_task(self._read(limit, take, drain))
        try:
            ends: set[asyncio.Future[Any]] = {reading, self._ended}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            idle = False
            while not (reading.done() or idle):
                # A child of the server may hold its pipe and still write to it.
                reads = self._reads
                await asyncio.wait({reading}, timeout=_REST)
                idle = self._is_reading and self._reads == reads
            return reading.result() if reading.done() else ""
        finally:
            reading.cancel()

    async def _read(
        self, limit: int, take: Callable[[bytes], Wait], drain: Callable[[], Wait]
    ) -> str:
        lines, take_all = LineSplitter(limit), _in_order(take, drain)

        def receive(data: bytes) -> Wait:
            self._reads += 1
            rest = take_all(lines.feed(data))
            return None if rest is None else self._pause_reading(rest)

        try:
            await read_loop(self._launched.source, receive)
        except FrameTooLongError as error:
            return str(error)
        except Exception:
            # Waiting clients get an error response, whatever the exception.
            logger.exception("could not process the server's output")
            return PROXY_FAILED
        if lines.remainder.strip():
            logger.warning("the server ended within a frame of %d bytes", len(lines.remainder))
        return ""

    async def _pause_reading(self, rest: Coroutine[Any, Any, None]) -> None:
        """Wait for *rest*; nothing is read meanwhile, so a lack of output means nothing."""
        self._is_reading = False
        try:
            await rest
        finally:
            self._is_reading = True

    async def kill(self) -> None:
        """Kill the server's process group and close its pipes."""
        self.signal(signal.SIGKILL)
        await self._ended
        self._launched.release()
        await self._sink.close(0)
        with suppress(OSError):
            os.close(self._launched.source)


def _in_order(
    take: Callable[[bytes], Wait], drain: Callable[[], Wait]
) -> Callable[[list[bytes]], Wait]:
    """Return a function that passes lines to *take* in order, then waits for *drain*."""

    def take_all(lines: list[bytes]) -> Wait:
        for number, line in enumerate(lines):
            if (rest := take(line)) is not None:
                return take_slowly(rest, lines[number + 1 :])
        return drain()

    async def take_slowly(rest: Coroutine[Any, Any, None], lines: list[bytes]) -> None:
        await rest
        for line in lines:
            if (after := take(line)) is not None:
                await after
        if (full := drain()) is not None:
            await full

    return take_all


def _exit_future(launched: LaunchedServer) -> asyncio.Future[int]:
    """Return a future of the server's exit code, set by a thread of its own.

    The loop's thread pool is small, and each client may have a process.
    """
    loop = asyncio.get_running_loop()
    ending: asyncio.Future[int] = loop.create_future()

    def finish(code: int) -> None:
        if not ending.done():
            ending.set_result(code)

    def wait() -> None:
        code = launched.process.wait()
        with suppress(RuntimeError):  # The loop may have closed.
            loop.call_soon_threadsafe(finish, code)
        launched.watch.wait()

    threading.Thread(target=wait, daemon=True).start()
    return ending


def explain_end(code: int, why: str) -> str:
    """Return the error text for an unanswered request: *why* the server was ended, or its code."""
    reason = why or (f"the server {describe_end(code)}" if code else "the server has ended")
    return f"{reason}; the request was not answered, and may have had effects"


def describe_end(code: int) -> str:
    """Return a text for the exit code of a process; codes above 128 stand for signals."""
    try:
        name = signal.Signals(code - 128).name
    except ValueError:
        return f"ended with exit code {code}"
    return f"was killed by signal {code - 128} ({name}, exit code {code})"

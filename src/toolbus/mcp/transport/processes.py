"""A server that is a command: a process with pipes, which ends with us, and all that it started."""

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

FAILED = "the proxy has failed, and its log says how"
"""Why there is no answer, if it is our fault."""

_REST = 0.5
"""Seconds of silence after which a server that has ended will say no more."""


async def start(command: Sequence[str], env: Mapping[str, str] | None = None) -> Process:
    """Start *command* in the environment *env*, as `launch` does; raises `OSError`."""
    return await adopt(launch(command, env))


async def adopt(launched: LaunchedServer) -> Process:
    """Take over a server that was started."""
    try:
        return Process(launched, await open_sink(launched.sink))
    finally:
        os.close(launched.sink)


class Process:
    """The `ServerLink` to a server that was started."""

    def __init__(self, launched: LaunchedServer, sink: ByteSink) -> None:
        self._launched, self._sink = launched, sink
        self._ended = _ending_of(launched)
        self._heard, self._listens = 0, True
        self.write, self.drain, self.signal = sink.write, sink.drain, launched.signal

    def finish(self) -> None:
        """Tell it that nothing more comes, once it has read what waits; who hangs never does."""
        self._sink.finish()

    async def end(self, grace: float, *, at_once: bool = False) -> int:
        """See to it that it ends, after *grace* seconds by force; return its exit code.

        Its input is closed, then it gets SIGTERM, then SIGKILL: MCP 2025-11-25, basic/lifecycle,
        "Shutdown".

        It may end by itself, unless it is to do so *at_once*.
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
        """Give *take* what it says until it ends, and wait for *drain* in between.

        Returns why it must be ended, empty if it has ended by itself.
        """
        reading = asyncio.create_task(self._read(limit, take, drain))
        try:
            ends: set[asyncio.Future[Any]] = {reading, self._ended}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            idle = False
            while not (reading.done() or idle):
                # What it started may hold its pipe, and write to it; silence is the end of that.
                heard = self._heard
                await asyncio.wait({reading}, timeout=_REST)
                idle = self._listens and self._heard == heard
            return reading.result() if reading.done() else ""
        finally:
            reading.cancel()

    async def _read(
        self, limit: int, take: Callable[[bytes], Wait], drain: Callable[[], Wait]
    ) -> str:
        lines, take_all = LineSplitter(limit), _in_order(take, drain)

        def hear(data: bytes) -> Wait:
            self._heard += 1
            rest = take_all(lines.feed(data))
            return None if rest is None else self._busy_with(rest)

        try:
            await read_loop(self._launched.source, hear)
        except FrameTooLongError as error:
            return str(error)
        except Exception:
            # Whoever waits for an answer is to be told, whatever it was.
            logger.exception("what the server said could not be taken")
            return FAILED
        if lines.remainder.strip():
            logger.warning("the server ended within a frame of %d bytes", len(lines.remainder))
        return ""

    async def _busy_with(self, rest: Coroutine[Any, Any, None]) -> None:
        """Wait for *rest*; meanwhile nothing more is read, so silence means nothing."""
        self._listens = False
        try:
            await rest
        finally:
            self._listens = True

    async def kill(self) -> None:
        """Leave nothing of it behind."""
        self.signal(signal.SIGKILL)
        await self._ended
        self._launched.release()
        await self._sink.close(0)
        with suppress(OSError):
            os.close(self._launched.source)


def _in_order(
    take: Callable[[bytes], Wait], drain: Callable[[], Wait]
) -> Callable[[list[bytes]], Wait]:
    """Return what gives lines to *take*, one after another, and then waits for *drain*."""

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


def _ending_of(launched: LaunchedServer) -> asyncio.Future[int]:
    """Return what is done when a server has ended: a thread of its own waits for that.

    Those of the loop are few, and there may be a process for each client.
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
    """Return what is said of a request that a server left open: *why* it was ended, or its code."""
    reason = why or (f"the server {describe_end(code)}" if code else "the server has ended")
    return f"{reason}; the request has no answer, and may have had effects"


def describe_end(code: int) -> str:
    """Return what the exit code of a process says; beyond 128 it is what a signal leaves."""
    try:
        name = signal.Signals(code - 128).name
    except ValueError:
        return f"ended with exit code {code}"
    return f"was killed by signal {code - 128} ({name}, exit code {code})"

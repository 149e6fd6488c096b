"""A server that is a command: a process with pipes, which ends with us, and all that it started."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from toolbus.hosts.mcp.frames import FrameTooLongError, Lines

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

logger = logging.getLogger("toolbus")

_PIECE = 2**18
_PDEATHSIG = 1
_REST = 0.5
"""Seconds of silence after which a server that has ended will say no more."""


async def start(command: Sequence[str]) -> Process:
    """Start *command*; raises `OSError`."""
    # A group of its own, so that what the server starts can be ended with it.
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_PIECE,
        process_group=0,
        preexec_fn=_end_with_parent(),
    )
    return Process(process)


class Process:
    """A server that was started; what it is sent after its end is dropped."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None  # noqa: S101 - for mypy: it is a pipe
        assert process.stdout is not None  # noqa: S101 - as above
        self._process, self._in, self._out = process, process.stdin, process.stdout
        self._heard, self._listens = 0, False

    def write(self, line: bytes) -> None:
        """Send it a line."""
        if not self._in.is_closing():
            self._in.write(line)

    async def drain(self) -> None:
        """Wait until it has read most of what it was sent."""
        with suppress(ConnectionError):
            await self._in.drain()

    def finish(self) -> None:
        """Tell it that nothing more comes, once it has read what waits; who hangs never does."""
        with suppress(OSError):
            self._in.close()

    def signal(self, number: int) -> None:
        """Send a signal to it and to what it has started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def end(self, grace: float, *, at_once: bool = False) -> int:
        """See to it that it ends, after *grace* seconds by force; return its exit code.

        It may end by itself, unless it is to do so *at_once*.
        """
        self.finish()
        for number in (0, signal.SIGTERM, signal.SIGKILL):
            if number or not at_once:
                self.signal(number)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), grace)
                    break
        returncode = self._process.returncode or 0
        return returncode if returncode >= 0 else 128 - returncode

    async def lines(
        self,
        limit: int,
        take: Callable[[bytes], Awaitable[None]],
        drain: Callable[[], Awaitable[None]],
    ) -> str:
        """Give *take* what it says until it ends, and wait for *drain* in between.

        Returns why it must be ended, empty if it has ended by itself.
        """
        reading = asyncio.create_task(self._read(limit, take, drain))
        ending = asyncio.create_task(self._exit())
        try:
            await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            idle = False
            while not (reading.done() or idle):
                # What it started may hold its pipe, and write to it; silence is the end of that.
                heard = self._heard
                await asyncio.wait({reading}, timeout=_REST)
                idle = self._listens and self._heard == heard
            return reading.result() if reading.done() else ""
        finally:
            reading.cancel()
            ending.cancel()

    async def _read(
        self,
        limit: int,
        take: Callable[[bytes], Awaitable[None]],
        drain: Callable[[], Awaitable[None]],
    ) -> str:
        lines = Lines(limit)
        try:
            while data := await self._listen():
                for line in lines.feed(data):
                    await take(line)
                await drain()
        except FrameTooLongError as error:
            return str(error)
        if lines.left.strip():
            logger.warning("the server ended within a frame of %d bytes", len(lines.left))
        return ""

    async def _exit(self) -> None:
        """Wait for the end of the process alone: asyncio's own `wait` waits for its pipes too."""
        while self._process.returncode is None:  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(_REST)

    async def _listen(self) -> bytes:
        self._listens = True
        data = await self._out.read(_PIECE)
        self._listens = False
        self._heard += len(data)
        return data

    async def kill(self) -> None:
        """Leave nothing of it behind."""
        self.signal(signal.SIGKILL)
        await self._process.wait()


def ended(code: int, why: str) -> str:
    """Return what is said of a request that a server left open: *why* it was ended, or its code."""
    reason = why or f"the server ended with exit code {code}"
    return f"{reason}; the request has no answer, and may have had effects"


def _end_with_parent() -> Callable[[], None] | None:
    """Return what makes a child end when we are killed; only Linux can, elsewhere None."""
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def end_with_parent() -> None:
        prctl(_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return end_with_parent

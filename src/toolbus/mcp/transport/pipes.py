"""Standard input and output without threads if they are pipes, as they are below an MCP client."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

_CHUNK = 2**16

Take: TypeAlias = Callable[[bytes], Coroutine[Any, Any, None] | None]
"""Takes a piece of what is read; what it returns is awaited before the next piece is read."""


class ByteSink(Protocol):
    """Where bytes go; *lost* is done when nobody reads them any more."""

    lost: asyncio.Future[None]

    def write(self, data: bytes) -> None:
        """Write *data*, now or soon."""

    def drain(self) -> Coroutine[Any, Any, None] | None:
        """Return what to await while too much waits to be written, or None."""

    def finish(self) -> None:
        """End it when all that waits is written."""

    async def close(self, seconds: float) -> None:
        """Do the same, but wait for that at most *seconds*."""


async def read_loop(number: int, take: Take) -> None:
    """Give *take* each piece of the input *number* until its end, or until *take* raises.

    A piece is taken in the turn of the loop in which it comes: no task has to be woken for it.
    """
    if not _is_awaitable(number):
        await _read_file(number, take)
        return
    reading, blocking = _Reading(number, take), os.get_blocking(number)
    os.set_blocking(number, False)
    try:
        reading.go_on()
        await reading.ended
    finally:
        reading.stop()
        # A terminal is shared with the shell that started us.
        with suppress(OSError):
            os.set_blocking(number, blocking)


def _is_awaitable(number: int) -> bool:
    """Return whether a loop can wait for *number*; for a regular file it cannot."""
    mode = os.fstat(number).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(number)


async def _read_file(number: int, take: Take) -> None:
    while data := await asyncio.to_thread(os.read, number, _CHUNK):
        if (rest := take(data)) is not None:
            await rest


class _Reading:
    """Reads when there is something to read; *ended* is done at the end, or with an error."""

    def __init__(self, number: int, take: Take) -> None:
        self._number, self._take = number, take
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._rest: asyncio.Task[None] | None = None

    def go_on(self) -> None:
        self._loop.add_reader(self._number, self._read)

    def stop(self) -> None:
        self._loop.remove_reader(self._number)
        if self._rest is not None:
            self._rest.cancel()

    def _read(self) -> None:
        try:
            data = os.read(self._number, _CHUNK)
            rest = self._take(data) if data else None
        except (BlockingIOError, InterruptedError):
            return
        except Exception as error:  # noqa: BLE001 - it is for whoever waits for the end
            self._end(error)
            return
        if not data:
            self._end(None)
        elif rest is not None:
            self._loop.remove_reader(self._number)
            self._rest = self._loop.create_task(rest)
            self._rest.add_done_callback(self._taken)

    def _taken(self, rest: asyncio.Task[None]) -> None:
        self._rest = None
        if rest.cancelled() or (error := rest.exception()) is not None:
            self._end(None if rest.cancelled() else error)
        elif not self.ended.done():
            self.go_on()

    def _end(self, error: BaseException | None) -> None:
        self._loop.remove_reader(self._number)
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)


async def open_sink(number: int) -> ByteSink:
    """Return the output *number*."""
    loop, sink = asyncio.get_running_loop(), _PipeSink(number)
    try:
        await loop.connect_write_pipe(lambda: sink, os.fdopen(os.dup(number), "wb", 0))
    except ValueError:
        return _FileSink(number)
    return sink


class _PipeSink(asyncio.Protocol):
    _transport: asyncio.WriteTransport

    def __init__(self, number: int) -> None:
        # Connecting it makes it one that does not block, also for who else has it.
        self._number, self._blocking = number, os.get_blocking(number)
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._free = asyncio.Event()
        self._free.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101 - what a pipe has
        self._transport = transport

    def pause_writing(self) -> None:
        self._free.clear()

    def resume_writing(self) -> None:
        self._free.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._free.set()
        if not self.lost.done():
            self.lost.set_result(None)

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def drain(self) -> Coroutine[Any, Any, None] | None:
        return None if self._free.is_set() else _until(self._free)

    def finish(self) -> None:
        self._transport.close()

    async def close(self, seconds: float) -> None:
        """Give who reads slowly a while."""
        self.finish()
        if not (await asyncio.wait({self.lost}, timeout=seconds))[0]:
            self._transport.abort()
        with suppress(OSError):
            os.set_blocking(self._number, self._blocking)


async def _until(event: asyncio.Event) -> None:
    await event.wait()


class _FileSink:
    """A regular file, to which a write never waits."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._number, view) :]

    def drain(self) -> None:
        """Wait for nothing."""

    def finish(self) -> None:
        """Leave it as it is."""

    async def close(self, seconds: float) -> None:
        """Nothing waits."""

"""Asynchronous standard input and output, without threads if they are pipes."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

_CHUNK = 2**16

Take: TypeAlias = Callable[[bytes], Coroutine[Any, Any, None] | None]
"""A receiver of chunks; a coroutine that it returns is awaited before the next chunk is read."""


class ByteSink(Protocol):
    """An output for bytes; *lost* is done when its reader is gone."""

    lost: asyncio.Future[None]

    def write(self, data: bytes) -> None:
        """Write or buffer *data*."""

    def drain(self) -> Coroutine[Any, Any, None] | None:
        """Return a coroutine to await while the buffer is full, or None."""

    def finish(self) -> None:
        """Close the output after the buffered data."""

    async def close(self, seconds: float) -> None:
        """Close the output, and wait at most *seconds* for the buffered data."""


async def read_loop(number: int, take: Take) -> None:
    """Pass each chunk of the file descriptor *number* to *take* until its end, or an error.

    A chunk is taken in the loop's turn in which it arrives: no task has to be woken for it.
    """
    if not _is_awaitable(number):
        await _read_file(number, take)
        return
    reading, blocking = _Reading(number, take), os.get_blocking(number)
    os.set_blocking(number, False)
    try:
        reading.resume()
        await reading.ended
    finally:
        reading.stop()
        # A terminal is shared with the shell that started us.
        with suppress(OSError):
            os.set_blocking(number, blocking)


def _is_awaitable(number: int) -> bool:
    """Return whether a loop can wait for *number*, which is not possible for a regular file."""
    mode = os.fstat(number).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(number)


async def _read_file(number: int, take: Take) -> None:
    while data := await asyncio.to_thread(os.read, number, _CHUNK):
        if (rest := take(data)) is not None:
            await rest


class _Reading:
    """A reader on the event loop; *ended* is done at the end of the input, or with an error."""

    def __init__(self, number: int, take: Take) -> None:
        self._number, self._take = number, take
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._rest: asyncio.Task[None] | None = None

    def resume(self) -> None:
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
        except Exception as error:  # noqa: BLE001 - raised from `ended`
            self._end(error)
            return
        if not data:
            self._end(None)
        elif rest is not None:
            self._loop.remove_reader(self._number)
            self._rest = self._loop.create_task(rest)
            self._rest.add_done_callback(self._resume_after)

    def _resume_after(self, rest: asyncio.Task[None]) -> None:
        self._rest = None
        if rest.cancelled() or (error := rest.exception()) is not None:
            self._end(None if rest.cancelled() else error)
        elif not self.ended.done():
            self.resume()

    def _end(self, error: BaseException | None) -> None:
        self._loop.remove_reader(self._number)
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)


async def open_sink(number: int) -> ByteSink:
    """Return a sink for the file descriptor *number*."""
    loop, sink = asyncio.get_running_loop(), _PipeSink(number)
    try:
        await loop.connect_write_pipe(lambda: sink, os.fdopen(os.dup(number), "wb", 0))
    except ValueError:
        return _FileSink(number)
    return sink


class _PipeSink(asyncio.Protocol):
    _transport: asyncio.WriteTransport

    def __init__(self, number: int) -> None:
        # Connecting makes the descriptor non-blocking for all processes that share it.
        self._number, self._blocking = number, os.get_blocking(number)
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._free = asyncio.Event()
        self._free.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101 - always so for a pipe
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
        """Close the pipe after its reader had *seconds* to read the rest."""
        self.finish()
        if not (await asyncio.wait({self.lost}, timeout=seconds))[0]:
            self._transport.abort()
        with suppress(OSError):
            os.set_blocking(self._number, self._blocking)


async def _until(event: asyncio.Event) -> None:
    await event.wait()


class _FileSink:
    """A sink for a regular file, whose writes never wait."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._number, view) :]

    def drain(self) -> None:
        """Return None: nothing is buffered."""

    def finish(self) -> None:
        """Do nothing: the descriptor belongs to the process."""

    async def close(self, seconds: float) -> None:
        """Do nothing: nothing is buffered."""

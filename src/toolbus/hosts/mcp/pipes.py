"""Standard input and output without threads if they are pipes, as they are below an MCP client."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Protocol

_LIMIT = 2**18


class Input(Protocol):
    """Where bytes come from."""

    async def read(self, most: int) -> bytes:
        """Return at most *most* bytes, none at the end."""
        ...

    def close(self) -> None:
        """Leave it as it was."""


class Output(Protocol):
    """Where bytes go; *lost* is done when nobody reads them any more."""

    lost: asyncio.Future[None]

    def write(self, data: bytes) -> None:
        """Write *data*, now or soon."""

    async def drain(self) -> None:
        """Wait until not too much waits to be written."""

    async def close(self) -> None:
        """Write what waits, and leave it as it was."""


async def open_input(number: int) -> Input:
    """Return the input *number*."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LIMIT)
    try:
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(number), "rb", 0)
        )
    except ValueError:
        return _FileInput(number)
    return _PipeInput(number, reader, transport)


async def open_output(number: int) -> Output:
    """Return the output *number*."""
    loop = asyncio.get_running_loop()
    try:
        transport, protocol = await loop.connect_write_pipe(
            _Writing, os.fdopen(os.dup(number), "wb", 0)
        )
    except ValueError:
        return _FileOutput(number)
    return _PipeOutput(number, transport, protocol)


class _PipeInput:
    def __init__(
        self, number: int, reader: asyncio.StreamReader, transport: asyncio.ReadTransport
    ) -> None:
        self._number, self._reader, self._transport = number, reader, transport

    async def read(self, most: int) -> bytes:
        return await self._reader.read(most)

    def close(self) -> None:
        self._transport.close()
        # A terminal is shared with the shell that started us.
        with suppress(OSError):
            os.set_blocking(self._number, True)


class _FileInput:
    """A regular file, which no loop can wait for."""

    def __init__(self, number: int) -> None:
        self._number = number

    async def read(self, most: int) -> bytes:
        return await asyncio.to_thread(os.read, self._number, most)

    def close(self) -> None:
        pass


class _Writing(asyncio.Protocol):
    def __init__(self) -> None:
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.free = asyncio.Event()
        self.free.set()

    def pause_writing(self) -> None:
        self.free.clear()

    def resume_writing(self) -> None:
        self.free.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.free.set()
        if not self.lost.done():
            self.lost.set_result(None)


class _PipeOutput:
    def __init__(self, number: int, transport: asyncio.WriteTransport, protocol: _Writing) -> None:
        self._number, self._transport, self._protocol = number, transport, protocol
        self.lost = protocol.lost

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        await self._protocol.free.wait()

    async def close(self) -> None:
        """Give who reads slowly a while."""
        self._transport.close()
        await asyncio.wait({self.lost}, timeout=5)
        with suppress(OSError):
            os.set_blocking(self._number, True)


class _FileOutput:
    """A regular file, to which a write never waits."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._number, view) :]

    async def drain(self) -> None:
        pass

    async def close(self) -> None:
        pass

"""The process that holds what is expensive, and answers the events of one working folder."""

from __future__ import annotations

import asyncio
import faulthandler
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from toolbus.errors import DecodeError
from toolbus.hosts.run import hook_client
from toolbus.hosts.run.hook_requests import (
    MAX_HEADER,
    HookRequest,
    decode_header,
    encode_answer,
    encode_moved,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.hosts.dialects.hook_events import HookAnswer
    from toolbus.hosts.run.worker_log import WorkerLog
    from toolbus.hosts.run.worker_socket import WorkerSocket

    Answering: TypeAlias = Callable[[HookRequest, bytes], Awaitable[HookAnswer | Path]]
    """What an event is answered, or the folder whose worker has its session."""

MAX_BYTES = 2 * hook_client.MAX_INPUT
"""What all events that are being read or answered may have together."""
MAX_EVENTS = 256

_REFUSED = b"-"
_HELLO = 10.0
"""Seconds in which a client must say what it wants, and those for the event itself."""
_CHECKS = 5.0
"""Seconds between two looks at whether anybody still needs the worker."""


class WorkerLimits(NamedTuple):
    """*idle* seconds without an event end a worker; *stuck* ones, in which its loop stands still.

    In *closing* seconds it must have answered what it took before it had to end.
    """

    idle: float
    stuck: float
    closing: float


class HookWorker:
    """Answers events by *answer*, for clients whose settings have *digest*.

    It ends when *changed* names a file without which it would hold something else, when its socket
    is not found any more, and when it is idle.
    """

    def __init__(
        self,
        answer: Answering,
        *,
        digest: bytes,
        changed: Callable[[], str | None],
        limits: WorkerLimits,
        log: WorkerLog,
    ) -> None:
        self._answer, self._digest, self._changed = answer, digest, changed
        self._limits, self._log = limits, log
        self._bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._reason = ""
        self._place: WorkerSocket | None = None

    async def run(self, place: WorkerSocket) -> None:
        """Answer whoever comes to *place*, until one of the reasons to end."""
        self._place = place
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._end, "it was told to end")
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # A terminal's end is not ours.
        server = await asyncio.start_unix_server(self._serve, sock=place.listener, limit=MAX_HEADER)
        self._log.write("ready")
        try:
            await self._wait(place)
        finally:
            faulthandler.cancel_dump_traceback_later()
            server.close()
            place.withdraw()
            self._log.write(f"ends: {self._reason}")
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self._limits.closing)

    async def _wait(self, place: WorkerSocket) -> None:
        """Return when there is a reason to end."""
        loop = asyncio.get_running_loop()
        self._last_event = loop.time()
        pause = min(_CHECKS, self._limits.idle)
        while not self._ended.is_set():
            # A thread of C, so that also code that never lets go of the interpreter ends.
            faulthandler.dump_traceback_later(self._limits.stuck, exit=True, file=self._log.handle)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), pause)
            if not place.is_found():
                self._end("its socket is gone")
            elif (file := self._changed()) is not None:
                self._end(f"{file!r} has changed")
            elif not self._tasks and loop.time() - self._last_event >= self._limits.idle:
                self._end("nobody needs it")

    def _end(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._ended.set()
        # The client that is refused starts the next one, which waits for nothing of this one.
        if self._place is not None:
            self._place.withdraw()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - streams run it in one
        self._tasks.add(task)
        try:
            hook_client.check_peer(writer.get_extra_info("socket"))
            request = await asyncio.wait_for(_read_header(reader), _HELLO)
            if self._takes(request):
                await self._respond(request, reader, writer)
            else:
                writer.write(_REFUSED)
                await writer.drain()
        except (OSError, EOFError, DecodeError, ValueError) as error:
            self._log.write(f"no answer: {type(error).__name__}")
        except Exception as error:  # noqa: BLE001 - a child of the client tries it again
            self._log.write(f"failed: {type(error).__name__}")
        finally:
            self._tasks.discard(task)
            self._last_event = asyncio.get_running_loop().time()
            writer.close()

    def _takes(self, request: HookRequest) -> bool:
        """Return whether an event of *request* is answered here, as it would be anew."""
        if not self._ended.is_set() and (file := self._changed()) is not None:
            self._end(f"{file!r} has changed")
        return (
            not self._ended.is_set()
            and request.digest == self._digest
            and self._bytes + request.size <= MAX_BYTES
            and len(self._tasks) <= MAX_EVENTS
        )

    async def _respond(
        self, request: HookRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._bytes += request.size
        try:
            writer.write(hook_client.TAKEN)
            data = await asyncio.wait_for(reader.readexactly(request.size), _HELLO)
            answer = await self._answer(request, data)
            if isinstance(answer, Path):
                writer.write(encode_moved(answer))
            else:
                writer.write(encode_answer(answer))
            await writer.drain()
        finally:
            self._bytes -= request.size


async def _read_header(reader: asyncio.StreamReader) -> HookRequest:
    size = int.from_bytes(await reader.readexactly(4), "big")
    if size > MAX_HEADER:
        raise DecodeError("a longer header than any client sends")
    return decode_header(await reader.readexactly(size))

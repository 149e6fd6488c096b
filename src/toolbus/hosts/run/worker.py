"""A worker: its socket, its log, and the loop that answers the events of one folder."""

from __future__ import annotations

import asyncio
import faulthandler
import fcntl
import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from toolbus.errors import DecodeError
from toolbus.hosts.run import hook_client
from toolbus.hosts.run.requests import (
    MAX_HEADER,
    HookRequest,
    decode_header,
    encode_answer,
    encode_moved,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolbus.hosts.dialects.hook_events import HookAnswer

    Answering: TypeAlias = Callable[[HookRequest, bytes], Awaitable[HookAnswer | Path]]
    """Returns the answer to an event, or the folder whose worker has its session."""

MAX_BYTES = 2 * hook_client.MAX_INPUT
"""The most bytes of all events that are read or answered at the same time."""
MAX_EVENTS = 256
LOCK = 3
"""The descriptor of the lock that the client took for the worker."""

_REFUSED = b"-"
_HELLO = 10.0
"""Seconds for the header of a client's request, and again for the event itself."""
_CHECKS = 5.0
"""Seconds between two checks whether the worker is still needed."""
_BACKLOG = 128
_MAX_LOG = 2**18


class WorkerLog:
    """A log in *file*, private to the user, without texts of events; a full log is truncated."""

    def __init__(self, file: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        self.handle = os.open(file, flags, 0o600)
        os.fchmod(self.handle, 0o600)

    def write(self, text: str) -> None:
        """Add a line; ignore errors, such as a full disk."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with suppress(OSError):
            if os.fstat(self.handle).st_size > _MAX_LOG:
                os.ftruncate(self.handle, 0)
            os.write(self.handle, f"{stamp} {os.getpid()} {text}\n".encode(errors="replace"))


class WorkerSocket:
    """A listening socket *name* in *folder*; only the holder of its lock creates or removes it.

    Raises `OSError` if the folder is accessible to others, or *lock* is not the lock of *name*.
    """

    def __init__(self, folder: bytes, name: bytes, lock: int = LOCK) -> None:
        self._path, self._lock = os.path.join(folder, name), lock  # noqa: PTH118 - bytes
        hook_client.enter(folder)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(lock), os.lstat(name + b".lock")):
            raise PermissionError(f"not the lock of {name!r}")
        os.set_inheritable(lock, False)  # noqa: FBT003 - its only signature
        with suppress(FileNotFoundError):
            os.unlink(name)  # noqa: PTH108 - bytes, in the working folder
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(name)
        os.chmod(name, 0o600)  # noqa: PTH101 - as above
        self.listener.listen(_BACKLOG)
        self._identity = self._look()

    def is_reachable(self) -> bool:
        """Return whether clients that connect to the name reach this socket."""
        return self._look() == self._identity

    def withdraw(self) -> None:
        """Remove the socket and release the lock, so that another worker can take over."""
        if self._lock < 0:
            return
        if self.is_reachable():
            with suppress(OSError):
                os.unlink(self._path)  # noqa: PTH108 - as above
                os.unlink(self._path + b".lock")  # noqa: PTH108 - as above
        os.close(self._lock)
        self._lock = -1

    def _look(self) -> tuple[int, int] | None:
        try:
            status = os.lstat(self._path)
        except OSError:
            return None
        return status.st_dev, status.st_ino


class WorkerLimits(NamedTuple):
    """The limits of a worker, in seconds.

    *idle* without an event end it, and *stuck* with a blocked loop kill it; pending events are
    answered within *closing* before it ends.
    """

    idle: float
    stuck: float
    closing: float


class HookWorker:
    """The loop that answers events by *answer*, for clients whose settings have *digest*.

    It ends when *changed* returns a changed file, when its socket is gone, and when it is idle.
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
        """Answer the clients of *place*, until there is a reason to end."""
        self._place = place
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._end, "SIGTERM")
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # A worker outlives the terminal.
        server = await asyncio.start_unix_server(self._serve, sock=place.listener, limit=MAX_HEADER)
        self._log.write("ready")
        try:
            await self._wait(place)
        finally:
            server.close()
            place.withdraw()
            self._log.write(f"ends: {self._reason}")
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self._limits.closing)

    async def _wait(self, place: WorkerSocket) -> None:
        """Wait until there is a reason to end."""
        loop = asyncio.get_running_loop()
        self._last_event = loop.time()
        pause = min(_CHECKS, self._limits.idle)
        while not self._ended.is_set():
            kill_later(self._limits.stuck, self._log.handle)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), pause)
            if not place.is_reachable():
                self._end("its socket is gone")
            elif (file := self._changed()) is not None:
                self._end(f"{file!r} has changed")
            elif not self._tasks and loop.time() - self._last_event >= self._limits.idle:
                self._end("idle")

    def _end(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._ended.set()
        # A refused client starts the next worker, which does not wait for this one.
        if self._place is not None:
            self._place.withdraw()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - streams run it in one
        self._tasks.add(task)
        try:
            hook_client.check_peer(writer.get_extra_info("socket"))
            request = await read_request(reader)
            if self._accepts(request):
                self._bytes += request.size
                try:
                    await respond(self._answer, request, reader, writer)
                finally:
                    self._bytes -= request.size
            else:
                writer.write(_REFUSED)
                await writer.drain()
        except (OSError, EOFError, DecodeError, ValueError) as error:
            self._log.write(f"no answer: {type(error).__name__}")
        except Exception as error:  # noqa: BLE001 - the client falls back to a child
            self._log.write(f"failed: {type(error).__name__}")
        finally:
            self._tasks.discard(task)
            self._last_event = asyncio.get_running_loop().time()
            writer.close()

    def _accepts(self, request: HookRequest) -> bool:
        """Return whether this worker is up to date for *request*, and has room for it."""
        if not self._ended.is_set() and (file := self._changed()) is not None:
            self._end(f"{file!r} has changed")
        return (
            not self._ended.is_set()
            and request.digest == self._digest
            and self._bytes + request.size <= MAX_BYTES
            and len(self._tasks) <= MAX_EVENTS
        )


async def read_request(reader: asyncio.StreamReader) -> HookRequest:
    """Return a client's header; raises `DecodeError`, and `OSError` if it does not come in time."""
    async with asyncio.timeout(_HELLO):
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > MAX_HEADER:
            raise DecodeError("the header is longer than a client sends")
        return decode_header(await reader.readexactly(size))


async def respond(
    answer: Answering,
    request: HookRequest,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Read the event of *request*, and write the answer that *answer* returns."""
    writer.write(hook_client.TAKEN)
    async with asyncio.timeout(_HELLO):
        data = await reader.readexactly(request.size)
    made = await answer(request, data)
    writer.write(encode_moved(made) if isinstance(made, Path) else encode_answer(made))
    await writer.drain()


def kill_later(seconds: float, handle: int) -> None:
    """End this process in *seconds*, unless called again; write a traceback to *handle*.

    A C thread does it, so that code which never releases the interpreter ends, too.
    """
    faulthandler.dump_traceback_later(seconds, exit=True, file=handle)

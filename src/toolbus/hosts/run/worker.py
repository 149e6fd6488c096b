"""A worker: its socket, its log, and the loop in which it answers the events of one folder."""

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
    """The answer to an event, or the folder whose worker has its session."""

MAX_BYTES = 2 * hook_client.MAX_INPUT
"""Bytes that all events which are being read or answered may have together."""
MAX_EVENTS = 256
LOCK = 3
"""The descriptor of the lock that a client took for the worker that it starts."""

_REFUSED = b"-"
_HELLO = 10.0
"""Seconds in which a client must say what it wants, and seconds for the event itself."""
_CHECKS = 5.0
"""Seconds between two looks at whether anybody still needs the worker."""
_BACKLOG = 128
_MAX_LOG = 2**18


class WorkerLog:
    """Lines at the end of *file*, ours alone; no text of an event. When full, it begins anew."""

    def __init__(self, file: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        self.handle = os.open(file, flags, 0o600)
        os.fchmod(self.handle, 0o600)

    def write(self, text: str) -> None:
        """Add a line; a disk that is full is no reason to end."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with suppress(OSError):
            if os.fstat(self.handle).st_size > _MAX_LOG:
                os.ftruncate(self.handle, 0)
            os.write(self.handle, f"{stamp} {os.getpid()} {text}\n".encode(errors="replace"))


class WorkerSocket:
    """A socket *name* in *folder*, listening; who has its lock alone may make or remove it.

    Raises `OSError` if the folder is not ours alone, or the lock is not that of *name*.
    """

    def __init__(self, folder: bytes, name: bytes, lock: int = LOCK) -> None:
        self._path, self._lock = os.path.join(folder, name), lock  # noqa: PTH118 - bytes
        hook_client.enter(folder)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(lock), os.lstat(name + b".lock")):
            raise PermissionError(f"no lock of {name!r}")
        os.set_inheritable(lock, False)  # noqa: FBT003 - its only signature
        with suppress(FileNotFoundError):
            os.unlink(name)  # noqa: PTH108 - bytes, in the working folder
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(name)
        os.chmod(name, 0o600)  # noqa: PTH101 - as above
        self.listener.listen(_BACKLOG)
        self._identity = self._look()

    def is_reachable(self) -> bool:
        """Return whether a client that looks for it comes here."""
        return self._look() == self._identity

    def withdraw(self) -> None:
        """Make room for another worker: no client comes here from now on."""
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
            kill_later(self._limits.stuck, self._log.handle)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), pause)
            if not place.is_reachable():
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
        except Exception as error:  # noqa: BLE001 - a child of the client tries it again
            self._log.write(f"failed: {type(error).__name__}")
        finally:
            self._tasks.discard(task)
            self._last_event = asyncio.get_running_loop().time()
            writer.close()

    def _accepts(self, request: HookRequest) -> bool:
        """Return whether an event of *request* is answered here, as it would be anew."""
        if not self._ended.is_set() and (file := self._changed()) is not None:
            self._end(f"{file!r} has changed")
        return (
            not self._ended.is_set()
            and request.digest == self._digest
            and self._bytes + request.size <= MAX_BYTES
            and len(self._tasks) <= MAX_EVENTS
        )


async def read_request(reader: asyncio.StreamReader) -> HookRequest:
    """Return the header that a client has sent; raises `DecodeError`, and `OSError` if it waits."""
    async with asyncio.timeout(_HELLO):
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > MAX_HEADER:
            raise DecodeError("a longer header than any client sends")
        return decode_header(await reader.readexactly(size))


async def respond(
    answer: Answering,
    request: HookRequest,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Read the event of *request*, and write what *answer* makes of it."""
    writer.write(hook_client.TAKEN)
    async with asyncio.timeout(_HELLO):
        data = await reader.readexactly(request.size)
    made = await answer(request, data)
    writer.write(encode_moved(made) if isinstance(made, Path) else encode_answer(made))
    await writer.drain()


def kill_later(seconds: float, handle: int) -> None:
    """End this process in *seconds*, unless this is called again before; *handle* hears where.

    A thread of C does it, so that also code that never lets go of the interpreter ends.
    """
    faulthandler.dump_traceback_later(seconds, exit=True, file=handle)

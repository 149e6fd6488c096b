"""Processes that a model starts: their output is bounded, and they end with all they started."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_READ = 65_536


class ProcessResult(Struct, frozen=True):
    """What a process said, errors included, and its *exit_status*: None if its time was up."""

    output: str
    exit_status: int | None


class BoundedOutput:
    """The head and the tail of what is written, of at most *limit* bytes in all."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head, self._tail = bytearray(), bytearray()
        self._size = 0

    def write(self, data: bytes) -> None:
        """Take *data*, and let go of what is too much in the middle."""
        self._size += len(data)
        fits = self._half - len(self._head)
        self._head += data[:fits]
        self._tail += data[max(fits, 0) :]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def text(self) -> str:
        """Return it as text, with a mark where something is missing; what is no UTF-8 is marked."""
        tail = bytes(self._tail[-self._half :])
        missing = self._size - len(self._head) - len(tail)
        head = self._head.decode(errors="replace")
        if not missing:
            return (bytes(self._head) + tail).decode(errors="replace")
        return f"{head}\n[… {missing:,} bytes are left out here …]\n{tail.decode(errors='replace')}"


async def run_process(
    command: Sequence[str],
    *,
    folder: Path,
    seconds: float,
    limit: int,
    env: Mapping[str, str] | None = None,
) -> ProcessResult:
    """Run *command* in *folder*, without input, for at most *seconds*; keep *limit* bytes.

    It has a process group of its own, which is killed at the end, also when the call is
    cancelled: what it left in the background ends with it, unless that made a group of its own.
    Raises `OSError`.
    """
    # It blocks for the moment of a fork.
    process = subprocess.Popen(  # noqa: ASYNC220, S603 - what a person was asked about
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    with process.stdout as pipe:  # type: ignore[union-attr]  # it was asked for
        output = BoundedOutput(limit)
        os.set_blocking(pipe.fileno(), False)
        loop = asyncio.get_running_loop()
        loop.add_reader(pipe, partial(_read, pipe.fileno(), output))
        # Not asyncio's own processes: those wait for the pipe as well, which others may hold open.
        waiting = loop.create_task(asyncio.to_thread(process.wait))
        try:
            async with asyncio.timeout(seconds):
                status = await asyncio.shield(waiting)
        except TimeoutError:
            status = None
        finally:
            _kill_group(process.pid)
            loop.remove_reader(pipe)
            await waiting
            while _read(pipe.fileno(), output):
                pass
    return ProcessResult(output.text(), status)


def _read(pipe: int, output: BoundedOutput) -> bool:
    """Read what is in *pipe*, and tell whether there was anything."""
    try:
        data = os.read(pipe, _READ)
    except BlockingIOError:
        return False
    output.write(data)
    return bool(data)


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)

"""Processes that a model starts: bounded output, and an end together with their descendants."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from errno import ENOENT
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from toolbus.presence.agents import JUDGED_SHELL
from toolbus.tasks.shield import shield_until_done

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_READ = 65_536
_KEEPER = Path(__file__).with_name("process_keeper.py")
_GRACE = 5.0
"""Seconds for the end of a killed command."""

_SIGNALLED = 128
"""The offset that a shell adds to the number of the signal that ended a command."""


class ProcessResult(Struct, frozen=True):
    """The *output* of a process, with its errors, and its *exit_status*, None after a timeout."""

    output: str
    exit_status: int | None


class BoundedOutput:
    """The head and the tail of an output, of at most *limit* bytes in all."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head, self._tail = bytearray(), bytearray()
        self._size = 0

    def write(self, data: bytes) -> None:
        """Add *data*, and drop bytes in the middle beyond the limit."""
        self._size += len(data)
        fits = self._half - len(self._head)
        self._head += data[:fits]
        self._tail += data[max(fits, 0) :]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def text(self) -> str:
        """Return the text, with a mark for missing bytes, and U+FFFD for invalid UTF-8."""
        tail = bytes(self._tail[-self._half :])
        missing = self._size - len(self._head) - len(tail)
        head = self._head.decode(errors="replace")
        if not missing:
            return (bytes(self._head) + tail).decode(errors="replace")
        return f"{head}\n[… {missing:,} bytes are left out here …]\n{tail.decode(errors='replace')}"


class CommandKeeper:
    """The process above *command*, in whose session that does not run; see `process_keeper`.

    *ended* is set once the command, and all that the keeper could end of it, has ended.
    """

    def __init__(self, command: Sequence[str], folder: Path, env: Mapping[str, str] | None) -> None:
        self._report = b""
        reading, writing = os.pipe()
        try:
            # This blocks only for a fork.
            self._process = subprocess.Popen(  # noqa: S603 - the judged command
                [find_python(), "-I", "-S", str(_KEEPER), str(writing), JUDGED_SHELL, *command],
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(writing,),
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self.output: IO[bytes] = self._process.stdout  # type: ignore[assignment]  # stdout=PIPE
        os.set_blocking(self.output.fileno(), False)
        self._pipe = reading
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(reading, self._hear)

    @property
    def exit_status(self) -> int:
        """The exit status of the ended command, by the conventions of a shell."""
        words = self._report.split()
        status = int(words[1]) if len(words) > 1 else -signal.SIGKILL
        return status if status >= 0 else _SIGNALLED - status

    async def close(self) -> None:
        """End the command and its descendants; return soon even if one cannot be ended."""
        if not self.ended.done():
            self._process.terminate()
            await asyncio.wait([self.ended], timeout=_GRACE)
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
        if len(words := self._report.split()) == 1:
            # The keeper was killed, or waits for a process that it cannot end.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(int(words[0]), signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._process.wait, _GRACE)

    def _hear(self) -> None:
        data = os.read(self._pipe, _READ)
        self._report += data
        if not data:
            self._loop.remove_reader(self._pipe)
            if not self.ended.done():
                self.ended.set_result(None)


async def run_process(
    command: Sequence[str],
    *,
    folder: Path,
    seconds: float,
    limit: int,
    env: Mapping[str, str] | None = None,
) -> ProcessResult:
    """Run *command* in *folder*, without input, for at most *seconds*; keep *limit* bytes.

    Its descendants end with it, also when the call is cancelled; outside of Linux, those in a
    process group of their own do not. Raises `OSError`.
    """
    keeper, loop = CommandKeeper(command, folder, env), asyncio.get_running_loop()
    with keeper.output as pipe:
        output = BoundedOutput(limit)
        loop.add_reader(pipe, partial(_read, pipe.fileno(), output))
        status: int | None = None
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(keeper.ended)
            status = keeper.exit_status
        except TimeoutError:
            pass
        finally:
            await shield_until_done(keeper.close)
            loop.remove_reader(pipe)
            while _read(pipe.fileno(), output):
                pass
    return ProcessResult(output.text(), status)


def find_python() -> str:
    """Return the path of the running interpreter; raises `OSError` if there is none.

    `sys.executable` is another program if that program embeds Python.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for path in (Path(sys.executable or "."), Path(sys.base_exec_prefix, "bin", version)):
        if path.name.lower().startswith(("python", "pypy")) and path.is_file():
            return str(path)
    reason = "commands need a Python interpreter; install one beside this program"
    raise FileNotFoundError(ENOENT, reason)


def _read(pipe: int, output: BoundedOutput) -> bool:
    """Read available data from *pipe*; return whether there was any."""
    try:
        data = os.read(pipe, _READ)
    except BlockingIOError:
        return False
    output.write(data)
    return bool(data)

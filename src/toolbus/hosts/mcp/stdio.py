"""The proxy on pipes: the client at standard input and output, the server a child process."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.hosts.mcp.frames import (
    INVALID_REQUEST,
    FrameTooLongError,
    Lines,
    error_frame,
)
from toolbus.hosts.mcp.pipes import open_output, pour
from toolbus.hosts.mcp.session import Session

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from toolbus.hosts.mcp.pipes import Output
    from toolbus.hosts.mcp.proxy import Proxy

logger = logging.getLogger("toolbus")

_PDEATHSIG = 1
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Limits(NamedTuple):
    """How long a frame may be, in bytes, and how long a server may take to end, in seconds."""

    frame: int = 2**28
    grace: float = 5.0


async def run_stdio(
    proxy: Proxy, command: Sequence[str], limits: Limits | None = None, *, output: int = 1
) -> int:
    """Stand between standard input and output and the server that *command* starts.

    Returns the server's exit code, 128 and the signal's number if one ended it. Raises `OSError`
    if it cannot be started.
    """
    limits = limits or Limits()
    server = await _start(command)
    try:
        sink = await open_output(output)
        session = Session(proxy, sink.write, server.sink.write)
        return await _Run(session, server, sink, limits).to_its_end()
    finally:
        _send(server.process, signal.SIGKILL)
        await server.process.wait()
        os.close(server.source)


class _Server(NamedTuple):
    """A server that was started: the *source* of what it says, and the *sink* of what it hears."""

    process: Process
    source: int
    sink: Output


class _Run:
    """One run of the proxy on pipes."""

    def __init__(self, session: Session, server: _Server, output: Output, limits: Limits) -> None:
        self._session, self._server, self._output = session, server, output
        self._limits, self._signal = limits, 0

    async def to_its_end(self) -> int:
        """Pass lines on until one side or a signal ends it; return the exit code."""
        drain, limit = self._server.sink.drain, self._limits.frame
        asking = asyncio.create_task(pass_requests(self._session, self._output, drain, limit))
        answering = asyncio.create_task(self._pass_answers())
        stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def stop(number: int) -> None:
            self._signal = number
            if not stopped.done():
                stopped.set_result(None)
            else:
                _send(self._server.process, number)

        with listening(stop):
            lost = asyncio.ensure_future(self._output.lost)
            ends: set[asyncio.Future[Any]] = {asking, answering, stopped, lost}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                await self._client_gone(answering)
            code = await self._server_gone(answering)
        ends.remove(stopped)
        for one in ends:
            one.cancel()
        await asyncio.wait(ends)
        await self._session.close()
        await self._output.close(self._limits.grace)
        return code

    async def _pass_answers(self) -> str:
        """Return why there are no more."""
        lines = Lines(self._limits.frame)
        try:
            await pour(self._server.source, lambda data: self._take(lines.feed(data)))
        except FrameTooLongError as error:
            return str(error)
        if lines.left.strip():
            logger.warning("the server ended within a frame of %d bytes", len(lines.left))
        return ""

    def _take(self, lines: list[bytes]) -> Coroutine[Any, Any, None] | None:
        for number, line in enumerate(lines):
            if (rest := self._session.hear(line)) is not None:
                return self._take_slowly(rest, lines[number + 1 :])
        return self._output.drain()

    async def _take_slowly(self, rest: Coroutine[Any, Any, None], lines: list[bytes]) -> None:
        """Take *lines* when the *rest* of the line before them is done."""
        await rest
        if (after := self._take(lines)) is not None:
            await after

    async def _client_gone(self, answering: asyncio.Task[str]) -> None:
        """Let the server end by itself; who does not is told to."""
        self._session.client_gone()
        if self._signal:
            _send(self._server.process, self._signal)
        else:
            await self._session.settle(self._limits.grace)
        await self._server.sink.close(self._limits.grace)
        await asyncio.wait({answering}, timeout=self._limits.grace)

    async def _server_gone(self, answering: asyncio.Task[str]) -> int:
        """See to it that the server has ended, and answer what it has not; return its code."""
        process, grace = self._server.process, self._limits.grace
        why = answering.result() if answering.done() else "it did not end by itself"
        if why:
            logger.error("the server is stopped: %s", why)
        await self._server.sink.close(grace)
        for number in (0, signal.SIGTERM, signal.SIGKILL):
            if not why or number:
                _send(process, number)
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), grace)
                    break
        code = _exit_code(process.returncode or 0)
        reason = why or f"the server ended with exit code {code}"
        self._session.server_gone(f"{reason}; the request has no answer, and may have had effects")
        await self._session.settle(grace)
        return code


async def pass_requests(
    session: Session,
    output: Output,
    drain: Callable[[], Coroutine[Any, Any, None] | None],
    limit: int,
) -> None:
    """Give the lines of standard input to *session* until its end; *drain* is for the server's."""
    lines = Lines(limit)

    def take(data: bytes) -> Coroutine[Any, Any, None] | None:
        for line in lines.feed(data):
            session.from_client(line)
        return drain()

    try:
        await pour(0, take)
    except FrameTooLongError as error:
        output.write(error_frame(None, INVALID_REQUEST, str(error)))
        return
    if lines.left:
        session.from_client(lines.left)


async def _start(command: Sequence[str]) -> _Server:
    """Start a server at pipes of ours: those of asyncio give a piece in the loop's next turn."""
    its_input, sink = os.pipe()
    source, its_output = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=its_input,
            stdout=its_output,
            # A group of its own, so that what the server starts can be ended with it.
            process_group=0,
            preexec_fn=_end_with_parent(),
        )
    except BaseException:
        os.close(sink)
        os.close(source)
        raise
    finally:
        os.close(its_input)
        os.close(its_output)
    try:
        return _Server(process, source, await open_output(sink))
    finally:
        os.close(sink)


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


def _send(process: Process, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _exit_code(returncode: int) -> int:
    return returncode if returncode >= 0 else 128 - returncode


@contextmanager
def listening(stop: Callable[[int], None]) -> Iterator[None]:
    """Call *stop* with the number of each signal that asks us to end."""
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
